"""Tables of a lake in Spark: the rows of a replay, and the answers of DuckDB to the same text."""

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from pyspark.sql import SparkSession
from support.fuzz import examples
from support.lake import filled, record
from support.typed import Drawn, event_types, evolved, expected, updated

from aviso_server.core.fields.number import IntField
from aviso_server.core.fields.text import StringField
from aviso_server.core.schema import Schema
from aviso_server.lake.layout import Place
from aviso_server.lake.query.engine import EngineOptions, ask
from aviso_server.lake.query.views import QueryFailed, open_views, quoted
from aviso_server.lake.tombstones import append_tombstones
from aviso_server.lake.typed.columns import columns_of
from aviso_server.pipeline import tables
from aviso_server.pipeline.views import ask_spark, explain_spark

pytestmark = pytest.mark.slow
STEP = IntField(name="step", required=False, description="Hours")
MARS = Schema("mars", (STEP,), base="mars")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A lake in a folder with a space."""
    return Place(str(tmp_path / "the lake"))


@settings(max_examples=examples(4))
@given(event_types())
def test_spark_duckdb_and_a_replay_agree(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, drawn: Drawn
) -> None:
    """Every value of every column, and the same text gives the same answer on both engines."""
    place = Place(str(tmp_path_factory.mktemp("lake")))
    name, columns = drawn.schema.event_type, columns_of(drawn.schema)
    filled(place, drawn.records, marks={name: 1000})
    updated(place, drawn.schema)
    rows = tables(spark, place)[name].orderBy("sequence").toArrow().to_pylist()
    assert rows == expected(drawn.records, columns)
    if not drawn.records:
        return  # then there is no file, and nothing to compare
    ranged = [quoted(c.name) for c in columns if c.type != "binary"]
    asked = ", ".join(f"count({n}), min({n}), max({n})" for n in ranged)
    names = ", ".join(f"c{number}" for number in range(3 * len(ranged)))
    sql = f"SELECT * FROM (SELECT {asked} FROM {name}) AS t({names})"  # noqa: S608
    views = open_views(place)
    with ask(views, sql, EngineOptions(threads=1)) as reader:
        wanted = reader.read_all().to_pylist()
    assert ask_spark(spark, views, sql).read_all().to_pylist() == wanted
    assert all(not isinstance(v, float) or math.isfinite(v) for v in wanted[0].values())


def test_views_follow_the_schema_and_hide_what_is_deleted(
    spark: SparkSession, place: Place
) -> None:
    """Columns that came later are null in older rows; tombstones hold in every table."""
    filled(place, [record(n, identifier={"step": str(n)}) for n in (1, 2, 3)])
    updated(place, MARS)
    filled(place, [record(n, identifier={"note": "n"}) for n in (4, 5)])
    updated(place, evolved(MARS, STEP, StringField(name="note", required=False)))
    append_tombstones(place, [("mars", 2, 2), ("mars", 5, 5)], kind="deleted")
    frames = tables(spark, place)
    assert set(frames) == {"mars", "notifications", "tombstones"}
    rows = frames["mars"].orderBy("sequence").select("sequence", "step", "note", "day").collect()
    assert [tuple(row)[:3] for row in rows] == [(1, 1, None), (3, 3, None), (4, None, "n")]
    assert rows[0].day.isoformat() == "2026-01-01"
    assert spark.sql("SELECT count(*) FROM notifications").collect()[0][0] == 3
    assert frames["tombstones"].count() == 2
    (step,) = [field for field in frames["mars"].schema if field.name == "step"]
    assert step.metadata["comment"] == "Hours"


def test_questions_to_spark(spark: SparkSession, place: Place) -> None:
    """Names in double quotes, bounded answers, plans that prune by day, and errors that help."""
    filled(place, [record(n, "my-events", identifier={"step": str(n)}) for n in (1, 2, 3)])
    updated(place, Schema("my-events", (STEP,), base="base"))
    views = open_views(place)
    sql = "SELECT step FROM \"my-events\" WHERE day = DATE '2026-01-01' ORDER BY step"
    assert ask_spark(spark, views, sql, most=2).read_all().to_pylist() == [{"step": 1}, {"step": 2}]
    assert "PartitionFilters: [isnotnull(day" in explain_spark(spark, views, sql)
    with pytest.raises(QueryFailed, match=r'(?s)nowhere.*tables: "my-events", notifications'):
        ask_spark(spark, views, "SELECT * FROM nowhere")
    with pytest.raises(QueryFailed, match="never written"):
        ask_spark(spark, views, "DROP VIEW notifications")
