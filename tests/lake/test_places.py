"""The lake elsewhere: in an object store, and in the hands of other tools."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable
from support.lake import at_once, everything, filled, record
from support.s3 import object_store, options

from aviso_server.core.constraint import Kind, NumberRange
from aviso_server.core.errors import HistoryFailed
from aviso_server.core.filter import Filter
from aviso_server.core.geometry import Area
from aviso_server.core.notification import Record
from aviso_server.lake.bounds import LakeBounds
from aviso_server.lake.lake import Lake
from aviso_server.lake.layout import DELETED, NOTIFICATIONS, Place
from aviso_server.lake.storage import opener


@pytest.fixture(scope="module")
def store() -> Iterator[Place]:
    """A lake in an object store."""
    with object_store() as place:
        yield place


async def test_a_lake_in_an_object_store(store: Place) -> None:
    """Files, commits, marks, deletions and reads work by URL, with the options of the store."""
    place = Place(f"{store.path}/one", store.options)
    lake = Lake(place, refresh_s=0)
    assert await lake.bounds("mars") == LakeBounds(1, 0)
    records = [record(n) for n in range(1, 21)]
    filled(place, records[:10])
    assert filled(place, records).rows == 10
    assert await lake.bounds("mars") == LakeBounds(1, 20)
    assert await everything(lake, "mars") == records
    await lake.hide("mars", 1, 18, kind=DELETED)
    assert await lake.bounds("mars") == LakeBounds(19, 20)
    assert await lake.last_until("mars", records[18].stored_at_ns) == 19
    await lake.close()


def test_writers_in_an_object_store_do_not_overwrite_each_other(store: Place) -> None:
    """Conditional puts make each commit the only one of its version."""
    place = Place(f"{store.path}/two", store.options)
    filled(place, [record(1)])

    def work() -> None:
        for last in range(2, 6):
            filled(place, [record(n) for n in range(2, last + 1)])

    at_once(*[work] * 3)
    table = DeltaTable(place.table(NOTIFICATIONS), storage_options=dict(place.options))
    assert sorted(table.to_pyarrow_table()["sequence"].to_pylist()) == [1, 2, 3, 4, 5]


async def test_vacuum_in_an_object_store_is_survived(store: Place) -> None:
    """A file that is gone is distinguished from a store that fails."""
    place = Place(f"{store.path}/three", store.options)
    for n in range(1, 4):
        filled(place, [record(n)])
    lake = Lake(place, refresh_s=3600, cache_bytes=0)
    assert (await lake.bounds("mars")).through == 3
    table = DeltaTable(place.table(NOTIFICATIONS), storage_options=dict(place.options))
    table.optimize.compact()
    table.vacuum(0, enforce_retention_duration=False, dry_run=False)
    assert [e.sequence for e in await everything(lake, "mars")] == [1, 2, 3]
    await lake.close()


class _Empty(BaseHTTPRequestHandler):
    """A store without objects, in this process."""

    def do_GET(self) -> None:
        """No such object."""
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Say nothing."""


def test_reading_a_file_lets_other_threads_run() -> None:
    """The store answers from a thread of this process: it could not if Python's lock were kept."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Empty) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        place = Place("s3://lake/none", {**options(url), "timeout": "20s", "max_retries": "0"})
        try:
            with (
                pytest.raises(FileNotFoundError),
                opener(place, NOTIFICATIONS)("some.parquet", 99) as file,
            ):
                file.read(9)
        finally:
            server.shutdown()
            thread.join()


async def test_a_store_that_cannot_be_reached_is_an_error(store: Place) -> None:
    """The message says which table, and no secret."""
    changed = {**store.options, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    changed |= {"max_retries": "0", "retry_timeout": "1s"}
    lake = Lake(Place("s3://lake/gone", changed))
    with pytest.raises(HistoryFailed) as failure:
        await lake.bounds("mars")
    assert "s3://lake/gone/notifications" in failure.value.details
    assert changed["AWS_SECRET_ACCESS_KEY"] not in failure.value.details
    await lake.close()


def _varied(n: int) -> Record:
    lat, lon = float(n % 50), float(n % 7)
    area = Area.of(((lat, lon), (lat, lon + 1), (lat + 1, lon + 1), (lat, lon)))
    return record(n, identifier={"level": str(n % 10), "region": "north"}, geometry=area)


async def test_other_tools_read_the_same_notifications(place: Place) -> None:
    """DuckDB and Polars agree with the server on what is there and what a filter means."""
    for begin in (1, 101, 201):
        filled(place, [_varied(n) for n in range(begin, begin + 100)])
    lake = Lake(place)
    asked = Filter((("region", "north"),), (NumberRange("level", Kind.INT, 3, 5),))
    ours = [entry.sequence for entry in await everything(lake, "mars")]
    filtered = [entry.sequence for entry in await everything(lake, "mars", wanted=asked)]
    await lake.close()
    assert (len(ours), len(filtered)) == (300, 90)

    notifications = DeltaTable(place.table(NOTIFICATIONS)).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("notifications", notifications)
        rows = connection.sql(
            "select sequence from notifications where event_type = 'mars' order by sequence"
        ).fetchall()
        assert [sequence for (sequence,) in rows] == ours
        rows = connection.sql(
            "select sequence from notifications where identifier['region'] = 'north'"
            " and cast(identifier['level'] as int) between 3 and 5 order by sequence"
        ).fetchall()
        assert [sequence for (sequence,) in rows] == filtered

    frame = pl.scan_delta(place.table(NOTIFICATIONS)).sort("sequence")
    assert frame.select("sequence").collect()["sequence"].to_list() == ours
    level = pl.col("identifier").map.get("level").cast(pl.Int64)
    north = pl.col("identifier").map.get("region") == "north"
    found = frame.filter(north & level.is_between(3, 5)).collect()
    assert found["sequence"].to_list() == filtered
