"""What is to be done to the files of a lake: a plan made from the table's log. Pure.

Rules
- A plan concerns one day of one event type at a time; files never grow over midnight.
- A day beyond the retention of its event type goes as a whole, and so does a file whose rows are
  all hidden. Neither is read.
- Files with hidden rows are written again without them.
- Small files are put together, neighbours with neighbours, up to the target. The results do not
  overlap, and a plan for the result of a plan puts nothing together.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import groupby
from typing import Literal

from aviso_server.lake.index import UNKNOWN
from aviso_server.lake.inventory import TableFile
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
    files: tuple[TableFile, ...]
    why: Why


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Files of a day that become one."""

    event_type: str
    day: date
    files: tuple[TableFile, ...]
    hidden: int = 0
    """Rows that are left out."""

    @property
    def size(self) -> int:
        """What is read."""
        return sum(file.size for file in self.files)

    @property
    def rows(self) -> int:
        """Rows that are read; UNKNOWN if a file has no statistics."""
        return rows_of(self.files)


@dataclass(frozen=True, slots=True)
class MaintainPlan:
    """What is to be done."""

    removals: tuple[FileRemoval, ...] = ()
    rewrites: tuple[Rewrite, ...] = ()


def suspects(files: Iterable[TableFile], hidden: Mapping[str, Intervals]) -> list[TableFile]:
    """Files whose range of sequences meets a hidden one: they have to be inspected."""
    return [
        file
        for file in files
        if (graves := hidden.get(file.event_type)) is not None
        and not _within(file, graves)
        and _meets(file, graves)
    ]


def wholly_hidden(files: Iterable[TableFile], hidden: Mapping[str, Intervals]) -> dict[str, int]:
    """Files that lie inside a hidden range altogether, and their rows."""
    return {
        file.path: file.rows
        for file in files
        if (graves := hidden.get(file.event_type)) is not None and _within(file, graves)
    }


def make_plan(
    files: Sequence[TableFile], policy: MaintainPolicy, *, today: date, hidden: Mapping[str, int]
) -> MaintainPlan:
    """The plan; ``hidden`` has the number of hidden rows by path, where there are any."""
    removals: list[FileRemoval] = []
    rewrites: list[Rewrite] = []
    for (event_type, day), group in groupby(
        sorted(files, key=lambda file: (file.event_type, file.day, file.first, file.last)),
        key=lambda file: (file.event_type, file.day),
    ):
        ours = list(group)
        oldest = policy.oldest(event_type, today)
        if oldest is not None and day < oldest:
            removals.append(FileRemoval(event_type, day, tuple(ours), "expired"))
            continue
        gone = [file for file in ours if hidden.get(file.path) == file.rows != 0]
        if gone:
            removals.append(FileRemoval(event_type, day, tuple(gone), "hidden"))
        left = [file for file in ours if file not in gone]
        for run in _runs(left, policy, hidden):
            count = sum(hidden.get(file.path, 0) for file in run)
            rewrites.append(Rewrite(event_type, day, tuple(run), count))
    return MaintainPlan(tuple(removals), tuple(rewrites))


def rows_of(files: Iterable[TableFile]) -> int:
    """Rows of files; UNKNOWN if one has no statistics."""
    counts = [file.rows for file in files]
    return UNKNOWN if UNKNOWN in counts else sum(counts)


def _runs(
    files: Sequence[TableFile], policy: MaintainPolicy, hidden: Mapping[str, int]
) -> Iterator[list[TableFile]]:
    """Neighbours that are to become one file."""
    for run in _bins(files, policy, hidden):
        dirty = any(hidden.get(file.path, 0) for file in run)
        if dirty or policy.everything or len(run) >= max(2, policy.min_files):
            yield run


def _bins(
    files: Sequence[TableFile], policy: MaintainPolicy, hidden: Mapping[str, int]
) -> Iterator[list[TableFile]]:
    """Neighbours that together are no larger than the target; large clean files part them."""
    run: list[TableFile] = []
    size = 0
    for file in files:
        small = file.size < SMALL * policy.target_bytes
        wanted = small or policy.everything or hidden.get(file.path, 0) > 0
        if run and (not wanted or size + file.size > policy.target_bytes):
            yield run
            run, size = [], 0
        if wanted:
            run.append(file)
            size += file.size
    if run:
        yield run


def _meets(file: TableFile, graves: Intervals) -> bool:
    """Whether some hidden range has a sequence in common with the file's range."""
    if graves.after(file.first) != file.first:
        return True
    following = graves.first[graves.first >= file.first]
    return bool(len(following)) and int(following[0]) <= file.last


def _within(file: TableFile, graves: Intervals) -> bool:
    return file.bounded and graves.after(file.first) > file.last
