"""How long notifications take from storage to the lake, from the log of the table itself.

Each commit of the archive carries marks (lake/commit.py), says when its files were added, and, in
their statistics, when their first and last rows were stored. So no notification is read, and what
maintenance put together later does not matter: its commits have no marks. Rows of a file are taken
as spread evenly between the first and the last. The archive commits every few seconds, so that is
nearly exact.

Delays are counted in classes of one percent: bounded, however many commits there are.
"""

import math
from collections.abc import Sequence
from datetime import timedelta

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from aviso_server.lake.layout import Place, mark
from aviso_server.pipeline.history.files import address
from aviso_server.pipeline.report.figures import DELAYS, SECOND, Period
from aviso_server.pipeline.spark.hadoop import hadoop_options

IMPORTED = timedelta(days=1)
"""What was committed so long after it was stored was imported, not archived."""

_PARTS = 10
"""Points that represent the rows of a file."""
_CLASS = math.log(1.01)

_LOG = (
    "txn struct<appId:string>, "
    "add struct<partitionValues:map<string,string>, modificationTime:bigint, stats:string>"
)
_QUANTILES = (0.5, 0.9, 0.95, 0.99)


def delays(
    spark: SparkSession,
    place: Place,
    period: Period,
    event_types: Sequence[str],
    named: Column,
) -> pa.Table:
    """Percentiles by event type and day, and of all; ``named`` is what an event type is called."""
    files = archived_files(spark, place, period).where(F.col("event_type").isin(list(event_types)))
    spread = F.transform(
        F.sequence(F.lit(0), F.lit(_PARTS - 1)),
        lambda part: (
            F.col("committed_ms") / 1000
            - (F.col("low") + (F.col("high") - F.col("low")) * ((part + 0.5) / _PARTS)) / SECOND
        ),
    )
    points = files.select("event_type", "day", "n", F.explode(spread).alias("delay_s")).where(
        F.col("delay_s") <= IMPORTED.total_seconds()
    )
    # Clocks of two machines: what seems to come before it was stored came at once.
    delay = F.greatest("delay_s", F.lit(0.0))
    classes = points.groupBy(
        named.alias("event_type"), "day", F.round(F.log1p(delay) / _CLASS).alias("class")
    ).agg(F.sum("n").alias("n"), F.max(delay).alias("longest_s"))
    cube = classes.cube("event_type", "day").agg(
        F.sum("n").alias("n"),
        F.percentile(
            F.expm1(F.col("class") * _CLASS), F.array(*map(F.lit, _QUANTILES)), F.col("n")
        ).alias("q"),
        F.max("longest_s").alias("longest_s"),
    )
    # The middle of a class may lie beyond the longest delay in it.
    shares = [
        F.least(F.col("q")[n], "longest_s").alias(f"p{100 * q:.0f}_s")
        for n, q in enumerate(_QUANTILES)
    ]
    count = F.expr(f"n div {_PARTS}").alias("notifications")
    flat = cube.select("event_type", "day", count, *shares, "longest_s")
    return flat.orderBy("event_type", "day").toArrow().cast(DELAYS)


def archived_files(spark: SparkSession, place: Place, period: Period) -> DataFrame:
    """Files that the archive added with something fresh; ``low`` and ``high`` are storage times.

    ``n`` counts the rows of the file. The log keeps commits for two days.
    """
    lines = (
        spark.read.schema(_LOG)
        .options(**hadoop_options(place.options), pathGlobFilter="*.json")
        # A commit is not older than what is in it.
        .option("modifiedAfter", f"{period.start:%Y-%m-%dT%H:%M:%S}")
        .json(address(place, "_delta_log"))
        .select("txn", "add", F.col("_metadata.file_name").alias("version"))
    )
    marked = lines.where(F.col("txn.appId").startswith(mark(""))).select("version").distinct()
    stats = F.col("add.stats")
    added = lines.where(F.col("add").isNotNull()).select(
        "version",
        F.col("add.partitionValues")["event_type"].alias("event_type"),
        F.col("add.partitionValues")["day"].cast("date").alias("day"),
        F.col("add.modificationTime").alias("committed_ms"),
        _number(stats, "numRecords").alias("n"),
        _number(stats, "minValues.time_ns").alias("low"),
        _number(stats, "maxValues.time_ns").alias("high"),
    )
    age = F.col("committed_ms") - F.col("high") / 1_000_000
    return added.join(marked, "version").where(
        F.col("high").between(period.start_ns, period.end_ns - 1)
        & (age <= IMPORTED / timedelta(milliseconds=1))
    )


def _number(text: Column, path: str) -> Column:
    return F.get_json_object(text, f"$.{path}").cast("bigint")
