"""The files of the notifications table in memory: which of them can hold what is asked for.

The index is a value of one version of the table. What it has of an event type is made when it is
asked for, and the index of a later version shares all that no commit has changed since. Looking
something up does not depend on how many files there are.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from aviso_server.core.mark import Mark
from aviso_server.lake.follow import ActiveFile, Commit, Outdated, RemovedFile
from aviso_server.lake.layout import BOX
from aviso_server.lake.marks import Transactions
from aviso_server.lake.ranges import EVERYWHERE, MOST, Floats, Ints, Ranges

UNKNOWN = -1

_WHEN = ("sequence", "time_ns")

PENDING = 64
"""Commits that may wait for somebody to ask for their event type."""


@dataclass(frozen=True, slots=True, eq=False)
class Files:
    """The files of one event type, sorted by first sequence."""

    paths: pa.StringArray
    """Below the table's folder, as URLs."""
    sizes: Ints
    """In bytes."""
    days: pa.Date32Array
    rows: Ints
    """UNKNOWN of a file whose writer did not count them."""
    ranges: Ranges

    def path(self, number: int) -> str:
        """The path of a file."""
        return unquote(self.paths[number].as_py())

    def size(self, number: int) -> int:
        """The size of a file, in bytes."""
        return int(self.sizes[number])

    def cut(self, begin: int, end: int) -> "Files":
        """Those from one number up to another."""
        count = end - begin
        return Files(
            self.paths.slice(begin, count),
            self.sizes[begin:end],
            self.days.slice(begin, count),
            self.rows[begin:end],
            self.ranges.chosen(slice(begin, end)),
        )

    def chosen(self, numbers: Ints) -> "Files":
        """Some of them, in the order of their numbers."""
        places = pa.array(numbers)
        return Files(
            self.paths.take(places),
            self.sizes[numbers],
            self.days.take(places),
            self.rows[numbers],
            self.ranges.chosen(numbers),
        )

    def joined(self, others: "Files") -> "Files":
        """These and others."""
        both = Files(
            pa.concat_arrays([self.paths, others.paths]),
            np.concatenate((self.sizes, others.sizes)),
            pa.concat_arrays([self.days, others.days]),
            np.concatenate((self.rows, others.rows)),
            self.ranges.joined(others.ranges),
        )
        return both.sorted()

    def sorted(self) -> "Files":
        """The same by first sequence."""
        first = self.ranges.first
        return (
            self
            if (first[1:] >= first[:-1]).all()
            else self.chosen(np.argsort(first, kind="stable"))
        )


class FileIndex:
    """The files of a version of the table."""

    def __init__(self, table: DeltaTable | None) -> None:
        self.version = -1 if table is None else table.version()
        self._transactions = Transactions(table)
        self._parts: Mapping[str, _Part] = {} if table is None else _parts(table)

    def advanced(self, commits: Sequence[Commit]) -> "FileIndex":
        """The index after some more commits."""
        later = FileIndex(None)
        later.version = commits[-1].version
        later._transactions = self._transactions.advanced(commits)
        parts = dict(self._parts)
        for commit in commits:
            for name, change in _changes(commit).items():
                parts[name] = parts.get(name, _Part(lambda: None)).changed(change)
        later._parts = parts
        return later

    @property
    def event_types(self) -> list[str]:
        """Event types with files."""
        return sorted(name for name, part in self._parts.items() if part.files() is not None)

    def files(self, event_type: str) -> Files | None:
        """The files of an event type; None where there are none."""
        part = self._parts.get(event_type)
        return None if part is None else part.files()

    def mark(self, event_type: str) -> Mark:
        """How far an event type is archived."""
        return self._transactions.mark(event_type)


@dataclass(slots=True)
class _Change:
    """What a commit changed of an event type."""

    added: list[ActiveFile] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


class _Part:
    """The files of one event type; made when they are asked for, by any thread."""

    def __init__(self, base: Callable[[], Files | None], changes: tuple[_Change, ...] = ()) -> None:
        self._state = base, changes

    def files(self) -> Files | None:
        """The files."""
        base, changes = self._state
        made = _applied(base(), changes)
        self._state = (lambda: made), ()
        return made

    def changed(self, change: _Change) -> "_Part":
        """The part after a commit."""
        if len(self._state[1]) >= PENDING:
            self.files()
        base, changes = self._state
        return _Part(base, (*changes, change))


def _parts(table: DeltaTable) -> dict[str, _Part]:
    """The files of a table by event type: sorted once, and cut where they are asked for."""
    actions = pa.table(table.get_add_actions(flatten=True))
    if actions.num_rows == 0:
        return {}
    names = actions["partition.event_type"].combine_chunks().dictionary_encode()
    codes = np.asarray(names.indices)
    order = np.lexsort((_ints(actions, "min.sequence", 0), codes))
    every = _of_actions(actions.take(pa.array(order)))
    edges = np.searchsorted(codes[order], np.arange(len(names.dictionary) + 1)).tolist()
    return {
        name: _Part(lambda begin=edges[code], end=edges[code + 1]: every.cut(begin, end))  # type: ignore[misc]
        for code, name in enumerate(names.dictionary.to_pylist())
    }


def _changes(commit: Commit) -> dict[str, _Change]:
    """What a commit changed, by event type."""
    changes: defaultdict[str, _Change] = defaultdict(_Change)
    for file in commit.added:
        changes[_event_type(file)].added.append(file)
    for gone in commit.removed:
        changes[_event_type(gone)].removed.append(gone.path)
    return changes


def _event_type(file: ActiveFile | RemovedFile) -> str:
    name = None if file.partition is None else file.partition.get("event_type")
    if name is None:
        raise Outdated(f"the log does not say to which event type {file.path} belongs")
    return name


def _applied(known: Files | None, changes: Sequence[_Change]) -> Files | None:
    """The files after some commits."""
    if not changes:
        return known
    added: dict[str, ActiveFile] = {}
    removed: set[str] = set()
    for change in changes:
        removed.update(path for path in change.removed if added.pop(path, None) is None)
        added |= {file.path: file for file in change.added}
    news = _of_commits(added.values())
    if known is not None and (removed or news.ranges.first.min(initial=MOST) <= known.ranges.reach):
        known = _without(known, removed, replaced=added.keys())
    elif removed:
        raise Outdated("the log removes files that are not known")
    files = news if known is None else known.joined(news)
    return files if len(files.ranges) else None


def _without(known: Files, removed: AbstractSet[str], *, replaced: Iterable[str]) -> Files:
    """The files but for some; those that are added again count as they are added."""
    gone = pc.is_in(known.paths, pa.array(list(removed), pa.string()))
    if pc.sum(gone).as_py() != len(removed):
        raise Outdated("the log removes files that are not known")
    gone = pc.or_(gone, pc.is_in(known.paths, pa.array(list(replaced), pa.string())))
    return known.chosen(np.flatnonzero(~np.asarray(gone)))


def _of_actions(actions: pa.Table) -> Files:
    """Files as delta-rs lists them."""
    return Files(
        actions["path"].combine_chunks(),
        _ints(actions, "size_bytes", 0),
        actions["partition.day"].cast(pa.date32()).combine_chunks(),
        _ints(actions, "num_records", UNKNOWN),
        Ranges(
            _ints(actions, "min.sequence", 0),
            _ints(actions, "max.sequence", MOST),
            _ints(actions, "min.time_ns", -MOST),
            _ints(actions, "max.time_ns", MOST),
            _boxes(actions),
        ),
    )


def _of_commits(added: Iterable[ActiveFile]) -> Files:
    """Files as commits add them."""
    rows = []
    for file in added:
        told = _statistics(file)
        row = {
            "path": file.path,
            "size_bytes": file.size,
            "partition.day": (file.partition or {}).get("day"),
            "num_records": told.rows,
        }
        for kind, values in (("min", told.low), ("max", told.high), ("null_count", told.nulls)):
            row |= {f"{kind}.{name}": value for name, value in values.items()}
        rows.append(row)
    return _of_actions(pa.Table.from_pylist(rows, _COLUMNS)).sorted()


class _Statistics(msgspec.Struct, frozen=True):
    """What a file's writer tells of it."""

    rows: int | None = msgspec.field(name="numRecords", default=None)
    low: dict[str, Any] = msgspec.field(name="minValues", default_factory=dict)
    high: dict[str, Any] = msgspec.field(name="maxValues", default_factory=dict)
    nulls: dict[str, Any] = msgspec.field(name="nullCount", default_factory=dict)


def _statistics(file: ActiveFile) -> _Statistics:
    try:
        return _STATISTICS.decode(file.stats or "{}")
    except msgspec.MsgspecError:
        return _Statistics()  # it can hold anything


def _ints(actions: pa.Table, name: str, unknown: int) -> Ints:
    """A column of statistics; a file without them can hold anything."""
    if name not in actions.column_names:
        return np.full(actions.num_rows, unknown, np.int64)
    return np.asarray(pc.fill_null(actions[name].cast(pa.int64()), unknown), np.int64)


def _boxes(actions: pa.Table) -> Floats:
    boxes: Floats = np.empty((actions.num_rows, len(BOX)), np.float64)
    for place, name in enumerate(BOX):
        column = f"{name[:3]}.{name}"
        unknown = EVERYWHERE[place]
        if column not in actions.column_names:
            boxes[:, place] = unknown
            continue
        told = np.asarray(pc.fill_null(actions[column], unknown), np.float64)
        # No lowest latitude in as many nulls as there are rows: no places, rather than unknown.
        nulls = _ints(actions, f"null_count.{name}", 0)
        nowhere = (nulls > 0) & (nulls == _ints(actions, "num_records", UNKNOWN))
        boxes[:, place] = np.where(nowhere, np.nan, told)
    return boxes


_STATISTICS = msgspec.json.Decoder(_Statistics)

_COLUMNS = pa.schema(
    [
        ("path", pa.string()),
        ("size_bytes", pa.int64()),
        ("partition.day", pa.string()),
        ("num_records", pa.int64()),
        *((f"{edge}.{name}", pa.int64()) for edge in ("min", "max") for name in _WHEN),
        *((f"{name[:3]}.{name}", pa.float64()) for name in BOX),
        *((f"null_count.{name}", pa.int64()) for name in BOX),
    ]
)
"""What is known of files, named as delta-rs names it."""
