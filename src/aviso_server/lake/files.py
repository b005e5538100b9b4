"""Writing notifications as Parquet files, which only a commit makes part of the table.

The writer, usually one Spark task, passes rows in sequence order. Files are cut by event type and
day, are sorted by sequence, and carry the statistics that let readers skip them.
"""

import contextlib
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

from aviso_server.core.json import Json
from aviso_server.lake.layout import NOTIFICATIONS, PARTITION, RECORD, Place
from aviso_server.lake.statistics import statistics_json
from aviso_server.lake.storage import LakeFailed, files
from aviso_server.lake.table import STATISTICS

ROWS_PER_GROUP = 16_384
"""Rows that are read together: bounds what a reader holds, and what it reads in vain."""

BYTES_PER_GROUP = 33_554_432
"""What they may weigh in memory, roughly: payloads can be large, and the same again and again."""

ROWS_PER_FILE = 4_000_000
"""Where a file ends although more rows of its day follow."""

FILE_SCHEMA = pa.schema([item for item in RECORD if item.name not in PARTITION])
"""What is in a file: partition columns are in the table's log."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class Written:
    """A file that is written and not yet part of the table."""

    path: str
    """Below the table's folder."""
    size: int
    event_type: str
    day: date
    rows: int
    first: int
    """Lowest sequence."""
    last: int
    """Highest sequence."""
    last_ns: int
    """Its storage time."""
    statistics: str
    """Delta's JSON: number of rows, lowest and highest values, nulls."""


@dataclass(slots=True)
class _Open:
    """A file being written."""

    path: str
    stream: pa.NativeFile
    writer: pq.ParquetWriter
    event_type: str
    day: date
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    pending: int = 0
    """Rows in ``waiting``."""
    weight: int = 0
    """Bytes of the rows in ``waiting``."""
    rows: int = 0
    last_ns: int = 0
    """Storage time of the last row."""
    ranges: dict[str, tuple[Json, Json]] = field(default_factory=dict)
    nulls: dict[str, int] = field(default_factory=dict)


class FileWriter:
    """Writes rows of RECORD. Nothing it writes is visible until ``commit`` has added it."""

    def __init__(self, place: Place) -> None:
        self._files = files(place, NOTIFICATIONS)
        self._open: dict[tuple[str, date], _Open] = {}
        self._written: list[Written] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows, ascending by sequence within each event type."""
        for event_type, day, rows in _cut(batch):
            target = self._open.get((event_type, day))
            if target is None:
                target = self._open[event_type, day] = self._begin(event_type, day)
            target.waiting.append(rows)
            target.pending += rows.num_rows
            target.weight += rows.nbytes
            while count := _due(target):
                _flush(target, count)
            if target.rows >= ROWS_PER_FILE:
                self._end(self._open.pop((event_type, day)))

    def close(self) -> list[Written]:
        """End the files; what a commit needs to know of them."""
        for target in self._open.values():
            self._end(target)
        self._open.clear()
        return self._written

    def discard(self) -> None:
        """Remove everything written: it will not be committed.

        What cannot be removed, on a full or broken disk, is left to the sweep: whatever made the
        caller give up must not be hidden by another error.
        """
        paths = [item.path for item in self._open.values()]
        paths += [item.path for item in self._written]
        for target in self._open.values():
            with contextlib.suppress(OSError):
                target.writer.close()
                target.stream.close()
        with contextlib.suppress(OSError):
            remove(self._files, paths)
        self._open.clear()
        self._written = []

    def _begin(self, event_type: str, day: date) -> _Open:
        folder = f"event_type={_UNSAFE.sub('_', event_type)}/day={day.isoformat()}"
        self._files.create_dir(folder, recursive=True)
        path = f"{folder}/{uuid.uuid4().hex}.parquet"
        stream = self._files.open_output_stream(path)
        writer = pq.ParquetWriter(
            stream,
            FILE_SCHEMA,
            compression="zstd",
            write_page_index=True,
            write_page_checksum=True,  # the audit finds every flipped bit by it
            store_schema=False,
        )
        return _Open(path, stream, writer, event_type, day)

    def _end(self, target: _Open) -> None:
        while target.pending:
            _flush(target, min(target.pending, ROWS_PER_GROUP))
        target.writer.close()
        size = target.stream.tell()
        target.stream.close()
        first, last = target.ranges["sequence"]
        assert isinstance(first, int)  # noqa: S101 - the column is never null
        assert isinstance(last, int)  # noqa: S101
        self._written.append(
            Written(
                target.path,
                size,
                target.event_type,
                target.day,
                target.rows,
                first,
                last,
                target.last_ns,
                statistics_json(target.rows, target.ranges, target.nulls),
            )
        )


def remove(place: pa_fs.FileSystem, paths: list[str]) -> None:
    """Remove files that no commit can refer to; those that are gone already do not matter.

    What was handed over to be committed is for ``outcome.discard``.
    """
    for path in paths:
        if place.get_file_info(path).type is pa_fs.FileType.File:
            place.delete_file(path)


def trim(place: Place, file: Written, above: int) -> list[Written]:
    """The file written again without rows up to a sequence, which another commit has already."""
    writer = FileWriter(place)
    try:
        source = files(place, NOTIFICATIONS)
        table = pq.read_table(file.path, filesystem=source, partitioning=None)
        rows = table.filter(pc.greater(table["sequence"], above))
        names = pa.array([file.event_type] * rows.num_rows, pa.string())
        for batch in rows.add_column(0, RECORD.field("event_type"), names).to_batches():
            writer.write(batch)
        return writer.close()
    except OSError as error:
        writer.discard()
        raise LakeFailed(f"cannot write a part of {file.path} again: {error}") from error


def _cut(batch: pa.RecordBatch) -> Iterator[tuple[str, date, pa.RecordBatch]]:
    """Rows that share event type and day, in their order; event types come in runs."""
    if not batch.num_rows:
        return
    names = batch.column("event_type")
    rows = batch.select(FILE_SCHEMA.names)
    changes = np.flatnonzero(
        np.asarray(pc.not_equal(names.slice(1), names.slice(0, len(names) - 1)))
    )
    edges = [0, *(changes + 1).tolist(), batch.num_rows]
    for begin, end in pairwise(edges):
        run, name = rows.slice(begin, end - begin), names[begin].as_py()
        days = run.column("time").cast(pa.date32())
        # Mostly one; two at midnight, which a clock that is set may cross more than once.
        for day in pc.unique(days):
            ours = pc.equal(days, day)
            yield name, day.as_py(), run if pc.all(ours).as_py() else run.filter(ours)


def _due(target: _Open) -> int:
    """How many rows are to be written now."""
    if target.pending and target.weight >= BYTES_PER_GROUP:
        fit = target.pending * BYTES_PER_GROUP // target.weight
        return max(1, min(fit, target.pending, ROWS_PER_GROUP))
    return ROWS_PER_GROUP if target.pending >= ROWS_PER_GROUP else 0


def _flush(target: _Open, count: int) -> None:
    """Write one group of rows."""
    table = pa.Table.from_batches(target.waiting, FILE_SCHEMA)
    group, rest = table.slice(0, count), table.slice(count)
    target.writer.write_table(group, row_group_size=count)
    target.waiting = rest.to_batches()
    target.weight = sum(batch.nbytes for batch in target.waiting)
    target.pending -= count
    target.rows += count
    target.last_ns = group["time_ns"][-1].as_py()
    for name in STATISTICS:
        column = group[name]
        target.nulls[name] = target.nulls.get(name, 0) + column.null_count
        if column.null_count < len(column):
            found = pc.min_max(column)
            low, high = found["min"].as_py(), found["max"].as_py()
            known = target.ranges.get(name)
            target.ranges[name] = (low, high) if known is None else _wider(known, (low, high))


def _wider(one: tuple[Json, Json], other: tuple[Json, Json]) -> tuple[Json, Json]:
    return min(one[0], other[0]), max(one[1], other[1])  # type: ignore[type-var]
