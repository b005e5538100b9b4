"""Dead letters: stored messages that are no notifications, kept with the reason.

They come out of a replay in their place, as they do from the log. They are few, so they are kept
in memory; past a bound they are read by range instead.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from aviso_server.core.notification import Unreadable
from aviso_server.lake.increments import Increments
from aviso_server.lake.layout import DEAD_LETTER_TABLE, DEAD_LETTERS, Place
from aviso_server.lake.outcome import Tag, settle
from aviso_server.lake.ranges import Ints

if TYPE_CHECKING:
    import pyarrow.dataset as pa_ds  # loads pandas, if installed: slow, and 40 MB

MANY = 100_000
"""Rows up to which they are kept in memory, some 20 MB."""

COLUMNS = ("event_type", "sequence", "time_ns", "subject", "problem")


def dead_mark(event_type: str) -> str:
    """The application transaction that records how far dead letters are written."""
    return f"aviso-dead:{event_type}"


def append_dead_letters(place: Place, rows: pa.Table) -> int:
    """Add rows of DEAD_LETTER_TABLE that are not there yet; how many they were.

    As with notifications, an event type's letters come in sequence order over time, and one up to
    the mark is already there. To be called before the commit that covers their sequences: a reader
    who sees that commit then sees the letters too.
    """
    if rows.num_rows == 0:
        return 0
    rows = rows.select(DEAD_LETTER_TABLE.names).cast(DEAD_LETTER_TABLE)

    def add(table: DeltaTable, tag: Tag) -> bool:
        nonlocal rows
        rows = _above(rows, table)
        if rows.num_rows:
            _write(table, rows, tag)
        return bool(rows.num_rows)

    settle(place, DEAD_LETTERS, add)
    return int(rows.num_rows)


def _above(rows: pa.Table, table: DeltaTable) -> pa.Table:
    """Rows whose sequence is above the mark of their event type."""
    names = rows["event_type"].combine_chunks().dictionary_encode()
    known = [
        table.transaction_version(dead_mark(name)) or 0 for name in names.dictionary.to_pylist()
    ]
    marks = pa.array(known, pa.int64()).take(names.indices)
    return rows.filter(pc.greater(rows["sequence"], marks))


def _write(table: DeltaTable, rows: pa.Table, tag: Tag) -> None:
    highest = rows.group_by("event_type").aggregate([("sequence", "max")])
    reached: Mapping[str, int] = dict(
        zip(highest["event_type"].to_pylist(), highest["sequence_max"].to_pylist(), strict=True)
    )
    write_deltalake(
        table,
        rows,
        mode="append",
        commit_properties=tag.properties({dead_mark(name): at for name, at in reached.items()}),
    )


class DeadLetters:
    """Dead letters at one instant."""

    def __init__(self, rows: pa.Table, beyond: "pa_ds.Dataset | None" = None) -> None:
        self._kept: dict[str, pa.Table] = {}
        self._beyond = beyond
        ordered = rows.sort_by([("event_type", "ascending"), ("sequence", "ascending")])
        names = ordered["event_type"].combine_chunks()
        for name in pc.unique(names).to_pylist():
            begin = pc.index(names, name).as_py()
            count = pc.sum(pc.equal(names, name)).as_py()
            self._kept[name] = ordered.slice(begin, count).combine_chunks()

    def rows(self, event_type: str, first: int, last: int) -> pa.Table | None:
        """DeadLetters of a range of sequences, ascending; None where there are none."""
        if self._beyond is not None:
            return self._read(event_type, first, last)
        kept = self._kept.get(event_type)
        if kept is None:
            return None
        begin, end = np.searchsorted(sequences(kept), [first, last + 1])
        return kept.slice(int(begin), int(end - begin)) if begin < end else None

    def _read(self, event_type: str, first: int, last: int) -> pa.Table | None:
        assert self._beyond is not None  # noqa: S101 - the caller looked
        sequence = pc.field("sequence")
        asked = (pc.field("event_type") == event_type) & (sequence >= first) & (sequence <= last)
        found = self._beyond.to_table(columns=list(COLUMNS), filter=asked)
        return found.sort_by("sequence").combine_chunks() if found.num_rows else None


def sequences(rows: pa.Table) -> Ints:
    """The sequences of letters."""
    return np.asarray(rows["sequence"], np.int64)


def unreadable(rows: pa.Table) -> list[Unreadable]:
    """DeadLetters as a replay reports them."""
    columns = [rows[name].to_pylist() for name in COLUMNS[1:]]
    return [
        Unreadable(sequence, ns or 0, subject or "", problem)
        for sequence, ns, subject, problem in zip(*columns, strict=True)
    ]


class DeadLetterTable:
    """The dead letters of a lake, as last read."""

    def __init__(self, place: Place) -> None:
        self._increments = Increments(place, DEAD_LETTERS, COLUMNS, most=MANY)
        self._rows = self._increments.nothing()
        self._letters = DeadLetters(self._rows)

    def look(self) -> DeadLetters:
        """What the table has now."""
        news = self._increments.look()
        if news is not None:
            self._rows = news.rows if news.anew else pa.concat_tables([self._rows, news.rows])
            table = self._increments.table if news.over else None
            beyond = None if table is None else table.to_pyarrow_dataset()
            self._letters = DeadLetters(self._rows, beyond)
        return self._letters
