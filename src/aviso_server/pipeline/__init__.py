"""The data pipeline: PySpark carries notifications from the log into the lake and back out."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from aviso_server.pipeline.past import archived, history

__all__ = ["archived", "history", "register"]

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
"""Spark refuses sources that take filters over unless this is set."""


def register(spark: "SparkSession") -> None:
    """Make ``format("aviso")`` known to a session, classic or Spark Connect."""
    # Imported here: whoever uses other parts of the package needs no pyspark.
    from aviso_server.pipeline.source.source import AvisoDataSource  # noqa: PLC0415

    spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(AvisoDataSource)


def __getattr__(name: str) -> object:
    """``history`` and ``archived``, of pipeline.past, which need pyspark when they are used."""
    if name not in {"archived", "history"}:
        raise AttributeError(name)
    from aviso_server.pipeline import past  # noqa: PLC0415

    return getattr(past, name)
