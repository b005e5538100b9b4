"""The figures of a report, worked out by Spark; only aggregates reach the driver.

Each aggregate is bounded: by the busiest event types, by the hours or days of the period, by ranks,
by cells of the globe. What is not (findings) is cut, and its number reported.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from aviso_server.core.geometry import Box
from aviso_server.lake.layout import Place
from aviso_server.lake.snapshot import Snapshot
from aviso_server.pipeline.history.files import LakeScope
from aviso_server.pipeline.history.frame import snapshot_frame
from aviso_server.pipeline.report.areas import count_cells
from aviso_server.pipeline.report.arrivals import Clock, assess_arrivals
from aviso_server.pipeline.report.delays import delays as told_delays
from aviso_server.pipeline.report.expect import DAY_S, DUE, LATE, MISSING, NEW, ON_TIME, USUAL, Span
from aviso_server.pipeline.report.figures import OTHERS, SCHEMAS, SECOND, Period

BUSIEST = 30
"""Event types that are shown individually; the others are added up."""
TOP = 8
"""Values of a field that are reported."""
LISTED = 20_000
"""Findings that are reported, the newest days first."""
HOURLY = timedelta(days=92)
"""Longer periods are counted by day."""
_GLOBE = Box(-90.0, -180.0, 90.0, 180.0)
_HOUR_NS = 3600 * SECOND


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """The subject of a report: one version of a lake, some event types, a period."""

    spark: SparkSession
    place: Place
    view: Snapshot
    event_types: Sequence[str]
    period: Period
    clock_of: Mapping[str, Clock | None] = field(default_factory=dict)

    @property
    def bucket(self) -> timedelta:
        """The resolution of volume."""
        return timedelta(hours=1) if self.period.length <= HOURLY else timedelta(days=1)

    @property
    def part(self) -> LakeScope:
        """The period, as the lake is asked for it."""
        return LakeScope(since_ns=self.period.start_ns, until_ns=self.period.end_ns - 1)

    def rows(self, *, before: timedelta = timedelta(), box: Box | None = None) -> DataFrame:
        """Notifications of the period and of some time before it; with a box only files with
        places in it, though with all their rows."""
        part = self.part
        since = part.since_ns - before // timedelta(microseconds=1) * 1000
        asked = LakeScope(since_ns=since, until_ns=part.until_ns, box=box)
        return snapshot_frame(self.spark, self.place, self.view, asked, self.event_types)


def measures(scope: Scope) -> DataFrame:
    """Notifications by event type, hour or day, and size of payload.

    Many share all three, so volume and sizes together read the lake once.
    """
    each = _HOUR_NS * (scope.bucket // timedelta(hours=1))
    start = F.timestamp_micros(F.expr(f"(time_ns - pmod(time_ns, {each})) div 1000"))
    octets = F.coalesce(F.octet_length("payload"), F.lit(0)).cast("bigint")
    return (
        scope.rows()
        .groupBy("event_type", start.alias("start"), octets.alias("octets"))
        .agg(F.count("*").alias("n"), F.max("time").alias("newest"))
    )


def sizes(measured: DataFrame) -> pa.Table:
    """Totals and payload sizes of each event type, the busiest first."""
    shares = F.percentile("octets", F.array(*map(F.lit, (0.5, 0.95, 0.99))), F.col("n"))
    found = measured.groupBy("event_type").agg(
        F.sum("n").alias("notifications"),
        F.sum(F.col("octets") * F.col("n")).alias("payload_bytes"),
        shares.alias("q"),
        F.max("octets").alias("largest"),
        F.max("newest").alias("newest"),
    )
    told = (
        F.round(F.col("q")[n]).cast("bigint").alias(f"p{p}") for n, p in enumerate((50, 95, 99))
    )
    flat = found.select("*", *told).orderBy(F.desc("notifications"), "event_type")
    return _collect(flat, "sizes")


def size_classes(measured: DataFrame, busiest: Sequence[str]) -> pa.Table:
    """Payloads by powers of two."""
    exponent = F.floor(F.log2(F.greatest("octets", F.lit(1)))).cast("int").alias("exponent")
    found = measured.groupBy(_named(busiest).alias("event_type"), exponent).agg(
        F.sum("n").alias("notifications")
    )
    return _collect(found.orderBy("event_type", "exponent"), "size_classes")


def volume(measured: DataFrame, busiest: Sequence[str]) -> pa.Table:
    """Notifications by event type and hour, or day."""
    found = measured.groupBy(_named(busiest).alias("event_type"), "start").agg(
        F.sum("n").alias("notifications"),
        F.sum(F.col("octets") * F.col("n")).alias("payload_bytes"),
    )
    return _collect(found.orderBy("event_type", "start"), "volume")


def delays(scope: Scope, busiest: Sequence[str]) -> pa.Table:
    """From storage to the commit that archived it, without what was imported."""
    return told_delays(scope.spark, scope.place, scope.period, scope.event_types, _named(busiest))


def identifiers(scope: Scope) -> DataFrame:
    """Distinct identifiers with their first time, from before the period on.

    Many notifications share one, so what is counted further is much less than all of them.
    """
    inside = F.col("time_ns") >= scope.part.since_ns
    rows = scope.rows(before=timedelta(days=USUAL.learn_days + 1))
    return rows.groupBy("event_type", F.map_entries("identifier").alias("fields")).agg(
        F.count_if(inside).alias("n"), F.min("time_ns").alias("first_ns")
    )


def values(known: DataFrame, busiest: Sequence[str]) -> pa.Table:
    """The busiest values of every field, exactly."""
    flat = (
        known.where((F.col("n") > 0) & F.col("event_type").isin(list(busiest)))
        .select("event_type", "n", F.explode("fields").alias("item"))
        .groupBy("event_type", F.col("item.key").alias("field"), F.col("item.value").alias("value"))
        .agg(F.sum("n").alias("notifications"))
    )
    within = Window.partitionBy("event_type", "field")
    ranked = flat.select(
        "*",
        F.row_number().over(within.orderBy(F.desc("notifications"), "value")).alias("rank"),
        F.count("*").over(within).alias("different"),
    )
    top = ranked.where(F.col("rank") <= TOP).orderBy("event_type", "field", "rank")
    return _collect(top, "values")


def judgement(scope: Scope, known: DataFrame) -> DataFrame:
    """Verdicts on every product and base day of the period."""
    end_s = scope.part.until_ns / SECOND
    span = Span(scope.part.since_ns // SECOND // DAY_S, int(end_s // DAY_S), end_s)
    return assess_arrivals(known, scope.clock_of, span)


def cycles(verdicts: DataFrame) -> pa.Table:
    """How many products of a cycle were late or missing."""
    found = verdicts.groupBy("event_type", F.date_from_unix_date("day").alias("day"), _clock()).agg(
        *(
            F.count_if(F.col("kind") == kind).alias(name)
            for kind, name in (
                (ON_TIME, "on_time"),
                (LATE, "late"),
                (MISSING, "missing"),
                (DUE, "due"),
                (NEW, "new"),
            )
        ),
        F.max(F.when(F.col("kind") == LATE, F.col("delay_s") - F.col("usual_s"))).alias("worst_s"),
    )
    return _collect(found.orderBy("event_type", "day", "time"), "cycles")


def findings(verdicts: DataFrame) -> pa.Table:
    """What is late or missing, the newest first."""
    found = verdicts.where(F.col("kind").isin(LATE, MISSING)).select(
        "event_type",
        F.date_from_unix_date("day").alias("day"),
        _clock(),
        "product",
        "kind",
        "delay_s",
        "usual_s",
        "limit_s",
    )
    order = (F.desc("day"), F.desc("time"), "event_type", "kind", "product")
    return _collect(found.orderBy(*order).limit(LISTED), "findings")


def areas(scope: Scope, busiest: Sequence[str]) -> pa.Table:
    """Cells of the globe that were announced."""
    rows = scope.rows(box=_GLOBE).where(F.col("geometry").isNotNull())
    places = rows.groupBy(_named(busiest).alias("event_type"), "geometry").agg(
        F.count("*").alias("n")
    )
    return _collect(count_cells(places).orderBy("event_type", "lat", "lon"), "areas")


def _named(busiest: Sequence[str]) -> Column:
    name = F.col("event_type")
    return F.when(name.isin(list(busiest)), name).otherwise(F.lit(OTHERS))


def _clock() -> Column:
    hours, minutes = F.expr("base_s div 3600"), F.expr("base_s % 3600 div 60")
    return F.format_string("%02d:%02d", hours, minutes).alias("time")


def _collect(found: DataFrame, name: str) -> pa.Table:
    """A bounded answer, with the columns of its table."""
    schema = SCHEMAS[name]
    return found.select(*schema.names).toArrow().cast(schema)
