"""Offsets, shares and slices: everything once, nothing twice, nobody forgotten."""

from itertools import groupby, pairwise

from hypothesis import given
from hypothesis import strategies as st

from aviso_server.backends.backend import Bounds
from aviso_server.pipeline.source.ranges import (
    MAX_SLICES,
    SLICE,
    Offset,
    Range,
    advance,
    between,
    gather,
    share,
    split,
)

_names = st.sampled_from(["a", "b", "c", "d"])
_ranges = st.dictionaries(
    _names, st.tuples(st.integers(1, 10**6), st.integers(0, 3 * SLICE)), max_size=4
).map(lambda drawn: [Range(name, first, first + n - 1) for name, (first, n) in drawn.items()])
_ends = st.dictionaries(
    _names,
    st.tuples(st.integers(1, 50), st.integers(0, 100)).map(lambda p: Bounds(p[0], p[0] + p[1] - 1)),
)


@given(_ranges, st.integers(1, 40))
def test_slices_cover_ranges_exactly(ranges: list[Range], minimum: int) -> None:
    """Contiguous, in order, none empty or too long, and as many as asked for where possible."""
    slices = split(ranges, minimum)
    assert all(0 < len(item) <= SLICE for item in slices)
    covered = {}
    for name, group in groupby(slices, key=lambda item: item.event_type):
        pieces = list(group)
        assert name not in covered
        assert all(a.last + 1 == b.first for a, b in pairwise(pieces))
        covered[name] = (pieces[0].first, pieces[-1].last)
    assert covered == {item.event_type: (item.first, item.last) for item in ranges if item}
    assert len(slices) >= min(minimum, sum(map(len, ranges)))


@given(st.lists(st.integers(1, 40), max_size=30), st.integers(1, 60), st.integers(1, 10))
def test_small_slices_are_read_together(sizes: list[int], enough: int, minimum: int) -> None:
    """All of them, in order; a group beyond enough is one slice, and there are as many groups as
    were asked for, if there can be."""
    slices = [Range(f"e{n}", 1, size) for n, size in enumerate(sizes)]
    groups = gather(slices, enough, minimum)
    assert [item for group in groups for item in group] == slices
    assert all(len(group) == 1 or sum(map(len, group)) <= enough for group in groups)
    assert len(groups) >= min(minimum, len(slices))


def test_very_long_ranges_make_longer_slices() -> None:
    """A table of a billion does not become forty thousand tasks, unless that is asked for."""
    everything = [Range("a", 1, 10**9)]
    assert len(split(everything)) == MAX_SLICES
    assert len(split(everything, 5000)) == 5000


@given(st.dictionaries(_names, st.integers(0, 50)), st.integers(1, 100))
def test_limits_are_shared_fairly(waiting: dict[str, int], limit: int) -> None:
    """Never more than the limit, none of it wasted, and who gets less had less."""
    granted = share(waiting, limit)
    assert sum(granted.values()) == min(limit, sum(waiting.values()))
    assert all(0 <= granted[name] <= waiting[name] for name in waiting)
    short = [granted[name] for name in waiting if granted[name] < waiting[name]]
    assert not short or max(granted.values()) - min(short) <= 1


@given(_ends, st.dictionaries(_names, st.integers(1, 60)), st.integers(1, 30))
def test_offsets_reach_the_end(ends: dict[str, Bounds], start: Offset, limit: int) -> None:
    """Step by step everything stored is read once, within the limit, and then nothing moves.

    No step goes back, even if a stream is not listed for a moment or ends before the offset.
    """
    position, read = start, []
    for _ in range(500):
        end = advance(position, ends, limit)
        if end == position:
            break
        step = between(position, end)
        stored = [
            n for r in step for n in range(max(r.first, ends[r.event_type].first), r.last + 1)
        ]
        assert len(stored) <= limit
        assert all(end[name] >= position[name] for name in position)
        read += [(r.event_type, n) for r in step for n in range(r.first, r.last + 1)]
        position = end
    assert advance(position, ends, None) == position
    wanted = {
        (name, n) for name, end in ends.items() for n in range(start.get(name, 1), end.last + 1)
    }
    assert len(read) == len(set(read))
    assert wanted <= set(read)


def test_what_retention_removed_is_passed_in_one_step() -> None:
    """A limit counts what can still be read, or a trimmed log would be crawled through."""
    assert advance({"a": 1}, {"a": Bounds(1_000_001, 1_000_100)}, 10) == {"a": 1_000_011}
    assert advance({"a": 1}, {"a": Bounds(1_000_001, 1_000_000)}, 10) == {"a": 1_000_001}


def test_new_event_types_begin_at_one() -> None:
    """An offset that does not name one has read nothing of it."""
    assert between({"a": 5}, {"a": 5, "b": 3}) == [Range("b", 1, 2)]
