"""Rolling rates, in Spark: how many notifications of each event type were stored in each window.

A window is reported once, when the watermark has passed its end. Empty windows are not reported.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from aviso_server.pipeline.live import alert
from aviso_server.pipeline.live.source import NEWS

_MOMENT = "yyyy-MM-dd'T'HH:mm:ss'Z'"


def rates(
    rows: DataFrame, *, window_s: int, slide_s: int, watermark_s: int, limit: float | None = None
) -> DataFrame:
    """The rate of every window that has ended, from rows of the live source.

    ``limit`` is notifications per second: a window above it is more than information.
    """
    counted = (
        rows.withWatermark("time", f"{watermark_s} seconds")
        .groupBy(F.window("time", f"{window_s} seconds", f"{slide_s} seconds"), "event_type")
        # Counted, not filtered: Spark moves a filter on other columns below the watermark, which
        # would then not see the ticks and stand still.
        .agg(F.count(F.when(F.col("row") == NEWS, 1)).alias("count"))
        .where(F.col("count") > 0)
    )
    begin, end = (F.date_format(F.col(f"window.{side}"), _MOMENT) for side in ("start", "end"))
    per_second = F.round(F.col("count") / F.lit(window_s), 3)
    severity = F.lit(alert.NORMAL)
    if limit is not None:
        above = F.col("count") > F.lit(limit * window_s)
        severity = F.when(above, alert.HIGH).otherwise(alert.NORMAL)
    return counted.select(
        F.lit(alert.RATE).alias("kind"),
        F.col("event_type").alias("about"),
        severity.alias("severity"),
        begin.alias("window"),
        F.lit(alert.duration(window_s)).alias("key"),
        F.to_json(
            F.struct(begin.alias("from"), end.alias("to"), "count", per_second.alias("per_second"))
        ).alias("payload"),
    )
