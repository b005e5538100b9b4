"""The plan of the maintenance job, made from the table's log."""

from collections import Counter
from datetime import date, timedelta
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aviso_server.lake.inventory import Inventory, TableFile
from aviso_server.lake.ranges import Ints
from aviso_server.lake.tombstones import Intervals
from aviso_server.pipeline.maintain.plan import (
    MaintainPlan,
    MaintainPolicy,
    make_plan,
    suspects,
    wholly_hidden,
)

DAY = date(2026, 1, 1)
TARGET = 100


def _file(number: int, size: int, *, first: int, rows: int = 10, day: date = DAY) -> TableFile:
    return TableFile(f"f{number}", size, "mars", day, rows, first, first + rows - 1)


@st.composite
def _tables(draw: st.DrawFn) -> Inventory:
    sizes = draw(st.lists(st.tuples(st.integers(1, 250), st.integers(0, 3)), max_size=40))
    return Inventory.of(
        _file(number, size, first=1 + 10 * number, day=DAY + timedelta(days=day))
        for number, (size, day) in enumerate(sizes)
    )


def _counts(files: Inventory, hidden: dict[str, int]) -> Ints:
    return np.array([hidden.get(file.path, 0) for file in files], np.int64)


def _touched(plan: MaintainPlan) -> list[str]:
    removed = [file.path for item in plan.removals for file in item.files]
    return removed + [file.path for item in plan.rewrites for file in item.files]


def _applied(files: Inventory, plan: MaintainPlan) -> Inventory:
    """The table after the plan, if nothing is compressed any better."""
    gone = set(_touched(plan))
    made = [
        TableFile(
            f"new{number}",
            item.size,
            item.event_type,
            item.day,
            item.files.rows - item.hidden,
            item.files[0].first,
            item.files[-1].last,
        )
        for number, item in enumerate(plan.rewrites)
    ]
    return Inventory.of([file for file in files if file.path not in gone] + made)


@given(_tables(), st.integers(2, 5), st.data())
def test_a_plan_touches_each_file_once_and_settles(
    files: Inventory, min_files: int, data: st.DataObject
) -> None:
    """No file is in two places of a plan, results fit the target, and a second plan is empty."""
    hidden = data.draw(
        st.dictionaries(st.sampled_from([f.path for f in files]), st.integers(1, 10))
        if files
        else st.just({})
    )
    policy = MaintainPolicy(TARGET, min_files)
    plan = make_plan(files, policy, today=DAY, hidden=_counts(files, hidden))
    touched = Counter(_touched(plan))
    assert set(touched.values()) <= {1}
    assert touched.keys() >= {path for path, count in hidden.items() if count}
    for item in plan.rewrites:
        assert len({(file.event_type, file.day) for file in item.files}) == 1
        assert item.size <= TARGET or len(item.files) == 1
        assert item.hidden == sum(hidden.get(file.path, 0) for file in item.files)
        assert len(item.files) >= min_files or item.hidden
    again = make_plan(_applied(files, plan), policy, today=DAY)
    assert all(len(item.files) > 1 for item in again.rewrites)
    assert again.removals == ()
    if not hidden:
        assert again.rewrites == ()


@given(_tables())
def test_results_of_a_plan_do_not_overlap(files: Inventory) -> None:
    """Only neighbours are put together: readers by sequence open one file after the other."""
    plan = make_plan(files, MaintainPolicy(TARGET), today=DAY)
    after = sorted(_applied(files, plan), key=lambda file: (file.day, file.first))
    for one, other in pairwise(after):
        assert one.day != other.day or one.last < other.first


def test_days_beyond_retention_go_as_a_whole() -> None:
    """Each event type has its own retention, and a star stands for the others."""
    days = [_file(n, 10, first=10 * n + 1, day=DAY + timedelta(days=n)) for n in range(5)]
    files = Inventory.of([*days, TableFile("other", 10, "diss", DAY, 1, 1, 1)])
    today = DAY + timedelta(days=4)
    plan = make_plan(files, MaintainPolicy(retention_days={"mars": 2}), today=today)
    assert [(item.event_type, item.day, item.why) for item in plan.removals] == [
        ("mars", DAY, "expired"),
        ("mars", DAY + timedelta(days=1), "expired"),
    ]
    both = MaintainPolicy(retention_days={"mars": 10, "*": 3})
    assert [item.event_type for item in make_plan(files, both, today=today).removals] == ["diss"]


def test_files_without_a_visible_row_go_unread() -> None:
    """A wiped event type costs no reading; partly hidden files are looked into."""
    files = Inventory.of(_file(n, 90, first=10 * n + 1) for n in range(4))
    graves = {"mars": Intervals(np.array([1, 35]), np.array([20, 35]))}
    assert wholly_hidden(files, graves).tolist() == [True, True, False, False]
    assert suspects(files, graves).tolist() == [False, False, False, True]
    hidden = {"f0": 10, "f1": 10, "f3": 1}
    plan = make_plan(files, MaintainPolicy(TARGET), today=DAY, hidden=_counts(files, hidden))
    assert [[f.path for f in item.files] for item in plan.removals] == [["f0", "f1"]]
    assert [([f.path for f in item.files], item.hidden) for item in plan.rewrites] == [(["f3"], 1)]


def test_everything_is_written_again_on_request() -> None:
    """Then files that are large enough are written again too, alone."""
    files = Inventory.of(_file(n, 90, first=10 * n + 1) for n in range(3))
    assert make_plan(files, MaintainPolicy(TARGET), today=DAY) == MaintainPlan()
    plan = make_plan(files, MaintainPolicy(TARGET, everything=True), today=DAY)
    assert [len(item.files) for item in plan.rewrites] == [1, 1, 1]
