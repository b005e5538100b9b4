"""Replays that reach below the log: the same frames, byte for byte, from the lake."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.backup import archive
from support.config import on_jetstream, settings
from support.nats import NatsServer
from support.server import Client, connected
from support.sse import Event, sequences

from aviso_server.backends.backend import Backend
from aviso_server.core.json import Json
from aviso_server.settings import Settings

STORED = 40
ARCHIVED = 35
KEPT = 10
CAP = 37
"""Cuts a whole replay behind the seam of lake and log."""

SCHEMA: dict[str, Json] = {
    "topic": {"base": "alert", "key_order": ["region", "severity"]},
    "identifier": {
        "region": {"type": "StringHandler", "required": False},
        "severity": {"type": "IntHandler", "required": False, "range": [0, 40]},
        "value": {"type": "FloatHandler", "required": False},
        "polygon": {"type": "PolygonHandler", "required": False},
    },
}

REQUESTS: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({}, {"from_id": "0"}),
    ({}, {"from_id": "1", "to_id": "37"}),
    ({}, {"from_id": "12", "to_id": "20"}),
    ({}, {"from_id": "38"}),
    ({"region": "no.rth"}, {"from_id": "1"}),
    ({"severity": {"between": [9, 33]}}, {"from_id": "1"}),
    ({"value": {"gte": 2.5}}, {"from_id": "3", "to_id": "39"}),
    ({"polygon": [[0, 0], [0, 5], [5, 5], [5, 0], [0, 0]]}, {"from_id": "1"}),
    ({"point": [20.5, 20.5], "region": "sé"}, {"from_id": "1"}),
]


def chosen(
    nats: NatsServer, account: Mapping[str, Json], lake: Path, **jetstream: Json
) -> Settings:
    """A server on an account of the NATS server, with a lake."""
    return settings(
        {
            **on_jetstream(nats.url, **account, **jetstream),
            "lake": {"path": str(lake)},
            "watch_endpoint": {"max_historical_notifications": CAP, "replay_batch_size": 7},
        },
        schemas={"alert": SCHEMA},
    )


def announced(number: int) -> tuple[dict[str, Any], Json]:
    """Identifier and payload of one notification; no two kinds of fields look alike."""
    corner = float(number)
    ring = [[corner, corner], [corner, corner + 1], [corner + 1, corner + 1], [corner, corner]]
    identifier: dict[str, Any] = {
        "region": ("no.rth", "sé", "~")[number % 3],
        "severity": number % 41,
        "value": number / 7,
        "polygon": ring,
    }
    payloads: list[Json] = [None, {"é": [1, 2.50, 1e21], "a": "\n\u2028"}, "text", number]
    return identifier, payloads[number % 4]


async def publish(client: Client, number: int) -> None:
    """Announce one notification."""
    identifier, payload = announced(number)
    await client.notify("alert", identifier, payload=payload)


def told(events: list[Event]) -> list[bytes | dict[str, Any]]:
    """What a stream says: notifications as bytes, control frames without what differs each time."""
    return [
        event.raw
        if event.kind in {"replay", "live-notification"}
        else {k: v for k, v in event.data.items() if k not in {"timestamp", "request_id"}}
        for event in events
        if event.kind != "heartbeat"
    ]


async def heard(client: Client, times: Mapping[int, str]) -> list[list[bytes | dict[str, Any]]]:
    """Every request's answer, of replays and of a watch up to where it goes live."""
    dated: list[tuple[dict[str, Any], dict[str, str]]] = [
        ({}, {"from_date": times[12]}),
        ({}, {"from_date": times[12], "to_date": times[33]}),
        ({}, {"from_id": "5", "to_date": times[8]}),
        ({}, {"from_id": "1", "to_date": "2020-01-01T00:00:00Z"}),
        ({"region": "sé"}, {"from_date": "2020-01-01T00:00:00Z"}),
    ]
    answers = []
    for identifier, window in [*REQUESTS, *dated]:
        async with client.replay("alert", identifier, **window) as stream:
            answers.append(told(await stream.rest()))
    async with client.watch("alert", {"region": "sé"}, from_id="2") as stream:
        answers.append(told(await stream.until("replay_completed")))
    return answers


async def replayed(client: Client, **window: str) -> list[Event]:
    """All frames of a replay without filter."""
    async with client.replay("alert", {}, **window) as stream:
        return await stream.rest()


async def test_a_deep_replay_says_what_the_log_would_have_said(
    nats: NatsServer, account: dict[str, Json], tmp_path: Path
) -> None:
    """Filters, start and end points, the cap, frames: nothing shows from which tier it comes."""
    whole = chosen(nats, account, tmp_path / "lake")
    async with connected(whole) as client:
        for number in range(1, STORED + 1):
            await publish(client, number)
        events = await replayed(client, from_id="4")
        times = {e.data["sequence"]: e.data["time"] for e in events if e.kind == "replay"}
        before = await heard(client, times)
        await archive(whole, last=20)
        await archive(whole, last=ARCHIVED)
        assert await heard(client, times) == before
    trimmed = chosen(nats, account, tmp_path / "lake", max_messages=KEPT)
    async with connected(trimmed) as client:
        bounds = await backend_of(client).bounds("alert")
        assert (bounds.first, bounds.last) == (STORED - KEPT + 1, STORED)
        after = await heard(client, times)
    assert after == before
    kinds = {json.dumps(frame) for answer in after for frame in answer if isinstance(frame, dict)}
    assert any("replay_limit_reached" in kind for kind in kinds)
    assert not any("history_gap" in kind for kind in kinds)
    assert sum(isinstance(frame, bytes) for answer in after for frame in answer) > 200


def backend_of(client: Client) -> Backend:
    """The backend of a server in this process."""
    assert client.running.live is not None
    return client.running.live.services.backend


async def test_history_begins_where_the_oldest_tier_begins(
    nats: NatsServer, account: dict[str, Json], tmp_path: Path
) -> None:
    """A gap is signalled for what is nowhere, and only for that."""
    lake = chosen(nats, account, tmp_path / "lake", max_messages=KEPT)
    async with connected(lake) as client:
        for number in range(1, 21):
            await publish(client, number)
        # The job comes late: 1 to 10 are gone. It sees 11 to 16, then 21 is more than it can take.
        await archive(lake, last=16)
        for number in range(21, 31):
            await publish(client, number)
        events = await replayed(client, from_id="1")
        gaps = [e.data for e in events if e.kind == "history_gap"]
        assert [(g["requested_sequence"], g["first_available_sequence"]) for g in gaps] == [
            (1, 11),
            (17, 21),
        ]
        assert sequences(events) == [*range(11, 17), *range(21, 31)]
        assert [e.kind for e in events[:3]] == ["replay_started", "history_gap", "replay"]


async def test_nothing_is_missed_while_the_job_archives_and_the_log_trims(
    nats: NatsServer, account: dict[str, Json], tmp_path: Path
) -> None:
    """Replays and watches from the beginning get every sequence once, whatever moves below them."""
    busy = chosen(nats, account, tmp_path / "lake", max_messages=30, memory_tail_bytes=20_000)
    stored, done = 0, asyncio.Event()

    async def produce(client: Client) -> None:
        nonlocal stored
        for number in range(300):
            await publish(client, number % 40)
            stored = number + 1
            if stored % 15 == 0:
                await archive(busy)
        done.set()

    async def follow(client: Client) -> None:
        while not done.is_set():
            first, least = max(1, stored - CAP + 1), stored
            events = await replayed(client, from_id=str(first))
            found = sequences(events)
            assert found == list(range(first, first + len(found)))
            assert len(found) == CAP or first + len(found) > least
            assert not [e for e in events if e.kind in {"history_gap", "error"}]

    async def watch(client: Client, start: int) -> None:
        async with client.watch("alert", {}, from_id=str(start)) as stream:
            for expected in range(start, 301):
                while (event := await stream.next()) is not None:
                    if event.kind in {"replay", "live-notification"}:
                        break
                assert event is not None, expected
                assert event.data["sequence"] == expected

    async with (
        connected(busy) as client,
        connected(busy) as other,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(produce(client))
        tasks.create_task(follow(other))
        tasks.create_task(watch(other, 1))
        tasks.create_task(watch(client, 1))


async def test_deletes_and_wipes_hide_archived_notifications_at_once(
    nats: NatsServer, account: dict[str, Json], tmp_path: Path
) -> None:
    """Also on servers that have read them before; an id is deleted once, then it is not found."""
    lake = chosen(nats, account, tmp_path / "lake", max_messages=KEPT)
    async with connected(lake) as client, connected(lake) as other:
        for number in range(1, 31):
            await publish(client, number)
            if number % 10 == 0:
                await archive(lake)
        for server in (client, other):
            assert sequences(await replayed(server, from_id="1")) == list(range(1, 31))
        for sequence in (5, 25):  # below the log, and in it
            assert await client.delete(f"alert@{sequence}") == 200
            for server in (client, other):
                assert sequence not in sequences(await replayed(server, from_id="1"))
                assert await server.delete(f"alert@{sequence}") == 404
        assert await client.delete("alert@31") == 404
        for number in range(31, 38):
            await publish(client, number)
        found = sequences(await replayed(other, from_id="1"))
        assert found == [n for n in range(1, 38) if n not in {5, 25}]
        await wiped(other, "alert")
        for server in (client, other):
            assert sequences(await replayed(server, from_id="0")) == []
        await publish(client, 1)
        for server in (client, other):
            assert sequences(await replayed(server, from_id="0")) == [38]
        for server in (client, other):
            gap = [e.data for e in await replayed(server, from_id="7") if e.kind == "history_gap"]
            assert [g["first_available_sequence"] for g in gap] == [38]


async def test_a_lake_that_cannot_be_read_ends_the_replay(
    nats: NatsServer, account: dict[str, Json], tmp_path: Path
) -> None:
    """With an error, never with a gap or a false completion; the log is still served."""
    lake = chosen(nats, account, tmp_path / "lake", max_messages=KEPT, max_reconnect_attempts=1)
    async with connected(lake) as client:
        for number in range(1, 21):
            await publish(client, number)
            if number % 10 == 0:
                await archive(lake)
        spoil(tmp_path)
        events = await replayed(client, from_id="5")
        assert [e.kind for e in events] == ["replay_started", "error", "end_of_stream"]
        assert events[1].data["message"] == "Failed to read history"
        assert sequences(await replayed(client, from_id="15")) == list(range(15, 21))


def spoil(folder: Path) -> None:
    """Make every archived file unreadable."""
    for file in folder.rglob("*.parquet"):
        file.write_bytes(b"PAR1 and nothing more")


async def wiped(client: Client, name: str) -> None:
    """Wipe one event type."""
    url = f"{client.running.url}/api/v1/admin/wipe/stream"
    async with client.session.delete(url, json={"stream_name": name}) as response:
        assert response.status == 200, await response.text()
