"""Years of notifications as one DataFrame: the lake, and what only the log has yet.

Theory of operation
The log is queried first, then the lake: its files, its marks and its tombstones, all of one
version. Everything up to the mark of an event type comes from the lake and everything above it from
the log, so each notification comes once, whatever the archive job commits meanwhile. What retention
removes from the log between the look and the read is an error of the read, never a silent gap.

Files are chosen on the driver (files). Spark then reads them itself, with columns and row
groups pruned, and exact tests on places run last, on Arrow batches (predicate).
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import cast

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import BooleanType, DateType, StructField, StructType

from aviso_server.core.filter import Filter
from aviso_server.core.schema import Schema
from aviso_server.lake.files import FILE_SCHEMA
from aviso_server.lake.layout import NOTIFICATION_TABLE, NOTIFICATIONS, Place
from aviso_server.lake.predicate import region
from aviso_server.lake.ranges import MOST
from aviso_server.lake.snapshot import EventTypeSnapshot, Snapshot, look
from aviso_server.lake.tombstones import Intervals
from aviso_server.pipeline.datasource import register
from aviso_server.pipeline.history.fields import with_fields
from aviso_server.pipeline.history.files import LakeScope, choose_files
from aviso_server.pipeline.history.listing import read_files
from aviso_server.pipeline.history.plan import Asked, HistoryPlan, Point, Where, make_plan, question
from aviso_server.pipeline.history.predicate import matches
from aviso_server.pipeline.source.columns import PROBLEM, RAW, SPARK

FEW = 16
"""Ranges of hidden sequences that Spark compares itself; more of them go through Arrow."""

_NS_PER_DAY = 86_400_000_000_000

FILE = StructType([SPARK[name] for name in FILE_SCHEMA.names])
"""What is in a file of the lake."""

TABLE = StructType(
    [*(SPARK[name] for name in NOTIFICATION_TABLE.names[:-1]), StructField("day", DateType())]
)
"""The columns of every frame here: those of the notifications table."""


def archived(  # noqa: PLR0913 - each is a way to ask for less
    spark: SparkSession,
    place: Place,
    event_types: Sequence[str] | None = None,
    *,
    wanted: Filter | None = None,
    first: int | None = None,
    last: int | None = None,
    start_ns: int | None = None,
    end_ns: int | None = None,
    hidden: bool = False,
) -> DataFrame:
    """What the lake holds now, each notification once; rows of NOTIFICATION_TABLE, in no order.

    All event types unless some are named. Deleted and wiped ones are left out unless ``hidden``.
    """
    part = LakeScope(
        1 if first is None else first,
        MOST if last is None else last,
        -MOST if start_ns is None else start_ns,
        MOST if end_ns is None else end_ns,
        region(wanted),
    )
    return snapshot_frame(
        spark, place, look(place), part, event_types, wanted=wanted, hidden=hidden
    )


def snapshot_frame(
    spark: SparkSession,
    place: Place,
    view: Snapshot,
    part: LakeScope,
    event_types: Sequence[str] | None = None,
    *,
    wanted: Filter | None = None,
    hidden: bool = False,
) -> DataFrame:
    """The same of a snapshot taken before, so that several frames show one version."""
    names = view.index.event_types if event_types is None else dict.fromkeys(event_types)
    frames = [
        event_type_frame(spark, place, view.of(name), part, wanted=wanted, hidden=hidden)
        for name in names
    ]
    return _together(spark, [frame for frame in frames if frame is not None])


def event_type_frame(
    spark: SparkSession,
    place: Place,
    ours: EventTypeSnapshot,
    part: LakeScope,
    *,
    wanted: Filter | None = None,
    hidden: bool = False,
) -> DataFrame | None:
    """One event type; None where no file can hold what is asked for."""
    files = choose_files(ours, part, hidden=hidden)
    if files is None:
        return None
    rows = read_files(spark, place, NOTIFICATIONS, files.paths, files.sizes, schema=FILE)
    tests = _within(part, ours.through)
    if not hidden:
        tests += visible(ours.hidden, part)
    if wanted is not None and wanted != Filter():
        tests.append(matches(wanted))
    return _shaped(reduce(DataFrame.where, tests, rows), event_type=ours.event_type)


def history(  # noqa: PLR0913 - the fields of a replay request, and where to ask
    spark: SparkSession,
    event_type: str,
    *,
    lake: Place | str | None = None,
    log: Where = None,
    filter: Asked = None,  # noqa: A002 - as the source calls it
    start: Point = None,
    end: Point = None,
    typed: bool = False,
    schemas: Sequence[Schema] | Mapping[str, Schema] = (),
    fail_on_data_loss: bool = True,
) -> DataFrame:
    """Every notification of an event type that was asked for, once, from lake and log together.

    ``lake`` is a path or URL; ``log`` the address of NATS or of a server, or options of the source.
    Without both the environment variables of the server are used. ``filter`` is the identifier of a
    replay request. ``start`` and ``end`` are sequences (int) or times, both inclusive. ``typed``
    adds the identifier's fields as columns (docs/jobs/history.md).
    """
    asked = question(
        event_type,
        lake=lake,
        log=log,
        filter=filter,
        start=start,
        end=end,
        schemas=schemas,
        fail_on_data_loss=fail_on_data_loss,
    )
    plan = make_plan(asked)
    rows = answer(spark, plan)
    return with_fields(rows, plan.schema) if typed else rows


def answer(spark: SparkSession, plan: HistoryPlan) -> DataFrame:
    """The rows of a plan, in no order."""
    frames = []
    place = plan.question.place
    if place is not None and plan.snapshot is not None:
        frames.append(event_type_frame(spark, place, plan.snapshot, plan.part, wanted=plan.wanted))
    if (options := plan.source) is not None:
        register(spark)
        rows = spark.read.format("aviso").options(**options).load()
        # What cannot be decoded is no notification; the archive keeps it as a dead letter.
        frames.append(_shaped(rows.where(F.col(PROBLEM).isNull()).drop(PROBLEM, RAW)))
    return _together(spark, [frame for frame in frames if frame is not None])


def _within(part: LakeScope, through: int) -> list[Column]:
    """What of the part the files' own statistics cannot decide; true for most files."""
    sequence, ns = F.col("sequence"), F.col("time_ns")
    tests = []
    if part.first > 1:
        tests.append(sequence >= part.first)
    if part.last < through:
        tests.append(sequence <= part.last)
    if part.since_ns > -MOST:
        tests.append(ns >= part.since_ns)
    if part.until_ns < MOST:
        tests.append(ns <= part.until_ns)
    return tests


def visible(hidden: Intervals, part: LakeScope) -> list[Column]:
    """The row is not in a hidden range; ranges outside the part do not matter."""
    near = (hidden.last >= part.first) & (hidden.first <= part.last)
    ranges = Intervals(hidden.first[near], hidden.last[near])
    if len(ranges.first) <= FEW:
        return [~F.col("sequence").between(*pair) for pair in ranges.pairs()]

    def shown(sequences: pa.Array) -> pa.Array:
        return pa.array(~ranges.mask(sequences.to_numpy()))

    # PySpark's stubs do not know arrow_udf yet.
    made = F.arrow_udf(shown, BooleanType())  # type: ignore[attr-defined]
    return [cast("Column", made(F.col("sequence")))]


def _shaped(rows: DataFrame, *, event_type: str | None = None) -> DataFrame:
    """The columns of TABLE; ``day`` is worked out, for that does not depend on a time zone."""
    days = F.expr(f"int((time_ns - pmod(time_ns, {_NS_PER_DAY})) div {_NS_PER_DAY})")
    name = F.col("event_type") if event_type is None else F.lit(event_type)
    columns = {"event_type": name, "day": F.date_from_unix_date(days)}
    return rows.select(*(columns.get(n, F.col(n)).alias(n) for n in TABLE.names))


def _together(spark: SparkSession, frames: Sequence[DataFrame]) -> DataFrame:
    if not frames:
        return spark.createDataFrame([], TABLE)
    return reduce(DataFrame.unionAll, frames)
