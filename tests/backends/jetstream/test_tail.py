"""Following a stream through everything that can happen to it."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from pathlib import Path

import pytest
from backends.contract import CATALOGUE, append, notification
from backends.jetstream.conftest import Opener, backend_with, brisk, eventually
from support.journal import recorded
from support.nats import NatsServer, nats_server

from aviso_server.backends.jetstream.backend import JetStreamBackend
from aviso_server.backends.jetstream.configuration import StreamState
from aviso_server.backends.jetstream.options import StreamDefaults
from aviso_server.backends.jetstream.streams import Streams
from aviso_server.backends.jetstream.tail import Consumer, delivery
from aviso_server.core.errors import HistoryLost, LiveFailed, StorageFailed
from aviso_server.core.notification import Entry
from aviso_server.core.schema import Catalogue, Schema, StoragePolicy

Tail = AsyncGenerator[Sequence[Entry], None]


async def take(tail: Tail, until: int) -> list[int]:
    """The sequences up to one."""
    got: list[int] = []
    async with asyncio.timeout(60):
        while not got or got[-1] < until:
            got += [entry.sequence for entry in await anext(tail)]
    return got


async def consumers(backend: JetStreamBackend) -> list[str]:
    """The names of the stream's consumers."""
    answer = await backend._connection.call("CONSUMER.NAMES.EV")
    names = answer["consumers"]
    assert isinstance(names, list)
    return list(map(str, names))


async def _none(backend: JetStreamBackend) -> bool:
    return not await consumers(backend)


async def _replaced(backend: JetStreamBackend, name: str) -> bool:
    return name not in await consumers(backend)


async def publish_through(backend: JetStreamBackend, count: int, begin: int = 0) -> None:
    """Publish with the same key until each is stored, as a careful producer does."""
    for n in range(begin, begin + count):
        while True:
            try:
                await backend.append(notification(payload=n), key=f"t{n}")
                break
            except StorageFailed:
                continue


def opened_at(url: str) -> AbstractAsyncContextManager[JetStreamBackend]:
    """A backend on a server that the test may harm."""
    return backend_with(replace(brisk(url), publish_retry_attempts=8))


async def test_many_arrive_together(opened: Opener) -> None:
    """What is available is handed over in few lists, in order."""
    backend = await opened()
    await asyncio.gather(
        *(backend.append(notification(payload=n), key=f"n{n}") for n in range(3000))
    )
    lists, got = 0, []
    async with asyncio.timeout(30), aclosing(backend.tail("ev", 0)) as tail:
        async for entries in tail:
            lists += 1
            got += [entry.sequence for entry in entries]
            if len(got) >= 3000:
                break
    assert got == list(range(1, 3001))
    assert lists < 300


async def test_one_consumer_that_goes_with_its_tail(opened: Opener) -> None:
    """One consumer per tail, deleted when the tail ends."""
    backend = await opened()
    await append(backend, 3)
    async with aclosing(backend.tail("ev", 0)) as tail:
        assert await take(tail, 3) == [1, 2, 3]
        assert len(await consumers(backend)) == 1
    await eventually(lambda: _none(backend))


async def test_a_deleted_consumer_is_rebuilt(opened: Opener) -> None:
    """Silence is noticed: the tail goes on from the last sequence + 1."""
    backend = await opened()
    await append(backend, 3)
    async with aclosing(backend.tail("ev", 0)) as tail:
        assert await take(tail, 3) == [1, 2, 3]
        [name] = await consumers(backend)
        await backend._connection.call(f"CONSUMER.DELETE.EV.{name}")
        await publish_through(backend, 2)
        assert await take(tail, 5) == [4, 5]


async def test_a_stalled_consumer_is_rebuilt(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watchdog finds the stream ahead of a consumer that is alive but delivers nothing."""
    backend = await opened()
    await append(backend, 1)
    async with aclosing(backend.tail("ev", 0)) as tail:
        assert await take(tail, 1) == [1]
        with monkeypatch.context() as patch:
            # Heartbeats still come; messages do not, as with nats-server issues 6017 and 8169.
            patch.setattr(Consumer, "_take", lambda _self, _message: None)
            patch.setattr(Consumer, "_control", lambda _self, _message: None)
            waiting = asyncio.ensure_future(take(tail, 2))
            [first] = await consumers(backend)
            await publish_through(backend, 1)
            await eventually(lambda: _replaced(backend, first))
        assert await waiting == [2]


class CountingStreams(Streams):
    """Counts how often a stream is inspected; the watchdog does so while a tail is idle."""

    looks = 0

    async def state(self, schema: Schema) -> StreamState:
        """As underneath."""
        self.looks += 1
        return await super().state(schema)


async def test_a_deleted_last_does_not_alarm_the_watchdog(opened: Opener) -> None:
    """A hole at the end of the stream is not a stall: the consumer stays."""
    backend = await opened()
    streams = backend._streams = CountingStreams(backend._connection, StreamDefaults())
    await append(backend, 3)
    await backend.delete("ev", 3)
    with recorded() as journal:
        async with aclosing(backend.tail("ev", 2)) as tail:
            waiting = asyncio.ensure_future(take(tail, 4))
            await eventually(lambda: streams.looks > 6)
            await publish_through(backend, 1)
            assert await waiting == [4]
    assert journal.all("backend.jetstream.subscription.retry") == []


async def test_holes_are_stepped_over(opened: Opener) -> None:
    """Deletions and wipes leave holes that a tail does not mind."""
    backend = await opened()
    await append(backend, 5)
    await backend.delete("ev", 2)
    async with aclosing(backend.tail("ev", 0)) as tail:
        assert await take(tail, 5) == [1, 3, 4, 5]
        await backend.wipe("ev")
        await publish_through(backend, 1)
        assert await take(tail, 6) == [6]


def trimmed(max_messages: int) -> Catalogue:
    """``ev`` with a retention of its own."""
    policy = StoragePolicy(max_messages=max_messages)
    return Catalogue([replace(CATALOGUE.schemas["ev"], storage=policy)])


async def test_trimmed_history_is_reported(opened: Opener) -> None:
    """A tail that needs what retention removed says so."""
    backend = await opened(trimmed(3))
    await append(backend, 10)
    with pytest.raises(HistoryLost, match="no longer kept"):
        await take(backend.tail("ev", 2), 10)
    async with aclosing(backend.tail("ev", 7)) as tail:
        assert await take(tail, 10) == [8, 9, 10]


async def test_a_replaced_stream_is_reported(opened: Opener) -> None:
    """Sequences that start over cannot continue an old position."""
    backend = await opened()
    await append(backend, 1)
    with pytest.raises(HistoryLost, match="was replaced"):
        await take(backend.tail("ev", 9), 10)


def test_delivery_subjects() -> None:
    """The exact nanoseconds, with and without a domain in the subject."""
    ns = 1_763_200_387_790_166_581
    assert delivery(f"$JS.ACK.EV.c.1.7.8.{ns}.0") == (7, 8, ns)
    assert delivery(f"$JS.ACK.hub.hash.EV.c.1.7.8.{ns}.0.x") == (7, 8, ns)


@pytest.mark.slow
@pytest.mark.parametrize("sequence", range(3))
async def test_restarts_of_nats_lose_nothing(tmp_path: Path, sequence: int) -> None:
    """Kill NATS while publishing and following: each acknowledged notification comes once."""
    sync: dict[str, object] = {"store_dir": str(tmp_path / "store"), "sync_interval": "always"}
    with nats_server(tmp_path, {"jetstream": sync}) as server:  # type: ignore[dict-item]
        async with opened_at(server.url) as backend, aclosing(backend.tail("ev", 0)) as tail:
            following = asyncio.ensure_future(take(tail, 300))
            for round_ in range(3):
                publishing = asyncio.ensure_future(publish_through(backend, 100, round_ * 100))
                if round_:
                    await asyncio.to_thread(server.restart)
                async with asyncio.timeout(60):
                    await publishing
            assert await following == list(range(1, 301))
            assert backend._connection.reconnects >= 2


@pytest.mark.slow
async def test_a_pause_of_nats_loses_nothing(own: NatsServer) -> None:
    """NATS hangs: appends fail in bounded time; afterwards everything goes on by itself."""
    async with opened_at(own.url) as backend, aclosing(backend.tail("ev", 0)) as tail:
        await append(backend, 2)
        assert await take(tail, 2) == [1, 2]
        own.pause()
        following = asyncio.ensure_future(take(tail, 5))
        async with asyncio.timeout(60):
            with pytest.raises(StorageFailed):
                await backend.append(notification(payload="x"), key="t0")
            await eventually(lambda: not backend.connected)
        own.resume()
        async with asyncio.timeout(60):
            await publish_through(backend, 3)
        assert await following == [3, 4, 5]


@pytest.mark.slow
async def test_a_long_outage_ends_the_tail(own: NatsServer) -> None:
    """When NATS stays away, the tail fails and says so; it does not hang."""
    options = brisk(own.url)
    async with backend_with(replace(options, pace=replace(options.pace, outage_s=1))) as backend:
        await append(backend, 1)
        tail = backend.tail("ev", 0)
        assert await take(tail, 1) == [1]
        own.kill()
        with pytest.raises(LiveFailed, match="Failed to create stream consumer"):
            await take(tail, 2)
