"""The http transport against a real server, and beside the nats transport on the same streams."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from aiohttp import web
from support.access import PROTECTED, READ_ONLY, proxy_auth, served, token
from support.config import SCHEMAS, on_jetstream, settings
from support.nats import nats_server
from support.server import Client, connected
from support.source import RING, SAMPLES, batch, payloads, read_batch, stream, table

from aviso_server.core.json import Json
from aviso_server.core.moment import rfc3339
from aviso_server.pipeline.source.columns import MARKED
from aviso_server.pipeline.source.failure import DataLost, Unreached

SMALL: dict[str, Json] = {"watch_endpoint": {"max_historical_notifications": 7}}
"""Replays are cut after seven notifications."""

NEEDED: dict[str, dict[str, Json]] = {
    "diss2": {"destination": "FOO"},
    "ev": {},
    "observations": {"polygon": "(0,-9,9,-9,9,9,0,9,0,-9)"},
    "test_polygon": {"polygon": RING},
}
"""What the server wants to be asked for, by event type; each filter lets everything through."""


async def read(client: Client, event_type: str = "ev", /, **options: str) -> pa.Table:
    """All rows of a batch read over HTTP."""
    return await asyncio.to_thread(
        read_batch, url=client.running.url, eventType=event_type, **options
    )


async def numbers(client: Client, count: int, first: int = 1) -> None:
    """Publish notifications whose payloads are numbers."""
    for n in range(first, first + count):
        await client.notify("ev", {"region": "even" if n % 2 == 0 else "odd"}, payload=n)


async def test_both_transports_give_the_same_rows(tmp_path: Path) -> None:
    """Only what a CloudEvent does not hold is missing: topics, and a polygon's own spelling."""
    with nats_server(tmp_path) as store:
        schemas = {name: SCHEMAS[name] for name in SAMPLES if name in SCHEMAS}
        chosen = settings(on_jetstream(store.url), schemas=schemas)
        async with connected(chosen) as client:
            for name in schemas:
                identifier, payload = SAMPLES[name]
                for _ in range(3):
                    await client.notify(name, identifier, payload=payload)
            tables = [await read(client, name, filter=json.dumps(NEEDED[name])) for name in NEEDED]
            by_nats = await asyncio.to_thread(
                read_batch, servers=store.url, eventType=",".join(NEEDED)
            )
    same = [name for name in by_nats.schema.names if name not in ("topic", "subject", "polygon")]
    both = pa.concat_tables(tables)
    assert both.select(same).to_pylist() == by_nats.select(same).to_pylist()
    assert both.num_rows == 12
    assert both["topic"].null_count == both["subject"].null_count == 12


async def test_caps_are_read_past() -> None:
    """A replay that the server cut goes on behind its last notification, in every task."""
    async with connected(settings(SMALL)) as client:
        await numbers(client, 30)
        rows = await read(client, minPartitions="2")
        assert payloads(rows) == [str(n) for n in range(1, 31)]
        even = await read(client, filter='{"region": "even"}')
        assert payloads(even) == [str(n) for n in range(2, 31, 2)]
        some = await read(client, startingSequence="5", endingSequence="6")
        assert payloads(some) == ["5", "6"]


async def test_times_are_points_too() -> None:
    """Inclusive at nanoseconds; also where nothing is."""
    async with connected(settings()) as client:
        await numbers(client, 5)
        times = (await read(client))["time_ns"].to_pylist()
        points = {"startingTimestamp": rfc3339(times[1]), "endingTimestamp": rfc3339(times[3])}
        assert payloads(await read(client, **points)) == ["2", "3", "4"]
        late = {"startingTimestamp": "2999-01-01T00:00:00Z"}
        assert (await read(client, **late)).num_rows == 0
        early = {"endingTimestamp": "1999-01-01T00:00:00Z"}
        assert (await read(client, **early)).num_rows == 0


async def test_a_gap_is_a_loss(tmp_path: Path) -> None:
    """The server says where history begins; what was asked for before that is gone."""
    short: dict[str, Json] = {
        "notification_backend": {"kind": "in_memory", "in_memory": {"max_history_per_topic": 5}}
    }
    async with connected(settings(short)) as client:
        await numbers(client, 12)
        kept = payloads(await read(client))
        assert kept == [str(n) for n in range(13 - len(kept), 13)]
        assert len(kept) < 12
        gone = 12 - len(kept)
        with pytest.raises(DataLost, match=f"notifications 2 to {gone} of 'ev'"):
            await read(client, startingSequence="2")
        asked = {"eventType": "ev", "startingSequence": "2", "failOnDataLoss": "false"}
        lenient = await asyncio.to_thread(read_batch, MARKED, url=client.running.url, **asked)
        assert payloads(lenient) == [*kept, None, None]
        assert lenient["mark"].to_pylist()[-2:] == [
            {"first": 2, "last": gone, "lost": True},
            {"first": 2, "last": 12, "lost": False},
        ]


async def test_streaming_over_http() -> None:
    """Offsets are the same as over NATS."""
    async with connected(settings()) as client:
        await numbers(client, 3)
        reader = stream(url=client.running.url, eventType="ev")
        start = await asyncio.to_thread(reader.initialOffset)
        limit = reader.getDefaultReadLimit()
        end = await asyncio.to_thread(reader.latestOffset, start, limit)
        assert (start, end) == ({"ev": 1}, {"ev": 4})
        await numbers(client, 2, first=4)
        assert await asyncio.to_thread(reader.reportLatestOffset) == {"ev": 6}

        def rows() -> list[pa.RecordBatch]:
            return [b for part in reader.partitions(start, end) for b in reader.read(part)]

        assert payloads(table(iter(await asyncio.to_thread(rows)))) == ["1", "2", "3"]


async def test_required_fields_are_asked_for() -> None:
    """The server wants a polygon in every request: the error says where to put it."""
    async with connected(settings()) as client:
        with pytest.raises(Unreached, match="are given with the option filter"):
            await read(client, "test_polygon")


async def test_credentials() -> None:
    """A token opens what is protected; without it the refusal is reported, and no secret."""
    async with connected(settings({"auth": proxy_auth()}, schemas=PROTECTED)) as client:
        good = token(READ_ONLY)
        assert (await read(client, "members", token=good)).num_rows == 0
        with pytest.raises(Unreached, match=r"401.*wants other credentials"):
            await read(client, "members")
        with pytest.raises(Unreached, match="401") as refused:
            await read(client, "members", username="me", password="s3cret")
        assert "s3cret" not in repr(refused.value)


async def test_nobody_there() -> None:
    """The address is in the error."""
    with pytest.raises(Unreached, match=r"cannot reach http://127.0.0.1:9"):
        await asyncio.to_thread(read_batch, url="http://127.0.0.1:9", eventType="ev")


class Shaky:
    """Stands in for a server that fails: one answer per request, in order, then good ones.

    It knows one event type with the sequences 1 to 4.
    """

    def __init__(self) -> None:
        self.answers: list[str] = []
        self.asked: list[dict[str, Any]] = []

    async def schema(self, _: web.Request) -> web.Response:
        """No event type has a schema."""
        return web.json_response({"schema": {}})

    async def replay(self, request: web.Request) -> web.StreamResponse:
        """A replay as it should be, or as the test wants it to fail."""
        body = await request.json()
        self.asked.append(body)
        first, last = int(body["from_id"]), min(4, int(body["to_id"]))
        answer = self.answers.pop(0) if self.answers else "good"
        if answer.isdigit():
            return web.json_response({"message": "no"}, status=int(answer))
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(_control("replay_started", end_sequence=last))
        for n in range(first, last + 1):
            if answer != "good" and n == first + 1:
                break
            await response.write(_event(n))
        if answer == "good":
            await response.write(_control("replay_completed"))
        elif answer == "error":
            await response.write(b'event: error\ndata: {"message":"broken"}\n\n')
        elif answer == "torn" and request.transport is not None:
            request.transport.close()
        return response


def _control(kind: str, **members: Json) -> bytes:
    text = ",".join(f'"{name}":{value}' for name, value in members.items())
    return (
        f'event: replay-control\ndata: {{"type":"{kind}"{"," if text else ""}{text}}}\n\n'.encode()
    )


def _event(sequence: int) -> bytes:
    time = f"2026-01-01T00:00:0{sequence}Z"
    data = f'{{"identifier":{{}},"payload":{sequence}}}'
    return (
        f'event: replay\ndata: {{"data":{data},"sequence":{sequence},"time":"{time}"}}\n\n'.encode()
    )


@asynccontextmanager
async def shaky() -> AsyncIterator[tuple[str, Shaky]]:
    """A failing server and its address."""
    server = Shaky()
    app = web.Application()
    app.router.add_get("/api/v1/schema", server.schema)
    app.router.add_post("/api/v1/replay", server.replay)
    async with served(app) as url:
        yield url, server


@pytest.mark.parametrize("fault", ["error", "torn", "cut", "503"])
async def test_broken_replays_go_on_where_they_were(fault: str) -> None:
    """An error frame, a lost connection, an early end, a busy server: each once all the same."""
    async with shaky() as (url, server):
        options = {"url": url, "eventType": "x", "startingSequence": "1", "endingSequence": "4"}
        reader = batch(**options)
        parts = await asyncio.to_thread(reader.partitions)
        server.asked.clear()
        server.answers.append(fault)
        found = await asyncio.to_thread(lambda: list(reader.read(parts[0])))
    assert payloads(table(iter(found))) == ["1", "2", "3", "4"]
    again = "1" if fault == "503" else "2"
    assert [body["from_id"] for body in server.asked] == ["1", again]


async def test_questions_are_asked_again() -> None:
    """A server that is busy for a moment does not end a query."""
    async with shaky() as (url, server):
        server.answers += ["503", "torn"]
        assert await asyncio.to_thread(read_batch, url=url, eventType="x") is not None


@pytest.mark.parametrize(("status", "words"), [(429, "limits how often"), (403, "may not read")])
async def test_refusals_are_reported_at_once(status: int, words: str) -> None:
    """Asking again would not help."""
    async with shaky() as (url, server):
        reader = batch(url=url, eventType="x", startingSequence="1")
        parts = await asyncio.to_thread(reader.partitions)
        server.asked.clear()
        server.answers.append(str(status))
        with pytest.raises(Unreached, match=words):
            await asyncio.to_thread(lambda: list(reader.read(parts[0])))
    assert len(server.asked) == 1
