"""Bringing the typed table of an event type up to the lake, a bounded step at a time.

Theory of operation
The table is derived from the notifications table, and only from it. Its own mark says through which
sequence it is complete. A step reads the rows above that mark, makes typed columns of them, writes
files and commits them with the next mark (commit.py). It can be killed at any moment, run twice or
beside another: a commit is made only on the mark that its rows begin after. If the folder of the
table is removed, the next steps make it again from the beginning.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from aviso_server.core.mark import Mark
from aviso_server.core.schema import Schema
from aviso_server.lake.layout import Place
from aviso_server.lake.marks import read_mark
from aviso_server.lake.reader import Reader
from aviso_server.lake.record import NS_PER_US
from aviso_server.lake.rowgroups import ORDER, REST, TEST, RowGroups
from aviso_server.lake.snapshot import EventTypeSnapshot, look
from aviso_server.lake.storage import LakeFailed
from aviso_server.lake.typed.columns import sort_order, typed_rows
from aviso_server.lake.typed.commit import append
from aviso_server.lake.typed.files import write_files
from aviso_server.lake.typed.table import ensure_table, table_name

ROWS_PER_STEP = 250_000
BYTES_PER_STEP = 67_108_864
"""What is held at once, roughly: rows are sorted in memory."""

_COLUMNS = (*ORDER, *TEST, *REST)


@dataclass(slots=True)
class Updated:
    """What was done to the typed table of an event type."""

    event_type: str
    through: int = 0
    """The mark afterwards."""
    rows: int = 0
    """Added."""
    files: int = 0
    unfit: Counter[str] = field(default_factory=Counter)
    """By column: texts that did not fit its type, and are null there."""

    def add(self, step: "Updated") -> None:
        """Count what a further step did."""
        self.through = step.through
        self.rows += step.rows
        self.files += step.files
        self.unfit += step.unfit


def update_table(place: Place, schema: Schema, archived: EventTypeSnapshot) -> Updated:
    """Add what the lake has above the table's mark. LakeFailed, or OutcomeUnknown."""
    done = Updated(schema.event_type)
    for step in update_steps(place, schema, archived):
        done.add(step)
    return done


def update_steps(place: Place, schema: Schema, archived: EventTypeSnapshot) -> Iterator[Updated]:
    """The same a step at a time, for a caller that may want to stop; at least one."""
    name = schema.event_type
    table, columns = ensure_table(place, schema)
    order = sort_order(schema, columns)
    reader = Reader(RowGroups(place, cache_bytes=0))
    mark = read_mark(table, name)
    if mark.through > archived.through:
        archived = look(place).of(name)  # another writer may have seen more of the lake than we
    if mark.through > archived.through or not _same_history(reader, archived, mark):
        raise LakeFailed(
            f"the table {place.table(table_name(name))} was made from another history than the "
            f"lake has; remove this folder, and it is made again"
        )
    through = mark.through
    while True:
        rows, end = _rows_above(reader, archived, through)
        done = Updated(name, end, rows.num_rows)
        written = []
        if rows.num_rows:
            made, unfit = typed_rows(_with_id(rows, name), columns)
            last = rows["time_ns"][int(np.argmax(rows["sequence"].to_numpy()))].as_py()
            written = write_files(place, schema, made, order, last)
            done.files, done.unfit = len(written), Counter(unfit)
        if end > through and not append(place, name, written, through, end):
            return  # another writer is at it
        yield done
        through = end
        if through >= archived.through:
            return


def _rows_above(reader: Reader, archived: EventTypeSnapshot, mark: int) -> tuple[pa.Table, int]:
    """Visible rows after a sequence, and up to which sequence these are all."""
    batches: list[pa.RecordBatch] = []
    count = weight = 0
    end = mark
    while end < archived.through and count < ROWS_PER_STEP and weight < BYTES_PER_STEP:
        more, end = reader.rows(archived, end + 1, archived.through, columns=_COLUMNS)
        batches += more
        count += sum(batch.num_rows for batch in more)
        weight += sum(batch.nbytes for batch in more)
    if not batches:
        return pa.table({"sequence": pa.array([], pa.int64())}), end
    return pa.Table.from_batches(batches).combine_chunks(), end


def _with_id(rows: pa.Table, event_type: str) -> pa.Table:
    ids = [f"{event_type}@{sequence}" for sequence in rows["sequence"].to_pylist()]
    micros = pa.array(rows["time_ns"].to_numpy() // NS_PER_US)
    timed = rows.append_column("time", micros.cast(pa.timestamp("us", tz="UTC")))
    return timed.append_column("id", pa.array(ids, pa.string()))


def _same_history(reader: Reader, archived: EventTypeSnapshot, mark: Mark) -> bool:
    """Whether the lake has the last notification of the table as the table knew it, or no more."""
    if not mark.record:
        return True
    rows, _ = reader.rows(archived, mark.record, mark.record, columns=ORDER)
    times = [time for batch in rows for time in batch.column("time_ns").to_pylist()]
    return times in ([], [mark.time_ns])
