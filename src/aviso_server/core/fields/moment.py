"""Fields that are moments: a calendar date, a time of day."""

import calendar
import datetime as dt
import re
from dataclasses import dataclass
from typing import ClassVar

from aviso_server.core.errors import InvalidRequest
from aviso_server.core.fields.field import ScalarField
from aviso_server.core.json import Json

COMPACT = "%Y%m%d"
DASHED = "%Y-%m-%d"
DATE_FORMATS = (COMPACT, DASHED)

_DATE = re.compile(
    r"([0-9]{4}) (?: -([0-9]{2})-([0-9]{2}) | ([0-9]{2})([0-9]{2}) | -([0-9]{3}) )",
    re.VERBOSE,
)
_HOUR = re.compile(r"[0-9]{1,2}")
_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2})")
_COMPACT_CLOCK = re.compile(r"([0-9]{2})([0-9]{2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class DateField(ScalarField):
    """A date of the proleptic Gregorian calendar, years 0001 to 9999."""

    canonical_format: str = COMPACT

    type: ClassVar[str] = "DateHandler"

    def options(self) -> dict[str, Json]:
        """The output format, even if it is the default."""
        return {"canonical_format": self.canonical_format}

    def canonical(self, text: str) -> str:
        """The date in the output format."""
        date = read_date(text)
        if date is None:
            raise InvalidRequest(
                f"Failed to parse date value for field '{self.name}'",
                details=f"Field '{self.name}' contains invalid date '{text}'. "
                "Expected: YYYY-MM-DD, YYYYMMDD, or YYYY-DDD",
            )
        # isoformat pads years below 1000, which strftime does not on every platform.
        dashed = date.isoformat()
        return dashed if self.canonical_format == DASHED else dashed.replace("-", "")


def read_date(text: str) -> dt.date | None:
    """The date that a text spells in one of the three forms, or None."""
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    year = int(found[1])
    try:
        if found[6] is None:
            return dt.date(year, int(found[2] or found[4]), int(found[3] or found[5]))
        day = int(found[6])
        if not 1 <= day <= 365 + calendar.isleap(year):
            return None
        return dt.date(year, 1, 1) + dt.timedelta(days=day - 1)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeField(ScalarField):
    """A time of day, written HHMM."""

    type: ClassVar[str] = "TimeHandler"

    def canonical(self, text: str) -> str:
        """Two digits of hours, two of minutes."""
        hours, minutes = self._read(text)
        if hours > 23:
            raise InvalidRequest(
                f"Field '{self.name}' has invalid hours: {hours}. "
                "Hours must be 0-23 in 24-hour format"
            )
        if minutes > 59:
            raise InvalidRequest(
                f"Field '{self.name}' has invalid minutes: {minutes}. Minutes must be 0-59"
            )
        return f"{hours:02}{minutes:02}"

    def _read(self, text: str) -> tuple[int, int]:
        """Hours and minutes as written; the shape decides which message a bad text gets."""
        where = f"Field '{self.name}' has invalid"
        if _HOUR.fullmatch(text):
            return int(text), 0
        if ":" in text:
            found = _CLOCK.fullmatch(text)
            if found is None:
                raise InvalidRequest(
                    f"{where} HH:MM format '{text}'. Expected format: HH:MM (e.g., 14:30, 9:05)"
                )
        elif len(text) == 4:
            found = _COMPACT_CLOCK.fullmatch(text)
            if found is None:
                raise InvalidRequest(
                    f"{where} HHMM format '{text}'. "
                    "Expected format: HHMM with exactly 4 digits (e.g., 1430, 0905)"
                )
        else:
            raise InvalidRequest(f"{where} time format '{text}'. Expected: H, HH, HH:MM, or HHMM")
        return int(found[1]), int(found[2])
