"""Keeping a typed table small and clean: what is gone from the lake goes, small files are merged.

Rules
- Rows that a tombstone hides are removed from the files, so that readers who know nothing of
  tombstones do not see them. Which tombstones were applied is a mark of the table.
- Days that the lake has no files of any more (retention) are removed.
- Small files of a day are merged, and sorted again.
- A pass does a bounded amount of work, each commit of it whole; the next pass does the rest.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from aviso_server.core.schema import Schema
from aviso_server.lake.files import Written
from aviso_server.lake.inventory import TableFile
from aviso_server.lake.layout import Place
from aviso_server.lake.ranges import Ints
from aviso_server.lake.snapshot import EventTypeSnapshot
from aviso_server.lake.storage import LakeFailed, opener
from aviso_server.lake.typed.columns import ARROW, DAY, TypedColumn, sort_order
from aviso_server.lake.typed.commit import replace_files
from aviso_server.lake.typed.files import write_files
from aviso_server.lake.typed.table import ensure_table, table_name
from aviso_server.lake.typed.update import BYTES_PER_STEP, ROWS_PER_STEP

MANY_FILES = 8
"""Small files of a day that are worth merging."""

SMALL_ROWS = ROWS_PER_STEP // 2
"""Files with fewer rows are small."""

MOST_REWRITES = 16
"""In one pass."""


@dataclass(slots=True)
class Tidied:
    """What a pass did."""

    removed: int = 0
    """Rows that were hidden or expired in the lake."""
    merged: int = 0
    """Files that became fewer."""


def tidy_table(place: Place, schema: Schema, archived: EventTypeSnapshot) -> Tidied:
    """One pass over the typed table of an event type. LakeFailed, or OutcomeUnknown."""
    table, columns = ensure_table(place, schema)
    work = _Pass(place, schema, archived, table, columns)
    work.expire()
    if not work.purge():
        work.merge()
    return work.done


@dataclass(slots=True)
class _Pass:
    place: Place
    schema: Schema
    archived: EventTypeSnapshot
    table: DeltaTable
    columns: Sequence[TypedColumn]
    done: Tidied = field(default_factory=Tidied)
    files: list[TableFile] = field(init=False)

    def __post_init__(self) -> None:
        listed = _files(self.table, self.schema.event_type)
        # Above what we know of the lake another writer may have seen days that we have not.
        self.files = [file for file in listed if file.last <= self.archived.through]

    def expire(self) -> None:
        """Remove the days that the lake has no more."""
        kept = self.archived.files
        days = set() if kept is None else set(kept.days.to_pylist())
        expired = [file for file in self.files if file.day not in days]
        self.files = [file for file in self.files if file.day in days]
        if expired and self._replace(expired, (), data_change=True):
            self.done.removed += _rows(expired)

    def purge(self) -> bool:
        """Write files with hidden rows again, unless these tombstones were applied already;
        whether there were any."""
        key, hidden = f"aviso-hidden:{self.schema.event_type}", self.archived.hidden
        wanted = hidden.digest()
        if not len(hidden.first) or self.table.transaction_version(key) == wanted:
            return False
        found = [
            file
            for file in self.files
            if hidden.after(file.first) > file.first
            or hidden.before(file.last) < file.last
            # A range that is neither at the beginning nor at the end.
            or np.searchsorted(hidden.first, file.first) < np.searchsorted(hidden.first, file.last)
        ]
        found = [file for file in found if hidden.mask(self._sequences(file)).any()]
        for file in found[:MOST_REWRITES]:
            self._rewrite([file])
        if len(found) <= MOST_REWRITES:
            self._replace((), (), data_change=False, marks={key: wanted})
        return bool(found)

    def merge(self) -> None:
        """Make few files of many small ones."""
        for group in _mergeable(self.files)[:MOST_REWRITES]:
            if self._rewrite(group):
                self.done.merged += len(group)

    def _rewrite(self, files: Sequence[TableFile]) -> bool:
        """Write the rows of files again, sorted, without hidden ones; False if others did."""
        rows = pa.concat_tables([self._read(file) for file in files], promote_options="default")
        kept = ~self.archived.hidden.mask(np.asarray(rows["sequence"], np.int64))
        rows = rows.filter(pa.array(kept))
        there = set(rows.column_names)
        order = [key for key in sort_order(self.schema, self.columns) if key[0] in there]
        written = write_files(self.place, self.schema, rows, order, 0) if rows.num_rows else []
        gone = len(kept) - rows.num_rows
        changed = self._replace(files, written, data_change=gone > 0)
        self.done.removed += gone if changed else 0
        return changed

    def _replace(
        self,
        files: Sequence[TableFile],
        written: Sequence[Written],
        *,
        data_change: bool,
        marks: Mapping[str, int] | None = None,
    ) -> bool:
        name = self.schema.event_type
        return replace_files(
            self.place, name, files, written, marks=marks or {}, data_change=data_change
        )

    def _read(self, file: TableFile, columns: list[str] | None = None) -> pa.Table:
        source = opener(self.place, table_name(self.schema.event_type))
        try:
            rows = pq.read_table(source(file.name, file.size), columns=columns, partitioning=None)
        except (OSError, ValueError) as error:
            raise LakeFailed(f"file {file.name} cannot be read: {error}") from error
        return rows.append_column(DAY, pa.array([file.day] * rows.num_rows, ARROW["date"]))

    def _sequences(self, file: TableFile) -> Ints:
        return np.asarray(self._read(file, ["sequence"])["sequence"], np.int64)


def _mergeable(files: Sequence[TableFile]) -> list[list[TableFile]]:
    """Groups of small files of a day, none larger than what is held at once."""
    small: defaultdict[date, list[TableFile]] = defaultdict(list)
    for file in files:
        if file.rows < SMALL_ROWS:
            small[file.day].append(file)
    groups: list[list[TableFile]] = []
    for same in small.values():
        if len(same) < MANY_FILES:
            continue
        group: list[TableFile] = []
        for file in same:
            group.append(file)
            # Compressed to a quarter, at most.
            if _rows(group) >= ROWS_PER_STEP or sum(f.size for f in group) * 4 > BYTES_PER_STEP:
                groups.append(group)
                group = []
        groups.append(group)
    return [group for group in groups if len(group) > 1]


def _rows(files: Sequence[TableFile]) -> int:
    return sum(file.rows for file in files)


def _files(table: DeltaTable, event_type: str) -> list[TableFile]:
    """By first sequence."""
    actions = pa.table(table.get_add_actions(flatten=True))
    if not actions.num_rows:
        return []
    statistics = ("num_records", "min.sequence", "max.sequence")
    names = ("path", "size_bytes", f"partition.{DAY}", *statistics)
    listed = [
        TableFile(path, size, event_type, day, *known)
        for path, size, day, *known in zip(*(actions[n].to_pylist() for n in names), strict=True)
    ]
    return sorted(listed, key=lambda file: file.first)
