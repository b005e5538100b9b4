"""The job ``pipeline quality``: are notifications as they are expected to be?

Theory of operation
Each event type is read once, of the lake and of the period alone: all its expectations of values
and of what is present are counts in one aggregation. Values are compared as filters compare them,
by the same code. Freshness is known from the table's log. Cycles are grouped by date and time; the
newest may not be over and is not checked.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from deltalake import write_deltalake
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from aviso_server.core.errors import AvisoError
from aviso_server.core.schema import Schema
from aviso_server.lake.layout import Place
from aviso_server.lake.snapshot import Snapshot, look
from aviso_server.pipeline.datasource import register
from aviso_server.pipeline.history.expected import row_tests
from aviso_server.pipeline.history.files import LakeScope
from aviso_server.pipeline.history.frame import snapshot_frame
from aviso_server.pipeline.live import alert
from aviso_server.pipeline.live.job import as_notifications, check_server
from aviso_server.pipeline.quality.verdict import TABLE_NAME, QualityVerdict, as_table
from aviso_server.pipeline.report.arrivals import Clock, clocks
from aviso_server.pipeline.spark.failure import failure_of

Advance: TypeAlias = Callable[[int], None]

_ALERTS = "kind string, about string, severity int, window string, key string, payload string"
_NS = 1_000_000_000


class QualityFailed(AvisoError):
    """It could not be checked; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityOptions:
    """What is checked, over which time, and who is told."""

    place: Place
    schemas: Mapping[str, Schema]
    """Those of which something is expected."""
    days: float = 1.0
    url: str | None = None
    """Of a server that gets an alert for each expectation that is not met."""
    token: str | None = field(default=None, repr=False)
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def since(self) -> datetime:
        """Where the period begins."""
        return self.now - timedelta(days=self.days)


def check(options: QualityOptions) -> None:
    """Refuse what cannot work, before Spark is started for nothing."""
    if not options.schemas:
        raise QualityFailed(
            "nothing is expected of any of the event types: declare it under "
            "notification_schema.<event type>.expectations"
        )
    look(options.place)
    if options.url is not None:
        check_server(options.url, options.token)


def run(
    spark: SparkSession, options: QualityOptions, *, advance: Advance = lambda _: None
) -> list[QualityVerdict]:
    """Check, keep the verdicts in the lake, and publish alerts; QualityFailed or LakeFailed."""
    view = look(options.place)
    verdicts: list[QualityVerdict] = []
    try:
        for schema in options.schemas.values():
            verdicts += _assess(spark, options, view, schema)
            advance(1)
        _keep(options, verdicts)
        _publish(spark, options, verdicts)
    except (PySparkException, Py4JError) as error:
        raise QualityFailed(failure_of(error).text) from error
    return verdicts


def _assess(
    spark: SparkSession, options: QualityOptions, view: Snapshot, schema: Schema
) -> Iterator[QualityVerdict]:
    expected, name = schema.expectations, schema.event_type
    period = LakeScope(since_ns=_ns(options.since), until_ns=_ns(options.now))
    rows = snapshot_frame(spark, options.place, view, period, [name])
    if expected.values or expected.present:
        yield from _assess_rows(rows, schema)
    if expected.every_s is not None:
        yield _assess_age(view, schema, expected.every_s, options.now)
    clock = clocks({name: schema})[name]
    if expected.per_cycle is not None and clock is not None:
        yield _assess_cycles(rows, name, clock, expected.per_cycle)


def _assess_rows(rows: DataFrame, schema: Schema) -> Iterator[QualityVerdict]:
    """Expectations of single notifications, counted in one pass."""
    tests = list(row_tests(schema.expectations))
    counts = [
        column.alias(f"{what}{number}")
        for number, test in enumerate(tests)
        for what, column in (
            ("checked", F.count_if(test.checked)),
            ("bad", F.count_if(test.unexpected)),
            ("first", F.min(F.when(test.unexpected, F.col("sequence")))),
        )
    ]
    (found,) = rows.agg(*counts).collect()
    for number, test in enumerate(tests):
        first = found[f"first{number}"]
        example = None if first is None else f"{schema.event_type}@{first}"
        checked, bad = found[f"checked{number}"], found[f"bad{number}"]
        yield QualityVerdict(schema.event_type, test.name, test.expected, checked, bad, example)


def _assess_age(view: Snapshot, schema: Schema, every_s: int, now: datetime) -> QualityVerdict:
    """Whether the newest notification is as young as expected."""
    files = view.index.files(schema.event_type)
    newest = None if files is None else int(files.ranges.until.max())
    late = newest is None or _ns(now) - newest > every_s * _NS
    example = None
    if late:
        since = "never" if newest is None else alert.moment(newest // 1000)
        example = f"the newest notification: {since}"
    expected = f"every {alert.duration(every_s)}"
    return QualityVerdict(schema.event_type, "every", expected, 1, int(late), example)


def _assess_cycles(rows: DataFrame, event_type: str, clock: Clock, wanted: int) -> QualityVerdict:
    """Whether each cycle but the newest has as many products as expected."""
    values = F.col("identifier")
    time = F.lit("") if clock.time is None else F.coalesce(values[clock.time], F.lit(""))
    products = (
        rows.select(
            F.concat_ws(" ", values[clock.date], time).alias("cycle"),
            F.to_json("identifier").alias("product"),
        )
        .where(values[clock.date].isNotNull())
        .groupBy("cycle")
        .agg(F.count_distinct("product").alias("products"))
    )
    # A cycle is one row; a year has some thousands.
    over = sorted((row["cycle"], row["products"]) for row in products.collect())[:-1]
    bad = [(cycle, count) for cycle, count in over if count != wanted]
    example = f"cycle {bad[0][0].strip()}: {bad[0][1]}" if bad else None
    return QualityVerdict(event_type, "per_cycle", f"{wanted}", len(over), len(bad), example)


def _keep(options: QualityOptions, verdicts: list[QualityVerdict]) -> None:
    address = options.place.table(TABLE_NAME)
    table = as_table(verdicts, checked_at=options.now, since=options.since)
    try:
        write_deltalake(
            address,
            table,
            mode="append",
            name="aviso_quality",
            storage_options=dict(options.place.options),
        )
    except (DeltaError, OSError) as error:
        raise QualityFailed(f"cannot write {address}: {error}") from error


def _publish(spark: SparkSession, options: QualityOptions, verdicts: list[QualityVerdict]) -> None:
    window = options.now.strftime("%Y-%m-%dT%H:%M:%SZ")
    rows = [
        (alert.QUALITY, item.event_type, alert.UNEXPECTED, window, item.expectation, item.payload)
        for item in verdicts
        if item.unexpected
    ]
    if options.url is None or not rows:
        return
    register(spark)
    shown = as_notifications(spark.createDataFrame(rows, _ALERTS))
    told = {} if options.token is None else {"token": options.token}
    writer = shown.write.format("aviso").mode("append")
    writer.options(url=options.url, idempotencyKey="id", onReject="fail", **told).save()


def _ns(moment: datetime) -> int:
    return int(moment.timestamp()) * _NS
