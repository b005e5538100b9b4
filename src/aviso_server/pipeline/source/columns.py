"""Notifications as rows of the source: the columns, rows with a problem, and marks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from aviso_server.core.notification import Entry, Record, Unreadable
from aviso_server.lake.layout import BOX, DEAD_LETTER_TABLE, RECORD, TIME
from aviso_server.lake.record import NS_PER_US, records_to_batch, storable
from aviso_server.pipeline.source.failure import BadOption
from aviso_server.pipeline.source.ranges import Range

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

MARK = "mark"
MARKED = StructType(
    [
        *SPARK,
        StructField(
            MARK,
            StructType(
                [
                    StructField("first", LongType()),
                    StructField("last", LongType()),
                    StructField("lost", BooleanType()),
                ]
            ),
        ),
    ]
)
"""For jobs that must know what was read: if this column is requested, there is a row for every
range that was read to its end, holes included, and for every range that is gone."""

ARROW: pa.Schema = pa.schema(
    [
        *RECORD,
        pa.field(PROBLEM, pa.string()),
        pa.field(RAW, pa.binary()),
        pa.field(
            MARK, pa.struct([("first", pa.int64()), ("last", pa.int64()), ("lost", pa.bool_())])
        ),
    ]
)
"""The same in Arrow."""


class Columns:
    """Makes batches with the columns a reader was asked for."""

    def __init__(self, wanted: StructType = SPARK, *, topics: bool = True) -> None:
        self._names = _check_names(wanted)
        self._schema = to_arrow_schema(wanted, timezone="UTC")
        self._topics = topics

    @property
    def marked(self) -> bool:
        """Whether marks are asked for."""
        return MARK in self._names

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

    def mark(self, item: Range, *, lost: bool) -> pa.RecordBatch:
        """One row that is no notification: a range that was read to its end, or that is gone."""
        return self._sparse(
            event_type=[item.event_type],
            sequence=[item.last],
            id=[f"{item.event_type}@{item.last}"],
            mark=[{"first": item.first, "last": item.last, "lost": lost}],
        )

    def _records(self, event_type: str, records: Sequence[Record]) -> Iterator[pa.RecordBatch]:
        try:
            made = records_to_batch(records)
        except (UnicodeError, pa.ArrowInvalid):
            # One of them holds text that no column can: only then are all checked.
            checked = [storable(record) for record in records]
            yield from self.rows(event_type, checked, {})
            return
        empty = [pa.nulls(len(records), ARROW.field(name).type) for name in (PROBLEM, RAW, MARK)]
        columns = dict(zip(ARROW.names, [*made.columns, *empty], strict=True))
        if not self._topics:
            columns["topic"] = pa.nulls(len(records), pa.string())
        yield self._choose(columns)

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
        return self._choose(columns)

    def _choose(self, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in self._names], schema=self._schema
        )


def _check_names(wanted: StructType) -> list[str]:
    """The names of the columns; a reader may leave some out but not change their types."""
    ours = {item.name: item.dataType for item in MARKED}
    for item in wanted:
        if ours.get(item.name) != item.dataType:
            raise BadOption(
                f"column {item.name} {item.dataType.simpleString()} is not one of the source; "
                f"its columns are {SPARK.simpleString()}"
            )
    return list(wanted.names)


class Divided(NamedTuple):
    """What the rows of a marked batch are."""

    records: pa.RecordBatch
    """Notifications, with the columns of the lake."""
    letters: pa.RecordBatch
    """Dead letters, with the columns of their table."""
    read: list[Range]
    lost: list[Range]


def divide(batch: pa.RecordBatch) -> Divided:
    """Separate the rows of a batch that was read with marks."""
    marks, problems = batch.column(MARK), batch.column(PROBLEM)
    if marks.null_count == problems.null_count == batch.num_rows:
        return Divided(_shape(batch, RECORD), _shape(batch.slice(0, 0), DEAD_LETTER_TABLE), [], [])
    entry, bad = pc.is_null(marks), pc.is_valid(problems)
    ranges: dict[bool, list[Range]] = {False: [], True: []}
    for event_type, mark in zip(
        batch.column("event_type").to_pylist(), marks.to_pylist(), strict=True
    ):
        if mark is not None:
            ranges[mark["lost"]].append(Range(event_type, mark["first"], mark["last"]))
    return Divided(
        _shape(batch.filter(pc.and_(entry, pc.invert(bad))), RECORD),
        _shape(batch.filter(bad), DEAD_LETTER_TABLE),
        read=ranges[False],
        lost=ranges[True],
    )


def _shape(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a schema; Spark's own types differ in names and in what may be null."""
    columns = [batch.column(item.name).cast(item.type) for item in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
