"""The tables of a lake as Spark views: the names and rows that ``aviso-server query`` has."""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from aviso_server.lake.layout import NOTIFICATIONS, Place
from aviso_server.lake.query.views import LakeView, LakeViews, QueryFailed, open_views
from aviso_server.lake.tombstones import NOTHING
from aviso_server.lake.typed.table import table_name
from aviso_server.pipeline.history.files import LakeScope
from aviso_server.pipeline.history.frame import archived, visible
from aviso_server.pipeline.history.listing import read_files
from aviso_server.pipeline.history.plan import question
from aviso_server.pipeline.spark.failure import failure_of

QUOTES = "spark.sql.ansi.doubleQuotedIdentifiers"
"""Makes Spark read names in double quotes, as DuckDB does."""

_READS = re.compile(r"\s*\(*\s*(select|with|from|values|table|describe|show)\b", re.IGNORECASE)


def tables(spark: SparkSession, lake: Place | str | None = None) -> dict[str, DataFrame]:
    """Every table of the lake by name, registered as a temporary view too.

    Deleted notifications are left out. Without ``lake`` the server's environment variable is used.
    The frames show the lake as it is now; call it again for a newer one.
    """
    place = question("", lake=lake).place
    if place is None:
        raise QueryFailed("say where the lake is")
    views = open_views(place)
    return register_views(spark, views, views.views.values())


def register_views(
    spark: SparkSession, views: LakeViews, chosen: Iterable[LakeView]
) -> dict[str, DataFrame]:
    """Some of the tables as temporary views."""
    frames = {view.name: _frame(spark, views, view) for view in chosen}
    for name, frame in frames.items():
        escaped = name.replace("`", "``")
        frame.createOrReplaceTempView(f"`{escaped}`")
    return frames


def ask_spark(
    spark: SparkSession, views: LakeViews, sql: str, *, most: int | None = None
) -> pa.RecordBatchReader:
    """The answer of Spark to a query, collected here; at most so many rows of it."""
    with _asking(spark, views, sql):
        rows = spark.sql(sql)
        return (rows if most is None else rows.limit(most)).toArrow().to_reader()


def explain_spark(spark: SparkSession, views: LakeViews, sql: str) -> str:
    """How Spark would answer a query."""
    with _asking(spark, views, sql):
        return str(spark.sql(f"EXPLAIN {sql}").collect()[0][0])


@contextmanager
def _asking(spark: SparkSession, views: LakeViews, sql: str) -> Iterator[None]:
    """The tables that a query names are there; what Spark says of it becomes our error."""
    if not _READS.match(sql):
        raise QueryFailed("the lake is read, never written: SELECT ...")
    register_views(spark, views, views.used(sql))
    spark.conf.set(QUOTES, value=True)
    try:
        yield
    except PySparkException as error:
        raise QueryFailed(f"{failure_of(error).text}\n{views.hint(sql)}") from error
    finally:
        spark.conf.unset(QUOTES)


def _frame(spark: SparkSession, views: LakeViews, view: LakeView) -> DataFrame:
    place = views.place
    if view.name == NOTIFICATIONS:
        return archived(spark, place)
    typed = view.event_type is not None
    folder = table_name(view.event_type) if view.event_type is not None else view.name
    schema = StructType.fromJson(json.loads(view.table.schema().to_json()))
    files = pa.table(view.table.get_add_actions())
    if not files.num_rows:
        return spark.createDataFrame([], schema)
    paths, sizes = files["path"].combine_chunks(), np.asarray(files["size_bytes"])
    # Spark prunes by the day that folders of typed tables have in their names.
    rows = read_files(spark, place, folder, paths, sizes, schema=schema, partitioned=typed)
    if not typed:
        return rows
    hidden = views.hidden.hidden.get(view.event_type or "", NOTHING)
    shown = reduce(DataFrame.where, visible(hidden, LakeScope()), rows)
    return shown.select(*schema.names)
