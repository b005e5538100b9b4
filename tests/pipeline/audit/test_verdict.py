"""Judging evidence, against a slow judge that looks at one sequence at a time."""

from typing import get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aviso_server.pipeline.audit import evidence
from aviso_server.pipeline.audit import verdict as verdicts
from aviso_server.pipeline.audit.evidence import Finding, Rows, Side, cap_findings, cut, name_ranges
from aviso_server.pipeline.audit.verdict import AuditTally

SIZE = 12

Facts = dict[str, set[int]]


@pytest.fixture(autouse=True, scope="module")
def _small_blocks() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "BLOCK", SIZE)
        patch.setattr(verdicts, "BLOCK", SIZE)
        yield


def _ints(values: list[int]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array(sorted(values), np.int64)


def _verdict(
    facts: Facts, *, twice: set[int], changed: set[int]
) -> tuple[AuditTally, dict[str, set[int]]]:
    """The verdicts on all blocks, as sets of sequences by kind."""
    rows = Rows("mars")
    for side in get_args(Side):
        there = _ints(list(facts.get(side, ())))
        if side == "lake":
            there = _ints([*there.tolist(), *twice])
            rows.runs("lake", there, hashes=there.astype(np.uint64))
        elif side == "log":
            hashes = np.array([n + 1000 * (n in changed) for n in there.tolist()], np.uint64)
            rows.runs("log", there, hashes=hashes)
        else:
            rows.runs(side, there)
    table = pa.Table.from_batches([rows.batch()])
    tally, found = AuditTally(), dict[str, set[int]]()
    for block in sorted(set(table["block"].to_pylist())):
        part = table.filter(pa.array([n == block for n in table["block"].to_pylist()]))
        verdict = verdicts.verdict_on(block, part)
        tally.add(verdict.tally)
        for item in verdict.findings:
            assert item.count == item.last - item.first + 1
            found.setdefault(item.kind, set()).update(range(item.first, item.last + 1))
    return tally, found


def _slowly(facts: Facts, sequence: int, *, twice: set[int], changed: set[int]) -> set[str]:
    """What is to be said of one sequence."""
    is_in = {side for side, there in facts.items() if sequence in there}
    said = set()
    if "lake" in is_in and (sequence in twice or "letter" in is_in):
        said.add("duplicate")
    if "lake" in is_in and "expected" not in is_in:
        said.add("unexpected")
    in_log = bool(is_in & {"log", "log_letter"})
    covered = "retained" in is_in and "trimmed" not in is_in
    there = bool(is_in & {"lake", "letter"})
    if "hidden" in is_in:
        return said | ({"undeleted"} if in_log and covered and "expected" in is_in else set())
    same_kind = ("lake" in is_in and "log" in is_in) and sequence not in changed
    if ("lake" in is_in and "log" in is_in and not same_kind) or (
        ("lake" in is_in and "log_letter" in is_in) or ("letter" in is_in and "log" in is_in)
    ):
        said.add("differs")
    if "expected" not in is_in:
        return said
    if there:
        return said | ({"kept"} if covered and not in_log else set())
    if in_log:
        return said | (set() if "unread" in is_in else {"missing"})
    if "gone" in is_in:
        return said | {"lost"}
    return said if "unread" in is_in or covered else said | {"hole"}


_some = st.sets(st.integers(0, 3 * SIZE - 1))


@given(st.fixed_dictionaries(dict.fromkeys(get_args(Side), _some)), _some, _some)
def test_the_verdict_is_that_of_a_slow_judge(
    facts: Facts, twice: set[int], changed: set[int]
) -> None:
    """Whatever is known of whichever sequence, across the borders of blocks."""
    twice &= facts["lake"]
    tally, found = _verdict(facts, twice=twice, changed=changed)
    expected: dict[str, set[int]] = {}
    for sequence in range(3 * SIZE):
        for kind in _slowly(facts, sequence, twice=twice, changed=changed):
            expected.setdefault(kind, set()).add(sequence)
    assert found == expected
    assert tally.expected == len(facts["expected"])
    parts = ("present", "letters", "deleted", "absent", "lost", "unread", "holes", "missing")
    assert tally.expected == sum(getattr(tally, name) for name in parts)


def test_time_that_goes_back_between_runs_is_found() -> None:
    """Runs of different files are compared where they follow each other."""
    rows = Rows("mars")
    rows.runs("lake", _ints([1, 2]), times=_ints([10, 20]))
    rows.runs("lake", _ints([3]), times=_ints([15]))
    rows.runs("lake", _ints([5]), times=_ints([15]))
    verdict = verdicts.verdict_on(0, pa.Table.from_batches([rows.batch()]))
    assert [(item.kind, item.first) for item in verdict.findings if item.kind == "time"] == [
        ("time", 3)
    ]
    assert verdict.edges == (1, 5, 10, 15)


def test_what_was_found_in_files_is_passed_on() -> None:
    """With its words."""
    rows = Rows("mars")
    item = Finding("file", 3, 40, 38, "x.parquet: gone")
    rows.finding(item)
    assert verdicts.verdict_on(0, pa.Table.from_batches([rows.batch()])).findings == [item]


@given(st.sets(st.integers(0, 400)), st.integers(1, 20))
def test_many_ranges_become_few_without_losing_count(there: set[int], cap: int) -> None:
    """Those beyond the cap are covered by the last one."""
    whole = name_ranges("hole", _ints(list(there)))
    few = cap_findings(whole, cap)
    assert len(few) <= cap
    assert sum(item.count for item in few) == len(there)
    covered = {n for item in few for n in range(item.first, item.last + 1)}
    assert covered >= there


def test_ranges_are_cut_at_the_borders_of_blocks() -> None:
    """So that every block can be decided alone."""
    assert list(cut(5, 26)) == [(5, 11), (12, 23), (24, 26)]
    assert list(cut(3, 2)) == []


def test_neighbours_that_say_the_same_are_one() -> None:
    """A hole over several blocks is one hole."""
    parts = [Finding("hole", 12, 23, 12), Finding("hole", 5, 11, 7), Finding("hole", 30, 30, 1)]
    assert cap_findings(parts) == [Finding("hole", 5, 23, 19), Finding("hole", 30, 30, 1)]
