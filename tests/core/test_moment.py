"""Moments as text."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aviso_server.core.moment import day_number, rfc3339, rfc3339_offset, seconds, time_ns

FIRST_NS = -62_135_596_800 * 10**9
LAST_NS = 253_402_300_800 * 10**9 - 1
MOMENTS = st.integers(FIRST_NS, LAST_NS)


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.000000001Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (1_740_509_903_710_000_000, "2025-02-25T18:58:23.710Z"),
        (1_740_509_903_710_050_000, "2025-02-25T18:58:23.710050Z"),
        (1_740_509_903_000_000_010, "2025-02-25T18:58:23.000000010Z"),
        (FIRST_NS, "0001-01-01T00:00:00Z"),
        (LAST_NS, "9999-12-31T23:59:59.999999999Z"),
    ],
)
def test_the_fraction_is_the_shortest_lossless_one(ns: int, text: str) -> None:
    """0, 3, 6 or 9 digits, never more than needed."""
    assert rfc3339(ns) == text
    assert rfc3339_offset(ns) == text.removesuffix("Z") + "+00:00"


@given(MOMENTS)
def test_no_nanosecond_is_lost(ns: int) -> None:
    """The text names exactly the instant it was made from."""
    whole, _, fraction = rfc3339(ns).removesuffix("Z").partition(".")
    assert len(fraction) in (0, 3, 6, 9)
    second = datetime.fromisoformat(whole).replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    assert (second.days * 86400 + second.seconds) * 10**9 + int(fraction.ljust(9, "0")) == ns


@given(MOMENTS)
def test_seconds_are_truncated_towards_the_past(ns: int) -> None:
    """Whole seconds in 20 characters, never later than the moment."""
    assert seconds(ns) == rfc3339(ns // 10**9 * 10**9)
    assert len(seconds(ns)) == 20


@given(MOMENTS, MOMENTS)
def test_text_order_is_time_order(one: int, other: int) -> None:
    """Whole seconds compare as their moments do."""
    assert (seconds(one) <= seconds(other)) or one > other


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (LAST_NS + 1, "+10000-01-01T00:00:00Z"),
        (FIRST_NS - 10**9, "0000-12-31T23:59:59Z"),
        (-62_167_219_201 * 10**9, "-0001-12-31T23:59:59Z"),
    ],
)
def test_moments_outside_the_calendar_of_datetime_have_texts_too(ns: int, text: str) -> None:
    """An offset can push a requested moment over either end; showing it never fails."""
    assert seconds(ns) == text


def test_day_numbers_reach_back_to_year_0() -> None:
    """Year 0000 is a leap year that ends the day before 0001-01-01."""
    assert day_number(1970, 1, 1) == 0
    assert day_number(1, 1, 1) - day_number(0, 12, 31) == 1
    assert day_number(0, 3, 1) - day_number(0, 2, 29) == 1


@pytest.mark.parametrize(("year", "month", "day"), [(2025, 2, 29), (2025, 13, 1), (0, 1, 0)])
def test_days_that_do_not_exist_are_refused(year: int, month: int, day: int) -> None:
    """A date outside the calendar is a ValueError."""
    with pytest.raises(ValueError, match=r"month|day"):
        day_number(year, month, day)


@given(st.integers(0, 2**63 - 1))
def test_times_keep_their_nanoseconds(ns: int) -> None:
    """Storage times are exact, however many fraction digits the server writes."""
    text = rfc3339(ns)
    assert time_ns(text) == ns
    head, dot, fraction = text.removesuffix("Z").partition(".")
    assert time_ns(f"{head}{dot}{fraction.rstrip('0')}Z".replace(".Z", "Z")) == ns
