"""One filter, every executor: scalar, batch, hub index, Arrow and Spark agree (invariant 3)."""

import re
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from support.config import settings as configured
from support.draws import SCHEMA, filters, notifications
from support.places import RINGS

from aviso_server.core.constraint import Choice, Kind, NumberRange
from aviso_server.core.filter import Filter
from aviso_server.core.geometry import Area, Cloud
from aviso_server.core.identifier import compile_filter
from aviso_server.core.notification import Notification, Record
from aviso_server.core.operation import Operation
from aviso_server.core.spatial import Contains, Intersects
from aviso_server.lake.predicate import mask
from aviso_server.lake.record import records_to_batch
from aviso_server.pipeline.history.predicate import matches
from aviso_server.relay.index import Index

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

_bare = st.builds(
    lambda item: Notification(item.event_type, item.tokens, {}, None, item.payload),
    notifications(),
)
_clouds = st.builds(
    lambda item, points: Notification(
        item.event_type, item.tokens, item.identifier, Cloud(tuple(points)), item.payload
    ),
    notifications(),
    st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=1, max_size=4).map(
        lambda points: [(float(lat), float(lon)) for lat, lon in points]
    ),
)
_items = st.one_of(notifications(), notifications(), _clouds, _bare)
_awkward = st.one_of(filters(), RINGS.map(lambda ring: Filter(spatial=Intersects(Area.of(ring)))))


def frame(spark: SparkSession, items: list[Notification]) -> DataFrame:
    """Rows of the notifications, as the source gives them."""
    batch = records_to_batch([Record(n, n, item) for n, item in enumerate(items, 1)])
    return spark.createDataFrame(pa.Table.from_batches([batch]))


def by_spark(spark: SparkSession, asked: list[Filter], items: list[Notification]) -> list[set[int]]:
    """The sequences of each filter, all decided in one job."""
    columns = [matches(wanted).alias(f"m{n}") for n, wanted in enumerate(asked)]
    rows = frame(spark, items).select("sequence", *columns).collect()
    assert all(row[f"m{n}"] is not None for row in rows for n in range(len(asked)))
    return [{row.sequence for row in rows if row[f"m{n}"]} for n in range(len(asked))]


@settings(
    max_examples=6,
    phases=[Phase.explicit, Phase.generate],  # a Spark job each: shrinking would take for ever
    suppress_health_check=list(HealthCheck),
)
@given(
    st.lists(_awkward, min_size=20, max_size=30, unique=True),
    st.lists(_items, min_size=30, max_size=40),
)
def test_all_executors_agree(
    spark: SparkSession, asked: list[Filter], items: list[Notification]
) -> None:
    """Hundreds of filters on hundreds of notifications, places included."""
    numbered = list(enumerate(items, 1))
    entries = [Record(n, n, item) for n, item in numbered]
    batch = records_to_batch(entries)
    index: Index[int] = Index()
    for number, wanted in enumerate(asked):
        index.add(wanted, number)
    indexed: list[set[int]] = [set() for _ in asked]
    for n, item in numbered:
        for group in index.matching(item):
            for member in group.members:
                indexed[member].add(n)
    scalar = [{n for n, item in numbered if wanted.matches(item)} for wanted in asked]
    assert [{e.sequence for e in wanted.select(entries)} for wanted in asked] == scalar
    assert indexed == scalar
    arrow = [mask(wanted, batch).to_pylist() for wanted in asked]
    assert [{n for n, hit in enumerate(hits, 1) if hit} for hits in arrow] == scalar
    assert by_spark(spark, asked, items) == scalar


NUMERALS = [
    *(
        "3",
        "5",
        "+5",
        "-5",
        "05",
        "0",
        "-0",
        "+0",
        "0" * 40 + "7",
        "9" * 18,
        "9" * 19,
        "-9" + "9" * 30,
    ),
    *(
        "5.",
        ".5",
        "5.0",
        "-0.0",
        "1e2",
        "1E+2",
        "1e999",
        "-1e999",
        "1e-999",
        "5e0",
        "0.1",
        "1" * 400,
    ),
    *(
        "",
        " ",
        ".",
        "+",
        "-",
        "e5",
        "5e",
        "5\n",
        "\n5",
        " 5",
        "5 ",
        "5_0",
        "٥",
        "5d",
        "5f",
        "0x5",
        "1,5",
    ),
    *("inf", "-Infinity", "NaN", "nan", "null", "true", "5\u00a0", "5\x00"),
]
WORDS = ["k", "K", "\u212a", "kelvin", "KELVIN", "\u0130", "i\u0307", "ς", "Σ", "ß", "ẞ", "SS"]


def test_odd_texts_are_read_alike(spark: SparkSession) -> None:
    """Texts that another schema or server may have stored: numbers, nearly numbers, and words."""
    items = [
        Notification("ev", ("ev",), {"n": text}, None, b"null") for text in (*NUMERALS, *WORDS)
    ]
    asked: list[Filter] = []
    for kind, read in ((Kind.INT, int), (Kind.FLOAT, float)):
        numbers = [read(text) for text in ("5", "-5", "0", "7")]
        asked += [Filter(constraints=(Choice("n", kind, frozenset(numbers)),))]
        asked += [
            Filter(constraints=(Choice("n", kind, frozenset([number])),)) for number in numbers
        ]
        for low, high in ((None, 5), (-5, None), (0, 5), (None, 0), (0, None), (100, None)):
            for ends in (False, True):
                asked.append(Filter(constraints=(NumberRange("n", kind, low, high, ends, ends),)))
    # More choices than Spark compares one by one.
    many = frozenset(map(float, range(-20, 20)))
    asked.append(Filter(constraints=(Choice("n", Kind.FLOAT, many),)))
    asked += [
        Filter(constraints=(Choice("n", Kind.ENUM, frozenset(words)),))
        for words in (["k"], ["kelvin", "5"], ["i\u0307"], ["σ"], ["ß", "ss"])
    ]
    expected = [{n for n, item in enumerate(items, 1) if wanted.matches(item)} for wanted in asked]
    assert all(expected)
    assert by_spark(spark, asked, items) == expected


def test_spark_prunes_before_python(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Boxes are compared by the Parquet reader, texts and numbers before any Python runs."""
    item = Notification("mixed", ("mixed",), {"region": "north"}, None, b"null")
    frame(spark, [item]).write.parquet(str(tmp_path / "rows"))
    numbers = (NumberRange("level", Kind.INT, 500), NumberRange("speed", Kind.FLOAT, None, 9.5))
    wanted = Filter((("region", "north"),), numbers, Contains(1.0, 2.0))
    found = spark.read.parquet(str(tmp_path / "rows")).filter(matches(wanted))
    found.explain("formatted")
    tree, *parts = capsys.readouterr().out.split("\n\n")
    (scan,) = [part for part in parts if "PushedFilters" in part]
    assert "LessThanOrEqual(min_lat,1.0)" in scan
    assert "GreaterThanOrEqual(max_lon,2.0)" in scan
    (native,) = [part for part in parts if "Filter" in part and "north" in part]
    assert "decide" not in native
    assert {"500", "9.5"} <= set(re.findall(r"[0-9.]+", native))
    # Printed from the result down to the scan.
    assert tree.index("ArrowEvalPython") < tree.rindex("Filter") < tree.index("Scan parquet")
    assert found.count() == 0


def test_a_filter_of_nothing_is_every_row(spark: SparkSession) -> None:
    """And conditions can be negated: no row is neither in nor out."""
    item = Notification("ev", ("ev",), {}, None, b"null")
    rows = frame(spark, [item, item])
    assert rows.filter(matches(Filter())).count() == 2
    level = compile_filter(SCHEMA, {"level": {"gte": 1}, "point": [0.0, 0.0]}, Operation.WATCH)
    assert rows.filter(~matches(level)).count() == 2
    exact = compile_filter(configured().catalogue.schemas["ev"], {"region": "n"}, Operation.REPLAY)
    assert rows.filter(~matches(exact)).count() == 2
