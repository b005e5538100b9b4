"""The source through Spark: thin, for the readers are tested as plain Python."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from support.config import SCHEMAS, on_jetstream, settings
from support.nats import NatsServer
from support.server import connected
from support.source import SAMPLES, batch, fill

from aviso_server.core.json import Json
from aviso_server.core.moment import rfc3339
from aviso_server.pipeline import register

_Result = TypeVar("_Result")


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """The session, with the source known to it."""
    register(spark)
    return spark


def load(session: SparkSession, **options: str) -> DataFrame:
    """A batch read."""
    return session.read.format("aviso").options(**options).load()


async def aside(work: Callable[[], _Result]) -> _Result:
    """Do something slow in a thread: the server runs in this one."""
    return await asyncio.to_thread(work)


async def test_rows_are_what_a_replay_shows(session: SparkSession, store: NatsServer) -> None:
    """Both transports give what any client sees, and the columns a CloudEvent has no place for."""
    chosen = settings(on_jetstream(store.url), schemas={"area": SCHEMAS["area"]})
    async with connected(chosen) as client:
        for n in range(5):
            ring = SAMPLES["test_polygon"][0]["polygon"]
            await client.notify(
                "area", {"date": f"2026010{n + 1}", "polygon": ring}, payload={"n": n}
            )
        async with client.replay("area", {}, from_id="1") as stream:
            shown = [e.data for e in await stream.rest() if e.kind == "replay"]
        frames = {
            "nats": load(session, servers=store.url, eventType="area", minPartitions="2"),
            "http": load(session, url=client.running.url, eventType="area"),
        }
        rows = {
            name: await aside(lambda df=frame: df.orderBy("sequence").collect())  # type: ignore[misc]
            for name, frame in frames.items()
        }
    for found in rows.values():
        assert [_as_event(row.asDict()) for row in found] == [_expected(event) for event in shown]
    first = rows["nats"][0]
    assert (first.topic, first.problem, first.raw) == ("area.20260101", None, None)
    assert (first.min_lat, first.max_lon, len(first.geometry)) == (52.5, 13.6, 13 + 4 * 16)
    assert first.time.microsecond == first.time_ns // 1000 % 1_000_000
    assert rows["http"][0].topic is None


def _as_event(row: dict[str, Any]) -> dict[str, Json]:
    return {
        "id": row["id"],
        "time": rfc3339(row["time_ns"]),
        "payload": json.loads(row["payload"]),
        "identifier": row["identifier"],
        "sequence": row["sequence"],
    }


def _expected(event: dict[str, Any]) -> dict[str, Json]:
    identifier = dict(event["data"]["identifier"])
    del identifier["polygon"]
    return {
        "id": event["id"],
        "time": event["time"],
        "payload": event["data"]["payload"],
        "identifier": identifier,
        "sequence": event["sequence"],
    }


def test_queries_read_what_they_need(session: SparkSession, store: NatsServer) -> None:
    """Conditions on sequences become ranges, ranges become tasks, and plans show no secret."""
    fill(store.url, 40)
    frame = load(session, servers=store.url, eventType="ev", minPartitions="4", token="s3cret")
    assert frame.rdd.getNumPartitions() == 4
    some = frame.where(
        "sequence > 10 and sequence <= 13 and event_type = 'ev' and time > '2020-01-01'"
    )
    assert sorted(row.payload for row in some.select("payload").collect()) == ["11", "12", "13"]
    plan = some._jdf.queryExecution().toString()
    assert "s3cret" not in plan
    physical = plan.rpartition("Physical Plan")[2]
    assert "Filter (isnotnull(time" in physical
    assert "> 10" not in physical
    assert frame.where("event_type = 'other'").count() == 0
    evens = load(session, servers=store.url, eventType="*", filter='{"region": "even"}')
    assert evens.count() == 20


def test_mistakes_reach_the_user(session: SparkSession, store: NatsServer) -> None:
    """A wrong option fails at load; a loss fails the query; both in our words."""
    with pytest.raises(PySparkException, match="unknown option colour; known are transport"):
        load(session, servers=store.url, eventType="ev", colour="red")
    fill(store.url, 12, max_messages=5)
    at = {"servers": store.url, "eventType": "ev", "startingSequence": "3"}
    with pytest.raises(PySparkException, match="notifications 3 to 7 of 'ev' are no longer kept"):
        load(session, **at).count()
    assert load(session, **at, failOnDataLoss="false").count() == 5


def test_a_stream_goes_on_from_its_checkpoint(
    session: SparkSession, store: NatsServer, tmp_path: Path
) -> None:
    """Two runs with new notifications and a new event type in between: each notification once."""

    def run() -> list[dict[str, Any]]:
        reader = session.readStream.format("aviso").options(
            servers=store.url, eventType="*", maxRecordsPerTrigger="20", minPartitions="2"
        )
        query = (
            reader.load()
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(90)
        return [json.loads(progress.json) for progress in query.recentProgress]

    def ids() -> list[str]:
        rows = session.read.parquet(str(tmp_path / "out")).select("id").collect()
        return sorted(row.id for row in rows)

    fill(store.url, 30)
    first = run()
    assert ids() == sorted(f"ev@{n}" for n in range(1, 31))
    busy = [progress["numInputRows"] for progress in first if progress["numInputRows"]]
    assert busy == [20, 10]
    fill(store.url, 10, first=31)
    fill(store.url, 5, event_type="fresh")
    second = run()
    expected = [*(f"ev@{n}" for n in range(1, 41)), *(f"fresh@{n}" for n in range(1, 6))]
    assert ids() == sorted(expected)
    source = second[-1]["sources"][0]
    assert json.loads(json.dumps(source["endOffset"])) == {"ev": 41, "fresh": 6}
    assert source["latestOffset"] == source["endOffset"]


def test_a_missing_installation_is_reported(tmp_path: Path) -> None:
    """An executor without the package says what to install, not just that a module is missing."""
    parcel = tmp_path / "reader"
    parcel.write_bytes(_by_value(batch(servers="nats://h", eventType="ev")))
    code = (
        "import pickle, sys; sys.modules['aviso_server'] = None; "
        "pickle.load(open(sys.argv[1], 'rb'))"
    )
    failed = subprocess.run(
        [sys.executable, "-c", code, str(parcel)], capture_output=True, text=True, check=False
    )
    assert "Install the same version of aviso-server in the Python of every executor" in (
        failed.stderr
    )


def _by_value(reader: object) -> bytes:
    """As Spark pickles what it sends to executors."""
    made: bytes = cloudpickle.dumps(reader)  # type: ignore[no-untyped-call]
    return made
