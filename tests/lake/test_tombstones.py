"""Ranges that are hidden: merged, looked up quickly, and never forgotten."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st
from support.lake import at_once

from aviso_server.lake import tombstones
from aviso_server.lake.layout import DELETED, LOST, TOMBSTONES, WIPED, Place
from aviso_server.lake.tombstones import Intervals, Tombstones, append_tombstones

_ranges = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 6)), max_size=12)


def _intervals(ranges: list[tuple[int, int]]) -> Intervals:
    first = np.array([first for first, _ in ranges], np.int64)
    return Intervals.merged(first, first + np.array([more for _, more in ranges], np.int64))


@given(_ranges, _ranges)
def test_ranges_are_sets_of_sequences(
    one: list[tuple[int, int]], two: list[tuple[int, int]]
) -> None:
    """Whatever overlaps or touches becomes one range, and every question has the set's answer."""
    inside = {n for first, more in [*one, *two] for n in range(first, first + more + 1)}
    more_ = _intervals(two)
    ranges = _intervals(one).joined(more_.first, more_.last)
    everything = np.arange(0, 60, dtype=np.int64)
    assert set(everything[ranges.mask(everything)].tolist()) == inside
    for n in everything.tolist():
        assert ranges.after(n) == next(m for m in range(n, 99) if m not in inside)
        assert ranges.before(n) == next(m for m in range(n, -1, -1) if m not in inside)
    pairs = ranges.pairs()
    assert all(low[1] + 1 < high[0] for low, high in pairwise(pairs))


def test_a_million_deletions_side_by_side_are_one_range() -> None:
    """What a look costs depends on what is left, not on how it was deleted."""
    first = np.random.default_rng(7).permutation(1_000_000).astype(np.int64)
    assert Intervals.merged(first, first).pairs() == ((0, 999_999),)


def test_tombstones_add_up(place: Place) -> None:
    """Each look sees what was written before it; kinds are distinguished."""
    seen = Tombstones(place)
    assert seen.look().hidden == {}
    append_tombstones(place, [("mars", 1, 1), ("diss", 4, 9)], kind=DELETED)
    assert {k: v.pairs() for k, v in seen.look().hidden.items()} == {
        "mars": ((1, 1),),
        "diss": ((4, 9),),
    }
    append_tombstones(place, [("mars", 2, 3)], kind=WIPED)
    append_tombstones(place, [("mars", 7, 7)], kind=LOST)
    append_tombstones(place, [], kind=LOST)
    graves = seen.look()
    assert graves.hidden["mars"].pairs() == ((1, 3),)
    assert graves.lost["mars"].pairs() == ((7, 7),)
    assert seen.look() is graves


def test_many_small_files_are_put_together(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deletions one by one do not make the table slow, whoever is looking meanwhile."""
    monkeypatch.setattr(tombstones, "MANY_FILES", 4)
    seen = Tombstones(place)
    for n in range(1, 12):
        append_tombstones(place, [("mars", n, n)], kind=DELETED)
        assert seen.look().hidden["mars"].pairs() == ((1, n),)
    assert len(DeltaTable(place.table(TOMBSTONES)).file_uris()) < 4


def test_deletions_at_the_same_time_are_all_kept(place: Place) -> None:
    """Several processes may delete at once."""

    def work(number: int) -> None:
        for n in range(5):
            append_tombstones(place, [("mars", 5 * number + n, 5 * number + n)], kind=DELETED)

    at_once(*(partial(work, number) for number in range(4)))
    assert Tombstones(place).look().hidden["mars"].pairs() == ((0, 19),)
