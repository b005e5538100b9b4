"""Moments as text: nanoseconds since the epoch in the spellings of the wire.

Every function is total. A request may name an instant just outside the years 0001 to 9999 (by
an offset), so the calendar is counted in cycles of 400 years instead of with ``datetime``, which
ends there. Years outside 0000 to 9999 carry a sign, as ISO 8601 wants.
"""

from datetime import date, datetime
from functools import lru_cache

NS_PER_SECOND = 1_000_000_000
SECONDS_PER_DAY = 86_400
EPOCH_DAY = date(1970, 1, 1).toordinal()
"""Days from 0001-01-01, which is day 1, to the epoch."""
CYCLE_DAYS = 146_097
"""Days in 400 years, after which the Gregorian calendar repeats."""


def rfc3339(ns: int) -> str:
    """UTC with ``Z`` and the shortest lossless of 0, 3, 6 or 9 fraction digits."""
    second, fraction = divmod(ns, NS_PER_SECOND)
    return f"{_whole(second)}{_digits(fraction)}Z"


def rfc3339_offset(ns: int) -> str:
    """The same instant and precision with ``+00:00`` in place of ``Z``."""
    second, fraction = divmod(ns, NS_PER_SECOND)
    return f"{_whole(second)}{_digits(fraction)}+00:00"


def seconds(ns: int) -> str:
    """``YYYY-MM-DDTHH:MM:SSZ``, truncated towards the past."""
    return f"{_whole(ns // NS_PER_SECOND)}Z"


def time_ns(text: str) -> int:
    """Nanoseconds of a time as ``rfc3339`` and NATS write it: UTC, up to nine fraction digits."""
    second, _, fraction = text.removesuffix("Z").partition(".")
    # Library dates end at microseconds.
    return _second_ns(second) + int(fraction.ljust(9, "0") or "0")


def day_number(year: int, month: int, day: int) -> int:
    """Days since the epoch of a date in years 0000 to 9999; ValueError if there is none such."""
    if year == 0:
        return date(400, month, day).toordinal() - CYCLE_DAYS - EPOCH_DAY
    return date(year, month, day).toordinal() - EPOCH_DAY


def _digits(fraction_ns: int) -> str:
    if fraction_ns == 0:
        return ""
    if fraction_ns % 1_000_000 == 0:
        return f".{fraction_ns // 1_000_000:03}"
    if fraction_ns % 1000 == 0:
        return f".{fraction_ns // 1000:06}"
    return f".{fraction_ns:09}"


# Notifications arrive in time order, so neighbours mostly share their second.
@lru_cache(maxsize=1024)
def _second_ns(text: str) -> int:
    return int(datetime.fromisoformat(text + "+00:00").timestamp()) * NS_PER_SECOND


@lru_cache(maxsize=1024)
def _whole(second: int) -> str:
    days, rest = divmod(second, SECONDS_PER_DAY)
    cycles, day = divmod(days + EPOCH_DAY - 1, CYCLE_DAYS)
    in_cycle = date.fromordinal(day + 1)
    minutes, s = divmod(rest, 60)
    hour, minute = divmod(minutes, 60)
    number = in_cycle.year + 400 * cycles
    year = f"{number:04}" if 0 <= number <= 9999 else f"{number:+05}"
    return f"{year}-{in_cycle.month:02}-{in_cycle.day:02}T{hour:02}:{minute:02}:{s:02}"
