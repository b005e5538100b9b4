"""Notifications as rows of the source: the columns, rows with a problem, and marks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from aviso_server.core.notification import Entry, Record, Unreadable
from aviso_server.lake.layout import BOX, RECORD, TIME
from aviso_server.lake.record import NS_PER_US, records_to_batch, storable
from aviso_server.pipeline.source.failure import BadOption

PROBLEM, RAW = "problem", "raw"

SPARK = StructType(
    [
        StructField("event_type", StringType(), nullable=False),
        StructField("sequence", LongType(), nullable=False),
        StructField("id", StringType(), nullable=False),
        StructField("time", TimestampType()),
        StructField("time_ns", LongType()),
        StructField("topic", StringType()),
        StructField("subject", StringType()),
        StructField("identifier", MapType(StringType(), StringType())),
        StructField("payload", StringType()),
        StructField("geometry", BinaryType()),
        StructField("polygon", StringType()),
        *(StructField(name, DoubleType()) for name in BOX),
        StructField(PROBLEM, StringType()),
        StructField(RAW, BinaryType()),
    ]
)
"""The columns, in order: those of the lake, then what is wrong with a row, if anything."""

ARROW: pa.Schema = pa.schema([*RECORD, pa.field(PROBLEM, pa.string()), pa.field(RAW, pa.binary())])


LOSS = "lost:"
"""How the ``problem`` of a mark begins that tells what is gone; first and last sequence follow."""


def loss(first: int, last: int) -> str:
    """The ``problem`` of a mark for a range that is gone."""
    return f"{LOSS}{first}-{last}"


def lost_range(problem: str) -> tuple[int, int]:
    """The range that ``loss`` wrote down."""
    first, _, last = problem.removeprefix(LOSS).partition("-")
    return int(first), int(last)


class Columns:
    """Makes batches with the columns a reader was asked for."""

    def __init__(self, wanted: StructType = SPARK, *, topics: bool = True) -> None:
        self._names = _checked(wanted)
        self._schema = to_arrow_schema(wanted, timezone="UTC")
        self._topics = topics

    def rows(
        self, event_type: str, entries: Iterable[Entry], raw: Mapping[int, bytes]
    ) -> Iterator[pa.RecordBatch]:
        """The entries in order: mostly one batch, more where some could not be decoded."""
        for sound, run in groupby(entries, key=lambda entry: isinstance(entry, Record)):
            if sound:
                records = [entry for entry in run if isinstance(entry, Record)]
                yield from self._records(event_type, records)
            else:
                bad = [entry for entry in run if isinstance(entry, Unreadable)]
                yield self._unreadable(event_type, bad, raw)

    def mark(self, event_type: str, sequence: int, problem: str | None = None) -> pa.RecordBatch:
        """One row that is no notification: how far a partition came, or what it lost."""
        return self._sparse(
            event_type=[event_type],
            sequence=[sequence],
            id=[f"{event_type}@{sequence}"],
            problem=[problem],
        )

    def _records(self, event_type: str, records: Sequence[Record]) -> Iterator[pa.RecordBatch]:
        try:
            made = records_to_batch(records)
        except (UnicodeError, pa.ArrowInvalid):
            # One of them holds text that no column can: only then are all looked at.
            checked = [storable(record) for record in records]
            yield from self.rows(event_type, checked, {})
            return
        empty = [pa.nulls(len(records), pa.string()), pa.nulls(len(records), pa.binary())]
        columns = dict(zip(ARROW.names, [*made.columns, *empty], strict=True))
        if not self._topics:
            columns["topic"] = pa.nulls(len(records), pa.string())
        yield self._chosen(columns)

    def _unreadable(
        self, event_type: str, entries: Sequence[Unreadable], raw: Mapping[int, bytes]
    ) -> pa.RecordBatch:
        return self._sparse(
            event_type=[event_type] * len(entries),
            sequence=[entry.sequence for entry in entries],
            id=[f"{event_type}@{entry.sequence}" for entry in entries],
            time=[entry.stored_at_ns // NS_PER_US or None for entry in entries],
            time_ns=[entry.stored_at_ns or None for entry in entries],
            subject=[entry.topic for entry in entries],
            problem=[entry.reason for entry in entries],
            raw=[raw.get(entry.sequence) for entry in entries],
        )

    def _sparse(self, **values: Sequence[object]) -> pa.RecordBatch:
        """A batch of the columns given; all others are null."""
        count = len(values["sequence"])
        columns = {
            item.name: pa.array(values[item.name], pa.int64()).cast(TIME)
            if item.name == "time" and "time" in values
            else pa.array(values.get(item.name, [None] * count), item.type)
            for item in ARROW
        }
        return self._chosen(columns)

    def _chosen(self, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in self._names], schema=self._schema
        )


def _checked(wanted: StructType) -> list[str]:
    """The names of the columns; a reader may leave some out but not change their types."""
    ours = {item.name: item.dataType for item in SPARK}
    for item in wanted:
        if ours.get(item.name) != item.dataType:
            raise BadOption(
                f"column {item.name} {item.dataType.simpleString()} is not one of the source; "
                f"its columns are {SPARK.simpleString()}"
            )
    return list(wanted.names)
