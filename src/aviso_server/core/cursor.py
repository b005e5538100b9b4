"""Start and end points of a stream (docs/protocol.md#start-and-end-points)."""

import re
from dataclasses import dataclass
from typing import TypeAlias

from aviso_server.core.errors import InvalidRequest
from aviso_server.core.moment import NS_PER_SECOND, SECONDS_PER_DAY, day_number, rfc3339_offset
from aviso_server.core.operation import Operation
from aviso_server.core.wire import NotificationRequest


@dataclass(frozen=True, slots=True)
class FromSequence:
    """Start at this sequence, inclusive; 0 is the beginning."""

    sequence: int


@dataclass(frozen=True, slots=True)
class FromTime:
    """Start with the first notification stored at or after this time."""

    ns: int
    """Nanoseconds since the epoch; may lie outside what a backend can represent."""


@dataclass(frozen=True, slots=True)
class ToSequence:
    """End at this sequence, inclusive; 0 ends before everything."""

    sequence: int


@dataclass(frozen=True, slots=True)
class ToTime:
    """End with the last notification stored at or before this time."""

    ns: int
    """Nanoseconds since the epoch; may lie outside what a backend can represent."""


Start: TypeAlias = FromSequence | FromTime
End: TypeAlias = ToSequence | ToTime


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a stream a request asks for; without a start, live only."""

    start: Start | None = None
    end: End | None = None


_LAST_SEQUENCE = 2**64 - 1
_LAST_INTEGER = 2**63 - 1
_LAST_EPOCH_MS = 253_402_300_799_999
"""The last millisecond of year 9999."""

_NATURAL = re.compile(r"\+?+([0-9]++)")
_NEGATIVE = re.compile(r"-[0-9]++")

_DAY = r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
_TIME = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]+))?"
_LOOSE_DAY = _DAY.replace("{2}", "{1,2}")
_LOOSE_TIME = _TIME.replace("{2}", "{1,2}")
_OFFSET = r"(?P<sign>[+-])(?P<off_hour>[0-9]{2}):(?P<off_minute>[0-9]{2})"
_LOOSE_OFFSET = _OFFSET.replace(":(", ":?(")
_FORMATS = (
    re.compile(rf"{_DAY}[Tt ]{_TIME}(?:[Zz]|{_OFFSET})"),  # RFC 3339
    re.compile(rf"{_LOOSE_DAY} {_LOOSE_TIME}\s*{_LOOSE_OFFSET}"),  # loose, with an offset
    re.compile(rf"{_LOOSE_DAY}[T ]{_LOOSE_TIME}"),  # loose, UTC
)


def parse_sequence(name: str, text: str) -> int:
    """The sequence a ``from_id`` or ``to_id`` names, or InvalidRequest."""
    if not text.strip():
        raise InvalidRequest(
            f"{name} cannot be empty. Provide a valid sequence number or omit the field",
            field=name,
        )
    digits = _natural(text)
    # Length first: Python refuses to convert texts of more than 4300 digits.
    if digits is None or len(digits) > 20 or int(digits) > _LAST_SEQUENCE:
        raise InvalidRequest(
            f"{name} must be a valid positive integer. Got: '{text}'. "
            "Valid examples: '1', '123', '9999'",
            field=name,
        )
    return int(digits)


def _natural(text: str) -> str | None:
    """The digits of an unsigned number without leading zeros; None if the text is none."""
    match = _NATURAL.fullmatch(text)
    return None if match is None else match[1].lstrip("0") or "0"


def parse_moment(name: str, text: str) -> int:
    """Nanoseconds since the epoch of a ``from_date`` or ``to_date``, or InvalidRequest."""
    trimmed = text.strip()
    if not trimmed:
        raise InvalidRequest(
            f"{name} cannot be empty. Provide a valid datetime/timestamp or omit the field",
            field=name,
        )
    found = _moment(trimmed)
    if isinstance(found, int):
        return found
    raise InvalidRequest(
        f"{name} must be a valid datetime/timestamp. Got: '{text}'. Error: {found}. "
        "Valid examples: '2025-06-09T13:15:00Z', '2025-06-09 13:15:00+00:00', "
        "'2025-06-09 13:15:00', '1740509903', '1740509903710'",
        field=name,
    )


def refuse_ends(request: NotificationRequest, operation: Operation = Operation.NOTIFY) -> None:
    """Refuse an end point on notify and on watch."""
    if operation is Operation.REPLAY or (request.to_id is None and request.to_date is None):
        return
    endpoint = "notification" if operation is Operation.NOTIFY else operation.value
    raise InvalidRequest(
        f"to_id and to_date are only supported for the replay endpoint, not /{endpoint}",
        field="to_date" if request.to_id is None else "to_id",
    )


def window(request: NotificationRequest, operation: Operation) -> Window:
    """The window a watch or replay asks for, or InvalidRequest; after ``refuse_ends``."""
    start = _start(request)
    if operation is not Operation.REPLAY:
        return Window(start)
    if start is None:
        raise InvalidRequest(
            "Replay endpoint requires either from_id or from_date parameter. "
            "Use from_id for sequence-based replay or from_date for time-based replay.",
            field="from_id",
        )
    end = _end(request)
    _refuse_reversed(start, end)
    return Window(start, end)


def _start(request: NotificationRequest) -> Start | None:
    # Both texts are read before both are refused: a bad text is reported first.
    sequence = None if request.from_id is None else parse_sequence("from_id", request.from_id)
    ns = None if request.from_date is None else parse_moment("from_date", request.from_date)
    if sequence is not None and ns is not None:
        raise InvalidRequest(
            "Cannot specify both from_id and from_date. "
            "Please provide only one replay parameter. "
            "Use from_id for sequence-based replay or from_date for time-based replay.",
            field="from_id",
        )
    if sequence is not None:
        return FromSequence(sequence)
    return None if ns is None else FromTime(ns)


def _end(request: NotificationRequest) -> End | None:
    sequence = None if request.to_id is None else parse_sequence("to_id", request.to_id)
    ns = None if request.to_date is None else parse_moment("to_date", request.to_date)
    if sequence is not None and ns is not None:
        raise InvalidRequest(
            "Cannot specify both to_id and to_date. "
            "Please provide only one replay end parameter. "
            "Use to_id for a sequence-based end or to_date for a time-based end.",
            field="to_id",
        )
    if sequence is not None:
        return ToSequence(sequence)
    return None if ns is None else ToTime(ns)


def _refuse_reversed(start: Start, end: End | None) -> None:
    """Refuse an end before a start of the same kind; kinds are never compared."""
    match start, end:
        case FromSequence(first), ToSequence(last) if last < first:
            raise InvalidRequest(
                f"to_id ({last}) must not be lower than from_id ({first})", field="to_id"
            )
        case FromTime(first), ToTime(last) if last < first:
            raise InvalidRequest(
                f"to_date ({rfc3339_offset(last)}) must not be earlier than "
                f"from_date ({rfc3339_offset(first)})",
                field="to_date",
            )


def _moment(text: str) -> int | str:
    """Nanoseconds since the epoch, or why there are none; the first form that fits decides."""
    if _NEGATIVE.fullmatch(text):
        return f"negative unix timestamps are not supported: '{text}'"
    digits = _natural(text)
    if digits is not None:
        return _from_epoch(text, digits)
    for pattern in _FORMATS:
        match = pattern.fullmatch(text)
        if match is not None:
            ns = _instant(match)
            if ns is not None:
                return ns
    return (
        "expected ISO-8601 datetime (RFC3339/space-separated with optional timezone) "
        "or unix epoch seconds/milliseconds"
    )


def _from_epoch(text: str, digits: str) -> int | str:
    """Seconds up to 11 digits, milliseconds beyond; leading zeros are already gone."""
    if len(digits) > 19 or int(digits) > _LAST_INTEGER:
        return f"failed to parse unix timestamp '{text}': number too large to fit in target type"
    number = int(digits)
    if len(digits) <= 11:
        return number * NS_PER_SECOND  # 11 digits end in year 5138, so no upper bound is needed
    if number > _LAST_EPOCH_MS:
        return f"invalid unix milliseconds timestamp '{text}'"
    return number * (NS_PER_SECOND // 1000)


def _instant(match: re.Match[str]) -> int | None:
    """The instant of a matched date and time; None when calendar or clock has no such moment."""
    part = match.groupdict()
    hour, minute, second = int(part["hour"]), int(part["minute"]), int(part["second"])
    if hour > 23 or minute > 59 or second > 60:
        return None
    try:
        day = day_number(int(part["year"]), int(part["month"]), int(part["day"]))
    except ValueError:
        return None
    offset = 0
    if part.get("sign"):
        off_hour, off_minute = int(part["off_hour"]), int(part["off_minute"])
        if off_hour > 23 or off_minute > 59:
            return None
        offset = (off_hour * 60 + off_minute) * 60 * (-1 if part["sign"] == "-" else 1)
    whole = day * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second - offset
    # The whole of a leap second is the first instant of the next minute, so it has no fraction.
    fraction = "" if second == 60 else part["fraction"] or ""
    return whole * NS_PER_SECOND + int(fraction[:9].ljust(9, "0"))
