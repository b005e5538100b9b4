"""What a task of the archive hands to the driver: one row that says what it wrote."""

import traceback
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    StructField,
    StructType,
)

from aviso_server.lake.files import Written
from aviso_server.pipeline.archive.deadletters import Bundle
from aviso_server.pipeline.source.ranges import Range

REPORT, ROWS, LETTERS, NEWEST, UNEXPECTED = "report", "rows", "letters", "newest", "unexpected"

REPORTS = StructType(
    [
        StructField(REPORT, BinaryType(), nullable=False),
        StructField(ROWS, LongType(), nullable=False),
        StructField(LETTERS, LongType(), nullable=False),
        StructField(NEWEST, LongType()),
        StructField(UNEXPECTED, ArrayType(LongType()), nullable=False),
    ]
)
"""The row: all of it for the commit, and its counts for Spark to add up."""

_ARROW = pa.schema(
    [
        pa.field(REPORT, pa.binary(), nullable=False),
        pa.field(ROWS, pa.int64(), nullable=False),
        pa.field(LETTERS, pa.int64(), nullable=False),
        pa.field(NEWEST, pa.int64()),
        pa.field(UNEXPECTED, pa.list_(pa.int64()), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class Counts:
    """What passed through a task."""

    rows: int = 0
    letters: int = 0
    newest: int | None = None
    """Newest storage time, microseconds since the epoch."""
    unexpected: tuple[int, ...] = ()
    """By expectation, how many notifications are not as expected."""


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What one task did."""

    written: tuple[Written, ...] = ()
    marks: dict[str, int] = field(default_factory=dict)
    """Through which sequence each event type was read."""
    lost: tuple[Range, ...] = ()
    """What the log no longer had."""
    letters: Bundle = field(default_factory=Bundle)
    counts: Counts = Counts()
    problem: str | None = None
    """Why the task could not do its part, as a traceback; then it has left nothing behind."""

    @classmethod
    def of_failure(cls) -> "TaskReport":
        """The report of a task that failed with the exception being handled."""
        return cls(problem=traceback.format_exc())


def to_row(report: TaskReport) -> pa.RecordBatch:
    """The report as it crosses Spark."""
    counts = report.counts
    values = (
        msgspec.msgpack.encode(report),
        counts.rows,
        counts.letters,
        counts.newest,
        counts.unexpected,
    )
    columns = [pa.array([value], item.type) for value, item in zip(values, _ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW)


def read_report(data: bytes) -> TaskReport:
    """The report of a row."""
    return msgspec.msgpack.decode(data, type=TaskReport)
