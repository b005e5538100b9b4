"""The files of the notifications table at one version, as columns.

A table may have a million files. As columns they are a few arrays that compute kernels filter, sort
and cut, and that Spark is handed as they are; only what is worked on becomes an object.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import overload
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from aviso_server.core.ring import Mask
from aviso_server.lake.index import UNKNOWN, FileIndex, Files
from aviso_server.lake.layout import BOX
from aviso_server.lake.ranges import EVERYWHERE, MOST, Ints

_NUMBERS = ("rows", "first", "last", "since_ns", "until_ns")

COLUMNS = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("event_type", pa.string()),
        ("day", pa.date32()),
        *((name, pa.int64()) for name in _NUMBERS),
        *((name, pa.float64()) for name in BOX),
    ]
)
"""What an inventory says of a file, named as in TableFile."""

_ORDER = [(name, "ascending") for name in ("event_type", "day", "first", "last")]


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file that is part of the table."""

    path: str
    """Below the table's folder, as the log spells it."""
    size: int
    event_type: str
    day: date
    rows: int = UNKNOWN
    first: int = 0
    """Lowest sequence, or below every one if the file has no statistics."""
    last: int = MOST
    """Highest sequence, or above every one if the file has no statistics."""
    since_ns: int = -MOST
    until_ns: int = MOST
    box: tuple[float, ...] = field(default=EVERYWHERE, compare=False)
    """NaN where it holds no places, and NaN equals nothing: left out of comparisons."""

    @property
    def name(self) -> str:
        """The path as the file system spells it."""
        return unquote(self.path)

    @property
    def bounded(self) -> bool:
        """Whether the table says which sequences it holds."""
        return self.last < MOST


class Inventory(Sequence[TableFile]):
    """Files of the table, by event type, day and first sequence."""

    def __init__(self, columns: pa.Table) -> None:
        """Take columns that are in this order."""
        self.columns = columns

    @classmethod
    def of(cls, files: Iterable[TableFile]) -> "Inventory":
        """Some files, in any order."""
        rows = [{**asdict(file), **dict(zip(BOX, file.box, strict=True))} for file in files]
        return cls(pa.Table.from_pylist(rows, COLUMNS).sort_by(_ORDER))

    @classmethod
    def of_event_type(cls, event_type: str, files: Files) -> "Inventory":
        """The files of an event type."""
        return cls(_columns(event_type, files).sort_by(_ORDER))

    def __len__(self) -> int:
        return int(self.columns.num_rows)

    def __eq__(self, other: object) -> bool:
        """Whether they are the same files; boxes are left out, as in TableFile."""
        if not isinstance(other, Inventory):
            return NotImplemented
        return bool(self.columns.drop_columns(BOX).equals(other.columns.drop_columns(BOX)))

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[TableFile]:
        told = [column.to_pylist() for column in self.columns.select(COLUMNS.names).columns]
        for path, size, event_type, day, rows, first, last, since, until, *box in zip(
            *told, strict=True
        ):
            yield TableFile(
                path, size, event_type, day, rows, first, last, since, until, tuple(box)
            )

    @overload
    def __getitem__(self, which: int) -> TableFile: ...
    @overload
    def __getitem__(self, which: slice) -> "Inventory": ...
    def __getitem__(self, which: int | slice) -> "TableFile | Inventory":
        """One of them, or those from one number up to another."""
        if isinstance(which, int):
            number = which % len(self)
            return next(iter(self[number : number + 1]))
        begin, end, _ = which.indices(len(self))
        return Inventory(self.columns.slice(begin, max(0, end - begin)))

    def chosen(self, which: "Ints | Mask") -> "Inventory":
        """Some of them, in their order."""
        numbers = np.flatnonzero(which) if which.dtype == np.bool_ else which
        return Inventory(self.columns.take(pa.array(numbers, pa.int64())))

    def numbers(self, name: str) -> Ints:
        """A column of whole numbers."""
        return np.asarray(self.columns[name], np.int64)

    @property
    def names(self) -> list[str]:
        """Their paths as the file system spells them."""
        return [unquote(path) for path in self.columns["path"].to_pylist()]

    @property
    def size(self) -> int:
        """Bytes of all of them."""
        return int(self.numbers("size").sum())

    @property
    def rows(self) -> int:
        """Rows of all of them; UNKNOWN if one has no statistics."""
        counts = self.numbers("rows")
        return UNKNOWN if (counts == UNKNOWN).any() else int(counts.sum())

    def days(self) -> Iterator[tuple[str, date, int, int]]:
        """Each event type and day, with the numbers of its files from one up to another."""
        if not len(self):
            return
        names = self.columns["event_type"].combine_chunks().dictionary_encode()
        codes = np.asarray(names.indices)
        days = np.asarray(self.columns["day"].cast(pa.int32()))
        borders = np.flatnonzero((np.diff(codes) != 0) | (np.diff(days) != 0)) + 1
        edges = [0, *borders.tolist(), len(self)]
        begins = pa.array(edges[:-1], pa.int64())
        told = self.columns.select(["event_type", "day"]).take(begins)
        yield from zip(
            told["event_type"].to_pylist(),
            told["day"].to_pylist(),
            edges[:-1],
            edges[1:],
            strict=True,
        )


def inventory(table: DeltaTable, event_types: tuple[str, ...] = ()) -> Inventory:
    """The files of these event types, or of all."""
    index = FileIndex(table)
    found = [
        _columns(name, files)
        for name in event_types or index.event_types
        if (files := index.files(name)) is not None
    ]
    every = pa.concat_tables(found or [COLUMNS.empty_table()])
    return Inventory(every.sort_by(_ORDER).combine_chunks())


def _columns(event_type: str, files: Files) -> pa.Table:
    ranges = files.ranges
    numbers = (files.rows, ranges.first, ranges.last, ranges.since, ranges.until)
    names = pa.repeat(pa.scalar(event_type, pa.string()), len(ranges))
    return pa.table(
        [files.paths, files.sizes, names, files.days, *numbers, *ranges.boxes.T], schema=COLUMNS
    )
