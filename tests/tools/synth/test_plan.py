"""Plans of synthetic histories and how they are cut."""

from collections import defaultdict
from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.synth import BadPlan, Plan, parts, tasks
from tools.synth.eventtypes import EVENT_TYPES
from tools.synth.plan import PER_DAY, apportion

START = date(2026, 1, 1)


@given(st.integers(0, 10**12), st.lists(st.integers(0, 10**9), max_size=20))
def test_shares_add_up(count: int, weights: list[int]) -> None:
    """Shares are whole, add up exactly, and none is a whole one off its proportion."""
    shares = apportion(count, np.array(weights, np.int64)).tolist()
    total = sum(weights)
    if total:
        assert sum(shares) == count
        off = (abs(a * total - count * w) for a, w in zip(shares, weights, strict=True))
        assert all(x <= total for x in off)
    else:
        assert shares == [0] * len(weights)


@pytest.mark.parametrize(("days", "count"), [(1, 1), (1, 999), (3, 5000), (2, 1_000_000)])
def test_parts_have_all_sequences_once(days: int, count: int) -> None:
    """The parts of an event type follow each other in time and number their rows from 1 on."""
    made = parts(Plan(START, days, count, seed=3))
    assert sum(part.count for part in made) == count
    reached: defaultdict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for part in made:
        hour, last = reached[part.event_type]
        assert part.hour > hour
        assert part.first == last + 1
        reached[part.event_type] = (part.hour, last + part.count)
    if count >= 5000:
        assert set(reached) == set(EVENT_TYPES)


def test_tasks_hold_every_part_once() -> None:
    """A task has parts of one event type and day, and only a single part may be too large."""
    made = parts(Plan(START, 2, 40_000))
    cut = list(tasks(made, most=3000))
    assert [part for task in cut for part in task] == made
    for task in cut:
        assert len({(part.event_type, part.day) for part in task}) == 1
        assert len(task) == 1 or sum(part.count for part in task) <= 3000


def test_what_is_not_given_follows_from_an_ordinary_day() -> None:
    """Days from the count, or the count from days."""
    assert Plan.of(START) == Plan(START, 1, PER_DAY)
    assert Plan.of(START, days=3) == Plan(START, 3, 3 * PER_DAY)
    assert Plan.of(START, count=PER_DAY + 1) == Plan(START, 2, PER_DAY + 1)
    assert Plan.of(START, days=9, count=5, seed=2) == Plan(START, 9, 5, 2)


@pytest.mark.parametrize(
    ("start", "asked"),
    [
        (START, {"days": 0}),
        (START, {"count": 0}),
        (START, {"seed": -1}),
        (date(1969, 1, 1), {}),
        (date(9999, 12, 30), {"days": 5}),
    ],
)
def test_plans_that_make_no_sense(start: date, asked: dict[str, int]) -> None:
    """They are refused with a reason."""
    with pytest.raises(BadPlan):
        Plan.of(start, **asked)
