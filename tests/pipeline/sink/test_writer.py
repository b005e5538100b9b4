"""The sink against a real server: as plain Python, then through Spark."""

import asyncio
import json
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
)
from support.access import PROTECTED, WRITER, proxy_auth, token
from support.config import document, settings
from support.journal import recorded
from support.process import server_process
from support.server import connected

from aviso_server.pipeline import register
from aviso_server.pipeline.delivery.client import NotSent
from aviso_server.pipeline.sink.options import BadSinkOptions
from aviso_server.pipeline.sink.writer import RowsRejected, Sent, SinkWriter, sink_writer

TEXT = StringType()
COLUMNS: dict[str, DataType] = {
    "event_type": TEXT,
    "identifier": MapType(TEXT, TEXT),
    "payload": TEXT,
    "id": TEXT,
}
TEXTS = pa.map_(pa.string(), pa.string())
ROWS = pa.schema(
    [
        ("event_type", pa.string()),
        ("identifier", TEXTS),
        ("payload", pa.string()),
        ("id", pa.string()),
    ]
)


def structure(columns: Mapping[str, DataType] = COLUMNS) -> StructType:
    """A Spark schema."""
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def rows(count: int, **values: Any) -> pa.RecordBatch:
    """Notifications of the event type ``ev`` with the payloads 0, 1, ..."""
    made = [
        {
            "event_type": "ev",
            "identifier": [("region", "n")],
            "payload": str(n),
            "id": f"key-{n}",
            **values,
        }
        for n in range(count)
    ]
    return pa.RecordBatch.from_pylist(made, schema=ROWS)


def sink(url: str, **options: str) -> SinkWriter:
    """A batch sink, pickled as Spark pickles it."""
    made = sink_writer({"url": url, **options}, structure(), overwrite=False)
    copy: SinkWriter = pickle.loads(pickle.dumps(made))  # noqa: S301 - our own bytes
    return copy


def files(folder: Path) -> list[Path]:
    """What is in a folder."""
    return list(folder.iterdir())


async def write(made: SinkWriter, *batches: pa.RecordBatch) -> Sent:
    """Run one task in a thread: it blocks, and the server is in this process."""
    return await asyncio.to_thread(made.write, iter(batches))


async def test_rows_become_notifications_once(tmp_path: Path) -> None:
    """Every row is stored; a task run again with the same keys stores nothing."""
    async with connected(settings()) as client:
        made = sink(client.running.url, deadLetterPath=str(tmp_path), batchSize="7")
        sent = await write(made, rows(20), rows(25))
        assert (sent.published, sent.repeated, sent.rejected) == (25, 20, 0)
        await write(made, rows(25))
        assert sorted(await client.payloads()) == list(range(25))
        assert files(tmp_path) == []


async def test_order_within_a_task(tmp_path: Path) -> None:
    """With one request at a time a task's rows are stored in their order."""
    async with connected(settings()) as client:
        made = sink(client.running.url, onReject="fail", batchSize="7", maxInFlight="1")
        await write(made, rows(50))
        assert await client.payloads() == list(range(50))


async def test_keys_from_a_column() -> None:
    """Equal rows with keys of their own are two notifications."""
    async with connected(settings()) as client:
        twice = rows(2, payload="7")
        made = sink(client.running.url, onReject="fail", idempotencyKey="id")
        assert (await write(made, twice)).published == 2
        assert await client.payloads() == [7, 7]


async def test_rejected_rows_are_kept_with_the_reason(tmp_path: Path) -> None:
    """One file for the task, with the row, the server's code and words, and the field."""
    async with connected(settings()) as client:
        made = sink(client.running.url, deadLetterPath=str(tmp_path / "dead"))
        unknown = rows(1, event_type="nope", payload="9")
        empty = rows(1, identifier=[("region", "")])
        broken = rows(1, payload="{")
        sent = await write(made, rows(2), unknown, empty, broken)
        assert (sent.published, sent.rejected) == (2, 3)
        (file,) = files(tmp_path / "dead")
        assert sent.dead_letters == str(file)
        letters = {letter["code"]: letter for letter in pq.read_table(file).to_pylist()}
        assert letters["UNKNOWN_EVENT_TYPE"]["event_type"] == "nope"
        assert letters["INVALID_NOTIFICATION_REQUEST"]["field"] == "region"
        assert letters["INVALID_NOTIFICATION_REQUEST"]["identifier"] == [("region", "")]
        assert letters["INVALID_ROW"]["payload"] == "{"
        assert letters["INVALID_ROW"]["field"] == "payload"
        assert all(letter["message"] for letter in letters.values())
        with recorded() as journal:
            made.commit([sent, None])
        (told,) = journal.all("pipeline.sink.committed")
        assert (told["published"], told["repeated"], told["rejected"]) == (2, 0, 3)
        assert told["dead_letters"] == [str(file)]
        # What was mended can be written again as it is.
        mended = pq.read_table(file, filters=[("code", "==", "UNKNOWN_EVENT_TYPE")])
        again = sink(client.running.url, deadLetterPath=str(tmp_path / "dead"), eventType="ev")
        assert (await write(again, *mended.to_batches())).rejected == 0
        assert await client.payloads() == [0, 1, 9]


async def test_a_write_may_fail_for_a_rejected_row() -> None:
    """onReject=fail needs no dead letters, and says what was wrong."""
    async with connected(settings()) as client:
        made = sink(client.running.url, onReject="fail")
        sent = await write(made, rows(1), rows(3, event_type="nope"))
        why = r"3 rows were rejected \(1 were published\).*\(3x\)"
        with pytest.raises(RowsRejected, match=why):
            made.commit([sent])


async def test_credentials_are_sent() -> None:
    """A token lets rows in; without one the task fails and says why."""
    guarded = settings({"auth": proxy_auth()}, schemas=PROTECTED)
    async with connected(guarded) as client:
        row = rows(3, event_type="roles")
        good = sink(client.running.url, onReject="fail", token=token(WRITER))
        assert (await write(good, row)).published == 3
        for options in ({}, {"token": "nonsense"}):
            denied = sink(client.running.url, onReject="fail", **options)
            with pytest.raises(NotSent, match="access denied"):
                await write(denied, row)


async def test_letters_of_a_failed_task_are_kept(tmp_path: Path) -> None:
    """A task that fails half-way leaves whole files, and the abort says so."""
    async with connected(settings()) as client:
        url = client.running.url
    made = sink(url, deadLetterPath=str(tmp_path), retries="0")
    with pytest.raises(NotSent):
        await write(made, rows(1, payload="{"), rows(1))
    (file,) = files(tmp_path)
    assert pq.read_table(file).num_rows == 1
    with recorded() as journal:
        made.abort([None])
    (told,) = journal.all("pipeline.sink.aborted")
    assert "dead letters are kept" in told["event"]
    assert told["dead_letters"] == str(tmp_path)


_NUMBERS = StructType([StructField("a", IntegerType())])


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"identifier": MapType(TEXT, TEXT)}, "no column 'event_type'"),
        ({"event_type": TEXT}, "column 'identifier' is a map"),
        ({"event_type": TEXT, "identifier": MapType(TEXT, IntegerType())}, "'identifier' is a map"),
        ({**COLUMNS, "other": TEXT}, "mean nothing here: other"),
        (
            {"event_type": TEXT, "identifier": _NUMBERS, "payload": _NUMBERS, "geometry": TEXT},
            "column 'payload' is text, not struct<a:int>; column 'geometry' is WKB",
        ),
    ],
)
def test_columns_that_do_not_fit(columns: dict[str, DataType], why: str) -> None:
    """Refused on the driver, before any row is sent."""
    options = {"url": "http://h", "onReject": "fail"}
    with pytest.raises(BadSinkOptions, match=re.escape(why)):
        sink_writer(options, structure(columns), overwrite=False)


def test_overwriting_is_refused() -> None:
    """What consumers have seen cannot be taken back."""
    options = {"url": "http://h", "onReject": "fail"}
    with pytest.raises(BadSinkOptions, match=r'use mode\("append"\)'):
        sink_writer(options, structure(), overwrite=True)
    with pytest.raises(BadSinkOptions, match="text column 'nope'"):
        sink_writer({**options, "idempotencyKey": "nope"}, structure(), overwrite=False)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_through_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Several tasks, batch and stream; a stream started again from its checkpoint adds nothing."""
    register(spark)
    with server_process(document(), tmp_path) as server:
        frame = spark.range(100, numPartitions=3).selectExpr(
            "'ev' as event_type", "map('region', 'n') as identifier", "string(id) as payload"
        )
        options = {"url": server.url, "deadLetterPath": str(tmp_path / "dead")}
        frame.write.format("aviso").mode("append").options(**options).save()
        frame.limit(10).write.parquet(str(tmp_path / "in"))
        for _ in range(2):
            query = (
                spark.readStream.schema(frame.schema)
                .parquet(str(tmp_path / "in"))
                .selectExpr("'nope' as event_type", "identifier", "payload")
                .writeStream.format("aviso")
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .options(**options)
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
        letters = spark.read.parquet(str(tmp_path / "dead"))
        assert [row.asDict() for row in letters.groupBy("code").count().collect()] == [
            {"code": "UNKNOWN_EVENT_TYPE", "count": 10}
        ]
        server.printed('"accepted":', times=3)
        accepted = [line for line in server.output.splitlines() if "processed" in line]
        assert sum(int(line.split('"accepted":')[1].split(",")[0]) for line in accepted) == 100


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_copying_from_one_server_to_another(spark: SparkSession, tmp_path: Path) -> None:
    """What the source reads the sink writes: the same notifications, places included."""
    register(spark)
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    ring = [[0.5, 1.0], [2.0, 1.0], [2.0, 3.0], [0.5, 1.0]]
    sent: list[dict[str, Any]] = [
        {"event_type": "ev", "identifier": {"region": "a.é"}, "payload": {"b": [1.0, None]}},
        {"event_type": "area", "identifier": {"date": "20250101", "polygon": ring}},
        {"event_type": "ev", "identifier": {"region": "n"}},
        {"event_type": "ev", "identifier": {"region": "n"}},
    ]
    with (
        server_process(document(), tmp_path / "one") as one,
        server_process(document(), tmp_path / "two") as two,
    ):
        ask(f"{one.url}/api/v1/notifications", sent)
        (
            spark.read.format("aviso")
            .options(url=one.url, eventType="ev,area")
            .load()
            .write.format("aviso")
            .mode("append")
            # By id: equal notifications are several, and stay several.
            .options(url=two.url, onReject="fail", idempotencyKey="id", maxInFlight="1")
            .save()
        )
        for event_type in ("ev", "area"):
            replay: dict[str, Any] = {"event_type": event_type, "identifier": {}, "from_id": 1}
            kept = [
                [
                    json.loads(line[6:])["data"]
                    for line in text.splitlines()
                    if "specversion" in line
                ]
                for text in (ask(f"{url}/api/v1/replay", replay) for url in (one.url, two.url))
            ]
            assert kept[0] == kept[1]
            assert len(kept[0]) == sum(item["event_type"] == event_type for item in sent)


def ask(url: str, body: Any) -> str:
    """Post JSON; the text of the answer."""
    with urlopen(Request(url, data=json.dumps(body).encode()), timeout=30) as response:  # noqa: S310
        text: str = response.read().decode()
        return text
