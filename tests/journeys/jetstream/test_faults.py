"""Faults on the NATS side: what publishers are told, and that watchers miss nothing.

Every test has a real nats-server, and the book of ``support.storm`` says who must have what.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from backends.jetstream.conftest import eventually
from support.config import document
from support.fuzz import LONG_FAULTS
from support.jetstream import behind, consumers, lose_consumers, ready, status, stormy
from support.journal import Journal, recorded
from support.nats import NatsServer
from support.process import server_process
from support.storm import FILTERS, LAST, SCHEMA, Weather, weather

from aviso_server.core.json import Json

QUICK: dict[str, Json] = {"publish_retry_attempts": 2, "publish_retry_base_delay_ms": 10}
"""Publishing gives up at once, so that clients see the outage."""

SLOW_REPLAY: dict[str, Json] = {"replay_batch_size": 5, "replay_batch_delay_ms": 20}

STORE: dict[str, Json] = {"memory_tail_bytes": 0}
"""All history comes from NATS, none from memory."""


async def refused(storm: Weather, path: str, body: dict[str, Any]) -> tuple[str, str | None]:
    """The error code of a request that must fail with 500, and its ``Retry-After``."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{storm.url}/api/v1/{path}", json=body) as response,
    ):
        answer = await response.json()
        assert response.status == 500, answer
        return answer["code"], response.headers.get("Retry-After")


# Outages


async def test_notify_while_away(own: NatsServer) -> None:
    """500 with Retry-After, nothing half done; the same key afterwards stores it once.

    New streams are refused the same way. Those that are open stay open, with heartbeats.
    """
    body = {"event_type": "storm", "identifier": LAST}
    async with stormy(own, QUICK) as storm:
        await storm.publisher().publish(LAST)
        live, past = await storm.watch(), await storm.watch(start=1)
        await past.until_sequence(1)
        own.kill()
        await ready(storm.url, expected=False)
        assert await refused(storm, "notification", body) == ("NOTIFICATION_STORAGE_FAILED", "5")
        for path in ("watch", "replay"):
            code = await refused(storm, path, {**body, "from_id": "1"})
            assert code == ("SSE_STREAM_INITIALIZATION_FAILED", "5")
        publishing = asyncio.create_task(storm.publisher().publish(LAST))
        beats = live.beats, past.beats
        await live.until(lambda: live.beats > beats[0])
        await past.until(lambda: past.beats > beats[1])
        assert storm.book.refused > 0
        await asyncio.to_thread(own.start)
        assert await publishing == 2
        await ready(storm.url, expected=True)
        await storm.settle()
        assert (live.received, past.received) == ([2, 3], [1, 2, 3])
        assert live.connections == past.connections == 1


async def test_key_across_an_unclear_failure(own: NatsServer) -> None:
    """A notify that failed while NATS hung may be stored later; sent again it is stored once."""
    async with stormy(own, {"publish_retry_attempts": 1}) as storm:
        await storm.publisher().publish(LAST)
        watcher = await storm.watch(start=1)
        own.pause()
        publishing = asyncio.create_task(storm.publisher().publish(LAST))
        await eventually(lambda: storm.book.refused > 0)
        own.resume()
        assert await publishing == 2
        await storm.settle()
        assert watcher.received == [1, 2, 3]


async def test_reused_key_across_a_pause(own: NatsServer) -> None:
    """200 means stored as sent: a key that stands for A refuses B, however NATS fared."""
    key = {"Idempotency-Key": "one-key"}
    first, second = ({"event_type": "storm", "identifier": LAST, "payload": p} for p in "AB")
    async with (
        stormy(own, {"publish_retry_attempts": 20}) as storm,
        aiohttp.ClientSession() as http,
    ):
        address = f"{storm.url}/api/v1/notification"
        async with http.post(address, json=first, headers=key) as answer:
            assert answer.status == 200
        with recorded() as journal:
            own.pause()
            asking = asyncio.create_task(http.post(address, json=second, headers=key))
            await journal.seen("backend.jetstream.publish.retry.channel_closed")
            own.resume()
            async with await asking as answer:
                assert (answer.status, (await answer.json())["code"]) == (
                    409,
                    "IDEMPOTENCY_KEY_REUSED",
                )
        async with http.post(address, json=first, headers=key) as answer:
            assert (await answer.json())["sequence"] == 1


async def test_replay_across_a_restart(own: NatsServer) -> None:
    """A replay under way waits for NATS and goes on where it was; its end is the true end."""
    slow: dict[str, Json] = {"replay_batch_size": 50, "replay_batch_delay_ms": 200}
    async with stormy(own, STORE, watch=slow) as storm:
        await storm.blow(50)
        replay = await storm.watch(start=1, operation="replay")
        await replay.until(lambda: len(replay.received) >= 50)
        own.kill()
        await replay.until(lambda: replay.beats >= 2)
        await asyncio.to_thread(own.start)
        await replay.until_kind("end_of_stream")
        assert replay.received == list(range(1, 201))
        assert replay.kinds("heartbeat")[-2:] == ["replay_completed", "end_of_stream"]


# Consumers


async def test_consumers_deleted_behind_our_back(own: NatsServer, journal: Journal) -> None:
    """A consumer that disappears is noticed by its silence and replaced; nothing is missed."""
    async with stormy(own) as storm, behind(own) as api:
        await storm.publisher().publish(LAST)
        watchers = [await storm.watch(wanted) for wanted in FILTERS]
        for turn in (1, 2):
            await consumers(api, 1)
            assert await lose_consumers(api) == 1
            last = await storm.publisher().publish(LAST)
            for watcher in watchers:
                await watcher.until_sequence(last)
            assert len(journal.all("backend.jetstream.subscription.retry")) == turn
        await storm.settle()


async def test_one_consumer_for_all_watchers(own: NatsServer) -> None:
    """NATS holds one consumer per stream and process, and none when it ends."""
    async with behind(own) as api:
        async with stormy(own) as storm:
            await storm.blow(20)
            for wanted in FILTERS:
                await storm.watch(wanted, 1)
                await storm.watch(wanted)
            await storm.settle()
            assert len(await api.consumers_info("STORM")) == 1
        await consumers(api, 0)


# Readers


async def test_slow_reader(own: NatsServer, journal: Journal) -> None:
    """A reader that stalls is moved to history and gets everything; nobody waits for it."""
    async with stormy(own, watch={"client_queue_size": 5}) as storm:
        publisher = storm.publisher()
        await publisher.publish(LAST)
        slow, quick = await storm.watch(), await storm.watch()
        slow.reading.clear()
        for _ in range(120):
            await publisher.publish(LAST, "x" * 100_000)
        await quick.until_sequence(storm.book.last)
        assert len(slow.received) < 120
        await storm.settle()
        assert journal.all("stream.watch.reader.switched") != []
        assert slow.received == quick.received == list(range(2, 123))
        assert set(slow.kinds("heartbeat")) == {"connection_established", "live-notification"}


async def test_slow_reader_across_a_restart(own: NatsServer) -> None:
    """A reader that stalls while NATS restarts still gets everything."""
    async with stormy(own, STORE, watch={"client_queue_size": 5}) as storm:
        publisher = storm.publisher()
        await publisher.publish(LAST)
        slow = await storm.watch()
        slow.reading.clear()
        for _ in range(120):
            await publisher.publish(LAST, "x" * 100_000)
        own.kill()
        await ready(storm.url, expected=False)
        slow.reading.set()
        await slow.until(lambda: len(slow.received) >= 10)
        beats = slow.beats
        await slow.until(lambda: slow.beats >= beats + 2)
        await asyncio.to_thread(own.start)
        await storm.settle()
        assert slow.received == list(range(2, 123))


async def test_replay_longer_than_a_consumer_lives(own: NatsServer) -> None:
    """A watch whose history outlasts any consumer's patience still crosses to live exactly.

    The live side is read from the moment H is taken, whatever the history does meanwhile.
    """
    slow: dict[str, Json] = {"replay_batch_size": 10, "replay_batch_delay_ms": 60}
    async with stormy(own, watch=slow) as storm, behind(own) as api:
        await storm.blow(50)
        watcher = await storm.watch(start=1)
        await consumers(api, 1)
        assert await lose_consumers(api) == 1
        await storm.blow(50)
        await storm.settle()
        watcher.check_frames()
        assert watcher.kinds().count("replay") == 200


# Removals during a replay

SLOW: dict[str, Json] = {"replay_batch_size": 50, "replay_batch_delay_ms": 1000}
"""Time enough to remove something between two batches."""


async def test_wipe_during_replay(own: NatsServer) -> None:
    """A wipe ends history early, without an error: it was deliberate. Live goes on after H."""
    async with stormy(own, STORE, watch=SLOW) as storm:
        await storm.blow(50)
        watcher = await storm.watch(start=1)
        await watcher.until(lambda: len(watcher.received) >= 50)
        await storm.wipe()
        last = await storm.publisher().publish(LAST)
        await watcher.until_sequence(last)
        history = watcher.received[:-1]
        assert history == list(range(1, len(history) + 1))
        assert len(history) < 200
        watcher.check_frames()


async def test_delete_during_replay(own: NatsServer) -> None:
    """Deletions ahead of a reader leave holes, and nothing else is missing."""
    async with stormy(own, STORE, watch=SLOW) as storm:
        await storm.blow(25)
        watcher = await storm.watch(start=1)
        await watcher.until(lambda: len(watcher.received) >= 50)
        for sequence in (90, 91, 95, 100):
            await storm.delete(sequence)
        await storm.settle()
        assert set(watcher.received) & {90, 91, 95, 100} == set()
        watcher.check_frames()


async def test_trim_during_replay(own: NatsServer) -> None:
    """Retention that overtakes a reader is an error and the end, never a silent gap."""
    async with stormy(own, {**STORE, "max_messages": 100}, watch=SLOW) as storm:
        await storm.blow(25)
        replay = await storm.watch(start=1, operation="replay")
        await replay.until(lambda: len(replay.received) >= 50)
        await storm.blow(50)
        await replay.until_kind("end_of_stream")
        assert replay.received == list(range(1, len(replay.received) + 1))
        assert len(replay.received) < 100
        assert replay.kinds("heartbeat")[-2:] == ["error", "end_of_stream"]
        assert "replay_completed" not in replay.kinds()
        later = await storm.watch(start=1, operation="replay")
        await later.until_kind("end_of_stream")
        assert later.kinds()[1] == "history_gap"
        assert later.received == list(range(201, 301))


async def test_trim_leaves_live_watchers_alone(own: NatsServer) -> None:
    """Watchers that keep up are not touched by retention, however little it keeps."""
    async with stormy(own, {"max_messages": 10}) as storm:
        await storm.publisher().publish(LAST)
        for wanted in FILTERS:
            await storm.watch(wanted)
        await storm.blow(50)
        await storm.settle()


@asynccontextmanager
async def in_production(own: NatsServer, folder: Path) -> AsyncIterator[Weather]:
    """A storm over a server with the waits of production."""
    chosen = document(
        {
            "notification_backend": {"kind": "jetstream", "jetstream": {"nats_url": own.url}},
            "watch_endpoint": {"sse_heartbeat_interval_sec": 1, **SLOW_REPLAY},
        },
        schemas={"storm": SCHEMA},
    )
    with server_process(chosen, folder) as server:
        async with weather(server.url) as storm:
            yield storm


async def test_silence(own: NatsServer, tmp_path: Path) -> None:
    """NATS hangs: feeds stay open with their heartbeats, publishers are told, nothing is lost.

    In `make faults` for 30 s, as long as a tail waits, under a server with the waits of production.
    """
    quickly = stormy(own, QUICK, watch=SLOW_REPLAY)
    async with in_production(own, tmp_path) if LONG_FAULTS else quickly as storm:
        await storm.blow(50)
        live, past = await storm.watch(), await storm.watch(start=1)
        await past.until(lambda: len(past.received) >= 5)
        async with asyncio.TaskGroup() as group:
            own.pause()
            begun = live.beats
            group.create_task(storm.blow(20))
            await live.until(lambda: live.beats >= begun + (30 if LONG_FAULTS else 3))
            assert await status(f"{storm.url}/health") == 200
            await ready(storm.url, expected=False)
            await eventually(lambda: storm.book.refused > 0)
            own.resume()
        await storm.settle()
        assert live.connections == past.connections == 1
        past.check_frames()
        assert past.kinds().count("replay") == 200
