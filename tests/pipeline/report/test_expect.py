"""What is expected is learned from earlier days; what is late or missing is reported. No Spark."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aviso_server.pipeline.report.expect import (
    DAY_S,
    DUE,
    LATE,
    MISSING,
    NEW,
    ON_TIME,
    Span,
    Verdict,
    assess,
)

LONG_AFTER = 1e12


def _assessed(
    arrivals: dict[int, float], *days: int, as_of_s: float = LONG_AFTER, base_s: int = 0
) -> list[Verdict]:
    """Verdicts on some days, from delays by day."""
    seen = np.array(list(arrivals), np.int64)
    delays = np.array(list(arrivals.values()), np.float64)
    span = Span(min(days), max(days), as_of_s)
    made = assess(seen, delays, base_s=base_s, span=span)
    return [verdict for verdict in made if verdict.day in days]


def _kinds(arrivals: dict[int, float], *days: int) -> list[str | None]:
    found = {verdict.day: verdict.kind for verdict in _assessed(arrivals, *days)}
    return [found.get(day) for day in days]


def test_what_came_every_day_is_expected_the_next_day() -> None:
    """On time, late beyond the margin, or missing."""
    past = {day: 6 * 3600.0 + day for day in range(10)}
    assert _kinds({**past, 10: 6 * 3600.0}, 10) == [ON_TIME]
    assert _kinds({**past, 10: 6 * 3600.0 + 899}, 10) == [ON_TIME]
    assert _kinds({**past, 10: 6 * 3600.0 + 3600}, 10) == [LATE]
    assert _kinds(past, 10) == [MISSING]


def test_nothing_is_expected_of_what_was_seen_for_less_than_a_week() -> None:
    """What comes is new, what does not come is not missed."""
    past = dict.fromkeys(range(6), 100.0)
    assert _kinds({**past, 6: 100.0, 7: 100.0}, 6, 7) == [NEW, ON_TIME]
    assert _kinds(past, 6) == [None]


def test_a_late_day_does_not_make_the_next_late_day_usual() -> None:
    """Median and middle half ignore a few bad days."""
    past = dict.fromkeys(range(14), 3600.0) | {4: 20_000.0, 9: 30_000.0}
    (verdict,) = _assessed({**past, 14: 9000.0}, 14)
    assert (verdict.kind, verdict.usual_s, verdict.limit_s) == (LATE, 3600.0, 4500.0)


def test_a_product_that_varies_has_a_wider_margin() -> None:
    """Three times the spread of the middle half, where that is more than the grace."""
    past = {day: 3600.0 + 1200.0 * (day % 5) for day in range(25)}
    (verdict,) = _assessed({**past, 25: 3600.0 + 4 * 1200 + 1800}, 25)
    assert verdict.usual_s == 6000.0
    assert verdict.limit_s == 6000.0 + 3 * 2400
    assert verdict.kind == ON_TIME


def test_what_was_retired_is_missed_for_some_days_and_then_forgotten() -> None:
    """Otherwise a report would complain for ever."""
    past = dict.fromkeys(range(28), 100.0)
    kinds = _kinds(past, *range(28, 50))
    assert kinds[:3] == [MISSING] * 3
    assert kinds[-10:] == [None] * 10


def test_a_product_of_one_day_of_the_week_is_expected_on_that_day() -> None:
    """Other days do not miss it, and its delay is that of its own day."""
    past = dict.fromkeys((0, 7, 14, 21), 500.0)
    assert _kinds(past, *range(22, 29)) == [None] * 6 + [MISSING]
    assert _kinds({**past, 28: 5000.0}, 28) == [LATE]


def test_what_is_not_over_its_limit_yet_is_due() -> None:
    """The limit counts from the base time, which is not midnight."""
    past = dict.fromkeys(range(8), 3600.0)
    limit = 8 * DAY_S + 43_200 + 3600 + 900
    for as_of_s, kind in ((limit - 1, DUE), (limit + 1, MISSING)):
        (verdict,) = _assessed(past, 8, as_of_s=as_of_s, base_s=43_200)
        assert verdict.kind == kind
        assert verdict.finding == (kind == MISSING)


def test_only_the_days_before_a_day_count_for_it() -> None:
    """Judged again next week, the same day gets the same verdict."""
    past = dict.fromkeys(range(10), 100.0)
    later = dict.fromkeys(range(11, 30), 50_000.0)
    assert _assessed(past, 10) == _assessed({**past, **later}, 10)


@given(st.dictionaries(st.integers(0, 60), st.floats(0, 1e6)), st.randoms())
def test_the_order_of_arrivals_does_not_matter(arrivals: dict[int, float], draw: object) -> None:
    """And the earliest of several arrivals on a day is the one that counts."""
    days = np.array([*arrivals, *arrivals], np.int64)
    delays = np.array([*arrivals.values(), *(d + 1e5 for d in arrivals.values())], np.float64)
    span = Span(0, 61, LONG_AFTER)
    shuffled = list(range(len(days)))
    draw.shuffle(shuffled)  # type: ignore[attr-defined]
    once = np.array(list(arrivals), np.int64), np.array(list(arrivals.values()), np.float64)
    assert assess(days[shuffled], delays[shuffled], base_s=0, span=span) == assess(
        *once, base_s=0, span=span
    )


@pytest.mark.parametrize("days", [[], [5]])
def test_little_or_no_past_is_no_error(days: list[int]) -> None:
    """One day is new, none is nothing."""
    found = assess(
        np.array(days, np.int64), np.array([1.0] * len(days)), base_s=0, span=Span(0, 9, 1e12)
    )
    assert [verdict.kind for verdict in found] == [NEW] * len(days)
