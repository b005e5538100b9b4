"""Tombstones: ranges of sequences that are hidden, or lost before they were archived.

Archived files never change, so what is deleted stays in them and a tombstone hides it. In memory
the ranges are merged: a million adjacent deletions are one range.
"""

import time
import zlib
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from aviso_server.core.ring import Mask
from aviso_server.lake.increments import Increments
from aviso_server.lake.layout import LOST, TOMBSTONE_TABLE, TOMBSTONES, Place
from aviso_server.lake.outcome import Tag, settle
from aviso_server.lake.ranges import Ints
from aviso_server.lake.storage import LakeFailed
from aviso_server.lake.table import ensure

MANY_FILES = 64
"""Files after which they are put together: each deletion writes one."""

_NONE: Ints = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Disjoint ranges of sequences, ascending, ends inclusive."""

    first: Ints = field(default_factory=_NONE.copy)
    last: Ints = field(default_factory=_NONE.copy)

    @classmethod
    def merged(cls, first: Ints, last: Ints) -> "Intervals":
        """The union of any ranges; those that touch become one."""
        if not len(first):
            return cls()
        order = np.argsort(first, kind="stable")
        first, reach = first[order], np.maximum.accumulate(last[order])
        begins = np.flatnonzero(np.concatenate(([True], first[1:] > reach[:-1] + 1)))
        ends = np.concatenate((begins[1:] - 1, [len(first) - 1]))
        return cls(first[begins], reach[ends])

    def joined(self, first: Ints, last: Ints) -> "Intervals":
        """With further ranges."""
        return Intervals.merged(
            np.concatenate((self.first, first)), np.concatenate((self.last, last))
        )

    def mask(self, sequences: Ints) -> Mask:
        """Which of the sequences are in a range."""
        if not len(self.first):
            return np.zeros(len(sequences), np.bool_)
        place = np.searchsorted(self.first, sequences, side="right") - 1
        inside: Mask = (place >= 0) & (sequences <= self.last[place])
        return inside

    def cover(self, first: Ints, last: Ints) -> Mask:
        """Which of some other ranges lie inside of one altogether."""
        if not len(self.first):
            return np.zeros(len(first), np.bool_)
        place = np.searchsorted(self.first, first, side="right") - 1
        covered: Mask = (place >= 0) & (last <= self.last[place])
        return covered

    def after(self, sequence: int) -> int:
        """The sequence, or the first one after the range that it is in."""
        place = int(np.searchsorted(self.first, sequence, side="right")) - 1
        return sequence if place < 0 else max(sequence, int(self.last[place]) + 1)

    def before(self, sequence: int) -> int:
        """The sequence, or the last one ahead of the range that it is in."""
        place = int(np.searchsorted(self.first, sequence, side="right")) - 1
        if place < 0 or self.last[place] < sequence:
            return sequence
        return int(self.first[place]) - 1

    def digest(self) -> int:
        """A number by which other ranges are recognised."""
        return zlib.crc32(self.first.tobytes() + self.last.tobytes())

    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The ranges."""
        return tuple(zip(self.first.tolist(), self.last.tolist(), strict=True))


NOTHING = Intervals()


@dataclass(frozen=True, slots=True)
class Hidden:
    """The ranges of every event type at one instant."""

    hidden: dict[str, Intervals] = field(default_factory=dict)
    lost: dict[str, Intervals] = field(default_factory=dict)


class Tombstones:
    """The tombstones of a lake, as last read."""

    def __init__(self, place: Place) -> None:
        self._increments = Increments(place, TOMBSTONES, ("event_type", "first", "last", "kind"))
        self._hidden = Hidden()

    def look(self) -> Hidden:
        """What the table has now."""
        news = self._increments.look()
        if news is not None:
            self._hidden = _added(Hidden() if news.anew else self._hidden, news.rows)
        return self._hidden


def append_tombstones(
    place: Place, ranges: Iterable[tuple[str, int, int]], *, kind: str, at_ns: int | None = None
) -> None:
    """Write ranges (event type, first, last); they are durable and seen by the next look.

    LakeFailed, or OutcomeUnknown: written again they say the same.
    """
    rows = list(ranges)
    if not rows:
        return
    now = (time.time_ns() if at_ns is None else at_ns) // 1000
    names, firsts, lasts = zip(*rows, strict=True)
    columns = [names, firsts, lasts, [kind] * len(rows), [now] * len(rows)]
    table = pa.table(columns, names=TOMBSTONE_TABLE.names).cast(TOMBSTONE_TABLE)
    many = False

    def add(target: DeltaTable, tag: Tag) -> bool:
        nonlocal many
        many = len(target.file_uris()) >= MANY_FILES
        write_deltalake(target, table, mode="append", commit_properties=tag.properties())
        return True

    settle(place, TOMBSTONES, add)
    if many:
        _compact(place)


def _compact(place: Place) -> None:
    """Put small files together; where that fails, the next writer tries again."""
    with suppress(LakeFailed, DeltaError, OSError):
        ensure(place, TOMBSTONES).optimize.compact()


def _added(tombstones: Hidden, rows: pa.Table) -> Hidden:
    """With the ranges of these rows."""
    is_lost = np.asarray(pc.equal(rows["kind"], LOST), np.bool_)
    hidden, lost = dict(tombstones.hidden), dict(tombstones.lost)
    for target, chosen in ((hidden, ~is_lost), (lost, is_lost)):
        some = rows.filter(pa.array(chosen))
        first, last = np.asarray(some["first"], np.int64), np.asarray(some["last"], np.int64)
        for name, places in _groups(some["event_type"].to_pylist()).items():
            known = target.get(name, NOTHING)
            target[name] = known.joined(first[places], last[places])
    return Hidden(hidden, lost)


def _groups(names: list[str]) -> dict[str, list[int]]:
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for place, name in enumerate(names):
        groups[name].append(place)
    return groups
