"""Files of a day written again as larger ones: what one task does. Plain Python.

Theory of operation
Row groups of all files are taken by their first sequence. Those that overlap are read together and
ordered; normally none do, so a task holds a row group or a block (order.py), however large the
files are. Rows are copied unchanged; only hidden ones are left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from aviso_server.lake.files import FILE_SCHEMA, FileWriter, Written
from aviso_server.lake.index import UNKNOWN
from aviso_server.lake.inventory import TableFile
from aviso_server.lake.layout import RECORD, Place
from aviso_server.lake.ranges import MOST
from aviso_server.lake.rowgroups import RowGroups
from aviso_server.lake.storage import LakeFailed
from aviso_server.lake.tombstones import NOTHING, Intervals
from aviso_server.pipeline.maintain.order import BLOCK, Sort, by_place, by_sequence
from aviso_server.pipeline.maintain.plan import Rewrite

CACHE_BYTES = 16 * 1024 * 1024
"""Footers of the files of one rewrite."""

ROW = tuple(FILE_SCHEMA.names)


@dataclass(frozen=True, slots=True)
class Task:
    """One rewrite, with what it needs to know."""

    number: int
    rewrite: Rewrite
    hidden: Intervals = field(default=NOTHING, compare=False)
    """What is hidden of its event type."""
    sort: Sort = "sequence"


@dataclass(frozen=True, slots=True)
class Answer:
    """Its result."""

    number: int
    written: tuple[Written, ...] = ()
    problem: str | None = None


def rewrite_files(place: Place, task: Task) -> Answer:
    """Write the files of a task; if something is wrong with them, no files are left."""
    writer = FileWriter(place)
    try:
        for batch in _sort_rows(place, task):
            if batch.num_rows:
                writer.write(batch)
        written = tuple(writer.close())
        _check(task.rewrite, written)
    except (LakeFailed, OSError, ValueError, pa.ArrowException) as error:
        writer.discard()
        return Answer(task.number, problem=str(error).splitlines()[0])
    except BaseException:
        writer.discard()
        raise
    return Answer(task.number, written)


def hidden_rows(place: Place, file: TableFile, graves: Intervals) -> int:
    """How many rows of a file are hidden; row groups that cannot hold one are not read."""
    groups = RowGroups(place, cache_bytes=CACHE_BYTES)
    footer = groups.footer(file.name)
    count = 0
    for where, number in enumerate(footer.numbers):
        first, last = int(footer.ranges.first[where]), int(footer.ranges.last[where])
        begin = int(np.searchsorted(graves.last, first))
        if begin < len(graves.first) and int(graves.first[begin]) <= last:
            (batch,) = groups.parts(file.name, number, (("sequence",),))
            there = np.asarray(batch.column("sequence"), np.int64)
            count += int(graves.mask(there).sum())
    return count


def _sort_rows(place: Place, task: Task) -> Iterator[pa.RecordBatch]:
    """Rows as they are to be written."""
    groups = RowGroups(place, cache_bytes=CACHE_BYTES)
    rows = _visible(groups, task)
    if task.sort == "sequence":
        yield from rows
        return
    for block in _blocks(rows):
        yield by_place(block)


def _visible(groups: RowGroups, task: Task) -> Iterator[pa.RecordBatch]:
    for together in _clusters(groups, task.rewrite.files.names):
        parts = [groups.parts(name, number, (ROW,))[0] for name, number in together]
        batch = by_sequence(parts[0] if len(parts) == 1 else pa.concat_batches(parts))
        keep = ~task.hidden.mask(np.asarray(batch.column("sequence"), np.int64))
        batch = batch if keep.all() else batch.filter(pa.array(keep))
        names = pa.array([task.rewrite.event_type], pa.string())
        names = names.take(pa.array(np.zeros(batch.num_rows, np.int64)))
        yield pa.RecordBatch.from_arrays([names, *batch.columns], schema=RECORD)


def _clusters(groups: RowGroups, files: Sequence[str]) -> Iterator[list[tuple[str, int]]]:
    """Row groups by first sequence; those that overlap come together."""
    every: list[tuple[int, int, str, int]] = []
    for name in files:
        footer = groups.footer(name)
        every += [
            (int(footer.ranges.first[place]), int(footer.ranges.last[place]), name, number)
            for place, number in enumerate(footer.numbers)
        ]
    together: list[tuple[str, int]] = []
    reach = -MOST
    for first, last, name, number in sorted(every):
        if together and first > reach:
            yield together
            together = []
        together.append((name, number))
        reach = max(reach, last)
    if together:
        yield together


def _blocks(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of BLOCK rows, the last one shorter."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in rows:
        waiting.append(batch)
        count += batch.num_rows
        while count >= BLOCK:
            whole = pa.concat_batches(waiting)
            yield whole.slice(0, BLOCK)
            waiting, count = [whole.slice(BLOCK)], count - BLOCK
    if count:
        yield pa.concat_batches(waiting)


def _check(rewrite: Rewrite, written: Sequence[Written]) -> None:
    """Nothing may be lost, and nothing may move to another day."""
    made, told = sum(item.rows for item in written), rewrite.files.rows
    if told != UNKNOWN and made != told - rewrite.hidden:
        raise LakeFailed(f"{made} rows were found where the table says {told - rewrite.hidden}")
    if any(item.day != rewrite.day for item in written):
        raise LakeFailed(f"some rows do not belong to {rewrite.day.isoformat()}")
