"""Searches of a lake with Spark: against reading all of it, and against DuckDB on the same files.

Both engines answer the same questions with the number of rows and the sum of their sequences, and
must agree. DuckDB is given the files of the event type and the conditions as SQL. It has no spatial
extension here: it finds the areas whose box is near, and shapely decides, as in Spark.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter
from typing import TypeVar, cast

import duckdb
import numpy as np
import shapely
from bench.figures import Value
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from aviso_server.core.filter import Filter
from aviso_server.core.identifier import compile_filter
from aviso_server.core.json import Json
from aviso_server.core.operation import Operation
from aviso_server.core.schema import Catalogue
from aviso_server.lake.inventory import Inventory, inventory
from aviso_server.lake.layout import NOTIFICATIONS, Place
from aviso_server.lake.table import find
from aviso_server.pipeline.history.frame import archived
from aviso_server.pipeline.history.predicate import matches

Answer = tuple[int, int]
"""Rows, and the sum of their sequences."""

_Made = TypeVar("_Made")

LAT, LON = (0.0, 60.0), (-110.0, 20.0)
"""The Atlantic and what lies around it, where many storms are."""


@dataclass(frozen=True, slots=True)
class Question:
    """Something that is searched for."""

    label: str
    event_type: str
    sql: str
    """For DuckDB."""
    wanted: Filter | None = None
    since_ns: int | None = None
    until_ns: int | None = None

    @property
    def place(self) -> bool:
        """Whether shapely has the last word."""
        return self.wanted is not None and self.wanted.spatial is not None

    @property
    def prunes(self) -> bool:
        """Whether files can be left out for it."""
        return self.place or self.since_ns is not None

    def scan(self, spark: SparkSession, lake: Place) -> DataFrame:
        """The same rows, found by testing all of the event type."""
        rows = archived(spark, lake, [self.event_type])
        if self.wanted is not None:
            return rows.where(matches(self.wanted))
        # Not a comparison that Spark could leave row groups out for.
        return rows.where(f"time_ns + 0 * sequence between {self.since_ns} and {self.until_ns}")

    def rows(self, spark: SparkSession, lake: Place) -> DataFrame:
        """The answer of Spark."""
        names = [self.event_type]
        return archived(
            spark, lake, names, wanted=self.wanted, start_ns=self.since_ns, end_ns=self.until_ns
        )


def searches(
    spark: SparkSession, lake: Place, catalogue: Catalogue, size: int, runs: int
) -> Iterator[Value]:
    """Time of every search with all columns of what it finds, against the same without pruning.

    No file can be left out for a value or a range; reading all without any test is what they are
    to be compared with.
    """
    asked = questions(lake, catalogue)
    for name in dict.fromkeys(item.event_type for item in asked):
        taken = _repeated(lambda n=name: _drained(archived(spark, lake, [n])), runs)  # type: ignore[misc]
        yield Value(f"read all of {name} ({size:,})", "ms", _ms(taken))
    for item in asked:
        taken = _repeated(lambda a=item: _drained(a.rows(spark, lake)), runs)  # type: ignore[misc]
        yield Value(f"search by {item.label} ({size:,})", "ms", _ms(taken))
        if item.prunes:
            whole = _repeated(lambda a=item: _drained(a.scan(spark, lake)), runs)  # type: ignore[misc]
            yield Value(f"full scan for {item.label} ({size:,})", "ms", _ms(whole))


def compared(
    spark: SparkSession, lake: Place, catalogue: Catalogue, size: int, runs: int
) -> Iterator[Value]:
    """Time of both engines in turn; an error where they do not agree."""
    with duckdb.connect() as connection:
        for asked in questions(lake, catalogue):
            ours, theirs, answer = [], [], (0, 0)
            paths = _paths(lake, asked.event_type)
            for _ in range(runs + 1):  # the first only warms up
                taken, answer = _timed(lambda a=asked: _spark(a.rows(spark, lake)))  # type: ignore[misc]
                ours.append(taken)
                taken, other = _timed(lambda a=asked, p=paths: _duckdb(connection, a, p))  # type: ignore[misc]
                theirs.append(taken)
                assert answer == other, f"{asked.label}: {answer} and {other}"
            about = f"{asked.label}, {answer[0]:,} rows ({size:,})"
            yield Value(f"Spark: {about}", "ms", _ms(ours[1:]))
            yield Value(f"DuckDB: {about}", "ms", _ms(theirs[1:]))


def questions(lake: Place, catalogue: Catalogue) -> tuple[Question, ...]:
    """What is asked; the day is one in the middle."""
    days = sorted({file.day for file in _files(lake, "mars")})
    day = days[len(days) // 2]
    begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
    since, until = (
        int(moment.timestamp()) * 10**9 for moment in (begin, begin + timedelta(days=1))
    )
    ring: list[Json] = [[a, o] for a, o in _ring()]
    exact = {"class": "od", "stream": "enfo", "step": 12, "time": "1200"}
    return (
        Question(
            "exact values",
            "mars",
            "identifier['class'] = 'od' and identifier['stream'] = 'enfo'"
            " and identifier['step'] = '12' and identifier['time'] = '1200'",
            _filter(catalogue, "mars", exact),
        ),
        Question(
            "a range",
            "mars",
            "identifier['class'] = 'od' and cast(identifier['step'] as int) <= 6",
            _filter(catalogue, "mars", {"class": "od", "step": {"lte": 6}}),
        ),
        Question(
            "a polygon",
            "test_polygon",
            f"max_lat >= {LAT[0]} and min_lat <= {LAT[1]}"
            f" and max_lon >= {LON[0]} and min_lon <= {LON[1]}",
            _filter(catalogue, "test_polygon", {"polygon": ring}),
        ),
        Question(
            "a day",
            "mars",
            f"time_ns between {since} and {until - 1}",
            since_ns=since,
            until_ns=until - 1,
        ),
    )


def _filter(catalogue: Catalogue, event_type: str, asked: Mapping[str, object]) -> Filter:
    identifier = cast("dict[str, Json]", dict(asked))
    return compile_filter(catalogue.schemas[event_type], identifier, Operation.REPLAY)


def _ring() -> list[tuple[float, float]]:
    """Latitude first; not a rectangle, so that boxes do not decide."""
    middle = (LON[0] + LON[1]) / 2
    return [(LAT[0], LON[0]), (LAT[0], LON[1]), (LAT[1], middle), (LAT[0], LON[0])]


def _spark(rows: DataFrame) -> Answer:
    (found,) = rows.agg(F.count("*").alias("rows"), F.sum("sequence").alias("sum")).collect()
    return int(found["rows"]), int(found["sum"] or 0)


def _duckdb(connection: duckdb.DuckDBPyConnection, asked: Question, paths: list[str]) -> Answer:
    files = "read_parquet($paths, hive_partitioning = false)"
    if not asked.place:
        told = connection.execute(
            f"select count(*), sum(sequence) from {files} where {asked.sql}",  # noqa: S608
            {"paths": paths},
        ).fetchone()
        assert told is not None
        return int(told[0]), int(told[1] or 0)
    near = connection.execute(
        f"select sequence, geometry from {files} where {asked.sql}",  # noqa: S608
        {"paths": paths},
    ).fetchnumpy()
    area = shapely.Polygon([(lon, lat) for lat, lon in _ring()])
    shapely.prepare(area)
    hits = shapely.intersects(area, shapely.from_wkb([bytes(wkb) for wkb in near["geometry"]]))
    return int(np.count_nonzero(hits)), int(near["sequence"][hits].sum())


def _drained(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _repeated(work: Callable[[], None], runs: int) -> tuple[float, ...]:
    """Seconds of the runs after one that warms up."""
    return tuple(_timed(work)[0] for _ in range(runs + 1))[1:]


def _ms(seconds: Sequence[float]) -> tuple[float, ...]:
    return tuple(taken * 1000 for taken in seconds)


def _timed(work: Callable[[], _Made]) -> tuple[float, _Made]:
    began = perf_counter()
    made = work()
    return perf_counter() - began, made


def _paths(lake: Place, event_type: str) -> list[str]:
    folder = Path(lake.table(NOTIFICATIONS))
    return [str(folder / item.name) for item in _files(lake, event_type)]


def _files(lake: Place, event_type: str) -> Inventory:
    table = find(lake, NOTIFICATIONS)
    assert table is not None
    return inventory(table, (event_type,))
