"""Date and time fields."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aviso_server.core.errors import InvalidRequest
from aviso_server.core.fields.moment import COMPACT, DASHED, DateField, TimeField

DATE = DateField(name="f", required=True)
TIME = TimeField(name="f", required=True)


@given(st.dates(), st.sampled_from([COMPACT, DASHED]))
def test_three_shapes_of_one_date(date: dt.date, wanted: str) -> None:
    """Every date of the calendar reads the same from all shapes, and from its own output."""
    field = DateField(name="f", required=True, canonical_format=wanted)
    dashed = date.isoformat()
    compact = dashed.replace("-", "")
    ordinal = f"{date.year:04}-{date.timetuple().tm_yday:03}"
    expected = compact if wanted == COMPACT else dashed
    assert {field.canonical(text) for text in (dashed, compact, ordinal)} == {expected}
    assert field.canonical(expected) == expected


@pytest.mark.parametrize(
    "text",
    [
        "2025-366",
        "2025-000",
        "2023-02-29",
        "2025-13-01",
        "2025-04-31",
        "2025",
        "2025-1-5",
        "2025-12",
        "2025125",
        "2025/12/25",
        " 2025-12-25",
        "2025-12-25T00:00:00",
        "2025-12-25\n",
        "0000-01-01",
        "0000-001",
        "9999-366",
        "٢٠٢٥-12-25",
        "not-a-date",
        "*",
        "",
    ],
)
def test_refused_dates(text: str) -> None:
    """Anything else is refused with the value in the details."""
    with pytest.raises(InvalidRequest) as caught:
        DATE.canonical(text)
    assert caught.value.message == "Failed to parse date value for field 'f'"
    assert caught.value.details == (
        f"Field 'f' contains invalid date '{text}'. Expected: YYYY-MM-DD, YYYYMMDD, or YYYY-DDD"
    )


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        *((text, "0000") for text in ("0", "00", "0:00", "00:00", "0000")),
        ("9:05", "0905"),
        ("0905", "0905"),
        ("9", "0900"),
        ("14", "1400"),
        ("14:00", "1400"),
        ("23:59", "2359"),
        ("2359", "2359"),
    ],
)
def test_times(text: str, canonical: str) -> None:
    """The output is always HHMM."""
    assert TIME.canonical(text) == canonical


HOURS = "Field 'f' has invalid hours: {}. Hours must be 0-23 in 24-hour format"
MINUTES = "Field 'f' has invalid minutes: {}. Minutes must be 0-59"
CLOCK = "Field 'f' has invalid HH:MM format '{}'. Expected format: HH:MM (e.g., 14:30, 9:05)"
DIGITS = (
    "Field 'f' has invalid HHMM format '{}'. "
    "Expected format: HHMM with exactly 4 digits (e.g., 1430, 0905)"
)
OTHER = "Field 'f' has invalid time format '{}'. Expected: H, HH, HH:MM, or HHMM"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("24", HOURS.format(24)),
        ("99", HOURS.format(99)),
        ("24:00", HOURS.format(24)),
        ("2400", HOURS.format(24)),
        ("24:60", HOURS.format(24)),
        ("12:60", MINUTES.format(60)),
        ("1260", MINUTES.format(60)),
        *(
            (text, CLOCK.format(text))
            for text in ("12:5", "1:2", "12:ab", ":30", "12:30:00", " 12:30", "12:30 ")
        ),
        *((text, DIGITS.format(text)) for text in ("12a4", " 12 ", "12-3", "١٢٣٤")),
        *((text, OTHER.format(text)) for text in ("", "123", "12345", "1a", "12.30", "invalid")),
    ],
)
def test_refused_times(text: str, message: str) -> None:
    """The shape of the text decides the message."""
    with pytest.raises(InvalidRequest) as caught:
        TIME.canonical(text)
    assert caught.value.message == message


@given(st.integers(0, 23), st.integers(0, 59))
def test_times_are_idempotent(hours: int, minutes: int) -> None:
    """Canonical text is its own canonical form."""
    once = TIME.canonical(f"{hours}:{minutes:02}")
    assert TIME.canonical(once) == once == f"{hours:02}{minutes:02}"
