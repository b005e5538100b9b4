"""Lake and log as one DataFrame."""

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from backends.contract import OPEN
from pyspark.sql import DataFrame, SparkSession
from support.carried import archive
from support.lake import BEGIN_NS, filled, record
from support.nats import NatsServer
from support.source import SAMPLES, append, fill, on_backend, read_batch

from aviso_server.core.filter import Filter
from aviso_server.core.geometry import Area
from aviso_server.core.schema import Schema
from aviso_server.core.spatial import Intersects
from aviso_server.lake.layout import NOTIFICATION_TABLE, RECORD, Place
from aviso_server.lake.record import batch_to_records
from aviso_server.lake.tombstones import append_tombstones
from aviso_server.lake.typed.columns import column_names
from aviso_server.pipeline import archived, history
from aviso_server.pipeline.history.fields import with_fields
from aviso_server.pipeline.history.frame import FEW, TABLE, answer
from aviso_server.pipeline.history.plan import make_plan, question

pytestmark = pytest.mark.slow


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A lake of the test's own, in a folder with a space."""
    return Place(str(tmp_path / "the lake"))


def sequences(rows: DataFrame) -> list[int]:
    """The sequences, sorted; each row counts."""
    return sorted(row.sequence for row in rows.select("sequence").collect())


def test_rows_are_bit_by_bit_the_same_from_either_tier(
    spark: SparkSession, store: NatsServer, place: Place
) -> None:
    """Whatever kind of notification: half of each from the lake, half from the log."""
    for name, sample in SAMPLES.items():
        on_backend(store.url, lambda backend, n=name, s=sample: append(backend, n, [s, s]))  # type: ignore[misc]
        archive(place, store.url, name, last=1)
        rows = history(spark, name, lake=place, log=store.url)
        assert rows.columns == NOTIFICATION_TABLE.names
        got = rows.drop("day").orderBy("sequence").toArrow().cast(RECORD).combine_chunks()
        there = read_batch(servers=store.url, eventType=name).combine_chunks()
        assert repr(batch_to_records(got.to_batches()[0])) == repr(
            batch_to_records(there.to_batches()[0])
        )


def test_each_once_while_the_archive_goes_on(
    spark: SparkSession, store: NatsServer, place: Place
) -> None:
    """A frame shows one look at lake and log, however both grow before it is read."""
    fill(store.url, 10)
    archive(place, store.url, "ev", last=4)
    rows = history(spark, "ev", lake=place, log=store.url)
    archive(place, store.url, "ev", first=5, last=8)
    fill(store.url, 3, first=11)
    assert sequences(rows) == list(range(1, 11))
    assert sequences(history(spark, "ev", lake=place, log=store.url)) == list(range(1, 14))
    odd = history(spark, "ev", lake=place, log=store.url, filter={"region": "odd"}, start=3, end=11)
    assert sequences(odd) == [3, 5, 7, 9, 11]
    assert sequences(history(spark, "ev", log=store.url, start=12)) == [12, 13]


def test_what_the_log_lost_is_an_error(
    spark: SparkSession, store: NatsServer, place: Place
) -> None:
    """Unless the caller can do without; what the lake has is not lost."""
    fill(store.url, 5)
    archive(place, store.url, "ev", last=5)
    fill(store.url, 5, first=6, max_messages=3)
    with pytest.raises(Exception, match="6 to 7 of 'ev' are no longer kept"):
        history(spark, "ev", lake=place, log=store.url).count()
    rest = history(spark, "ev", lake=place, log=store.url, fail_on_data_loss=False)
    assert sequences(rest) == [1, 2, 3, 4, 5, 8, 9, 10]


@pytest.mark.parametrize("many", [3, FEW + 5])
def test_hidden_rows_are_left_out(spark: SparkSession, place: Place, many: int) -> None:
    """Few ranges and many, which are compared in different ways; on request they are shown."""
    filled(place, [record(n) for n in range(1, 101)])
    filled(place, [record(1, "other")])
    append_tombstones(place, [("mars", 3 * n, 3 * n) for n in range(1, many + 1)], kind="deleted")
    append_tombstones(place, [("mars", 90, 100)], kind="wiped")
    gone = {3 * n for n in range(1, many + 1)}
    assert sequences(archived(spark, place, ["mars"])) == [n for n in range(1, 90) if n not in gone]
    assert sequences(archived(spark, place, ["mars"], hidden=True)) == list(range(1, 101))
    both = archived(spark, place).groupBy("event_type").count().collect()
    assert dict(map(tuple, both)) == {"mars": 89 - many, "other": 1}
    assert sequences(archived(spark, place, ["mars"], first=2, last=5, hidden=True)) == [2, 3, 4, 5]


def test_parts_of_the_lake(spark: SparkSession, place: Place) -> None:
    """By sequence, by time and by place, exact within the files that are opened."""
    ring = ((0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (0.0, 0.0))
    area, corner = Area.of(ring), Area.of(tuple((lat + 0.9, lon + 0.9) for lat, lon in ring))
    filled(
        place,
        [record(n, ns=BEGIN_NS + n * 1001, geometry=area if n % 2 else None) for n in range(1, 9)],
    )
    near, far = Filter(spatial=Intersects(area)), Filter(spatial=Intersects(corner))
    assert sequences(archived(spark, place, wanted=near, first=2, last=6)) == [3, 5]
    # The boxes touch, the triangles do not.
    assert sequences(archived(spark, place, wanted=far)) == []
    at = BEGIN_NS + 3003
    assert sequences(archived(spark, place, start_ns=at, end_ns=at)) == [3]
    assert sequences(archived(spark, place, start_ns=at + 1, end_ns=at + 1001)) == [4]
    empty = archived(spark, place, ["nobody"])
    assert (empty.schema, empty.count()) == (TABLE, 0)


def test_the_day_is_that_of_utc(spark: SparkSession, place: Place) -> None:
    """Whatever the session's time zone, and to the nanosecond."""
    midnight = BEGIN_NS + 86_400_000_000_000
    filled(place, [record(1, ns=midnight - 1), record(2, ns=midnight)])
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Pacific/Auckland")
    try:
        days = archived(spark, place).orderBy("sequence").select("day").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    assert [row.day for row in days] == [date(2026, 1, 1), date(2026, 1, 2)]


def test_spark_opens_only_what_was_chosen(spark: SparkSession, place: Place) -> None:
    """The plan decides the files, and comparisons go down to the row groups."""
    for begin in (1, 11, 21):
        filled(place, [record(n) for n in range(begin, begin + 10)])
    plan = make_plan(question("mars", lake=place, start=15, end=18))
    rows = answer(spark, plan)
    assert plan.files is not None
    assert len(rows.inputFiles()) == len(plan.files.sizes) == 1
    assert sequences(rows) == [15, 16, 17, 18]


def test_fields_as_columns(spark: SparkSession) -> None:
    """Typed by the schema; what does not read is null; names that are taken get a suffix."""
    extreme, polygon = OPEN.schemas["extreme"], OPEN.schemas["test_polygon"]
    rows = spark.createDataFrame(
        [
            ({"region": "north", "run_time": "1200", "severity": "7", "anomaly": "1.5e2"},),
            ({"severity": "seven", "anomaly": "2d", "date": "2026-02-30"},),
            ({"severity": " 7", "anomaly": "-0.5", "date": "20260131"},),
            ({"severity": "99999999999999999999", "date": "2026-01-31"},),
            ({"severity": "7\n", "anomaly": "1.5\n", "date": "20260131\n"},),
        ],
        "identifier map<string,string>",
    )
    found = with_fields(rows, extreme).drop("identifier")
    assert found.dtypes == [
        ("region", "string"),
        ("run_time", "string"),
        ("severity", "bigint"),
        ("anomaly", "double"),
    ]
    assert [tuple(row) for row in found.collect()] == [
        ("north", "1200", 7, 150.0),
        (None, None, None, None),
        (None, None, None, -0.5),
        (None, None, None, None),
        (None, None, None, None),
    ]
    dates = with_fields(rows, polygon).select("date").collect()
    written = date(2026, 1, 31)
    assert [row.date for row in dates] == [None, None, written, written, None]
    assert column_names(polygon, RECORD.names) == {"date": "date", "time": "time_field"}
    assert column_names(Schema(event_type="x", generic=True), ()) == {}


def test_typed_history(spark: SparkSession, place: Place) -> None:
    """Fields come after the columns of the table."""
    filled(place, [record(1, "test_polygon", identifier={"date": "20260102", "time": "0600"})])
    rows = history(spark, "test_polygon", lake=place.path, typed=True, schemas=OPEN.schemas)
    assert rows.columns == [*NOTIFICATION_TABLE.names, "date", "time_field"]
    assert rows.select("date", "time_field").toArrow() == pa.table(
        {"date": [date(2026, 1, 2)], "time_field": ["0600"]}
    )
