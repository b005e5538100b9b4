"""What is to be done to the files of a lake: a plan made from the table's log. Pure.

Rules
- A plan concerns one day of one event type at a time; files never grow over midnight.
- A day beyond the retention of its event type goes as a whole, and so does a file whose rows are
  all hidden. Neither is read.
- Files with hidden rows are written again without them.
- Small files are put together, neighbours with neighbours, up to the target. The results do not
  overlap, and a plan for the result of a plan puts nothing together.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Literal

import numpy as np

from aviso_server.core.ring import Mask
from aviso_server.lake.inventory import Inventory
from aviso_server.lake.ranges import MOST, Ints
from aviso_server.lake.tombstones import Intervals

SMALL = 0.5
"""Part of the target below which a file is small. What two bins could be filled with is then never
left in two halves, and a file that is large enough is not written again for nothing."""

EVERY = "*"
"""Means all event types without their own retention."""

Why = Literal["expired", "hidden"]


@dataclass(frozen=True, slots=True)
class MaintainPolicy:
    """The options of a plan."""

    target_bytes: int = 128 * 1024 * 1024
    min_files: int = 2
    """Adjacent small files that are worth compacting."""
    retention_days: Mapping[str, int] = field(default_factory=dict)
    """Days that are kept, by event type."""
    everything: bool = False
    """Also write files again that need it neither for their size nor for their rows."""

    def oldest(self, event_type: str, today: date) -> date | None:
        """The first day that is kept, None for all."""
        days = self.retention_days.get(event_type, self.retention_days.get(EVERY))
        return None if days is None else today - timedelta(days=days)


@dataclass(frozen=True, slots=True)
class FileRemoval:
    """Files that go without anything in their place."""

    event_type: str
    day: date
    files: Inventory
    why: Why


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Files of a day that become one."""

    event_type: str
    day: date
    files: Inventory
    hidden: int = 0
    """Rows that are left out."""

    @property
    def size(self) -> int:
        """What is read."""
        return self.files.size


@dataclass(frozen=True, slots=True)
class MaintainPlan:
    """What is to be done."""

    removals: tuple[FileRemoval, ...] = ()
    rewrites: tuple[Rewrite, ...] = ()


def suspects(files: Inventory, hidden: Mapping[str, Intervals]) -> Mask:
    """Which files have a range of sequences that meets a hidden one: they have to be inspected."""
    return _compared(files, hidden, _meets) & ~_compared(files, hidden, _within)


def wholly_hidden(files: Inventory, hidden: Mapping[str, Intervals]) -> Mask:
    """Which files lie inside a hidden range altogether."""
    return _compared(files, hidden, _within)


def make_plan(
    files: Inventory, policy: MaintainPolicy, *, today: date, hidden: "Ints | None" = None
) -> MaintainPlan:
    """The plan; ``hidden`` has the number of hidden rows of each file."""
    removals: list[FileRemoval] = []
    rewrites: list[Rewrite] = []
    sizes, rows = files.numbers("size"), files.numbers("rows")
    counts: Ints = np.zeros(len(files), np.int64) if hidden is None else hidden
    gone = (counts == rows) & (rows != 0)
    for event_type, day, begin, end in files.days():
        oldest = policy.oldest(event_type, today)
        if oldest is not None and day < oldest:
            removals.append(FileRemoval(event_type, day, files[begin:end], "expired"))
            continue
        numbers = begin + np.flatnonzero(~gone[begin:end])
        if len(numbers) < end - begin:
            ours = files.chosen(begin + np.flatnonzero(gone[begin:end]))
            removals.append(FileRemoval(event_type, day, ours, "hidden"))
        for first, last in _runs(sizes[numbers].tolist(), counts[numbers].tolist(), policy):
            chosen = numbers[first:last]
            count = int(counts[chosen].sum())
            rewrites.append(Rewrite(event_type, day, files.chosen(chosen), count))
    return MaintainPlan(tuple(removals), tuple(rewrites))


def _runs(
    sizes: Sequence[int], hidden: Sequence[int], policy: MaintainPolicy
) -> Iterator[tuple[int, int]]:
    """Neighbours that are to become one file, from one number up to another."""
    for begin, end in _bins(sizes, hidden, policy):
        enough = end - begin >= max(2, policy.min_files)
        if any(hidden[begin:end]) or policy.everything or enough:
            yield begin, end


def _bins(
    sizes: Sequence[int], hidden: Sequence[int], policy: MaintainPolicy
) -> Iterator[tuple[int, int]]:
    """Neighbours that together are no larger than the target; large clean files part them."""
    begin, total = 0, 0
    for number, size in enumerate(sizes):
        small = size < SMALL * policy.target_bytes
        wanted = small or policy.everything or hidden[number] > 0
        if not wanted or total + size > policy.target_bytes:
            if number > begin:
                yield begin, number
            begin, total = number, 0
        if wanted:
            total += size
        else:
            begin = number + 1
    if len(sizes) > begin:
        yield begin, len(sizes)


def _compared(
    files: Inventory,
    hidden: Mapping[str, Intervals],
    test: Callable[[Intervals, Ints, Ints], Mask],
) -> Mask:
    """A test on the ranges of the files, for those that something is hidden of."""
    found: Mask = np.zeros(len(files), np.bool_)
    first, last = files.numbers("first"), files.numbers("last")
    for event_type, _, begin, end in files.days():
        if (graves := hidden.get(event_type)) is not None and len(graves.first):
            found[begin:end] = test(graves, first[begin:end], last[begin:end])
    return found


def _meets(graves: Intervals, first: Ints, last: Ints) -> Mask:
    """Whether some hidden range has a sequence in common with a file's range."""
    met: Mask = np.searchsorted(graves.last, first) < np.searchsorted(
        graves.first, last, side="right"
    )
    return met


def _within(graves: Intervals, first: Ints, last: Ints) -> Mask:
    # Of a file without statistics nothing is known.
    inside: Mask = graves.cover(first, last) & (last < MOST)
    return inside
