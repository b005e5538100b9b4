"""Publishing when NATS is not well."""

import asyncio
from dataclasses import replace

import pytest
from backends.contract import append, notification, read_all
from backends.jetstream.conftest import BRISK, Opener, backend_with, brisk, eventually
from support.journal import recorded
from support.nats import NatsServer

from aviso_server.backends.backend import Bounds, Receipt
from aviso_server.core.errors import HistoryFailed, SetupFailed, StorageFailed


async def test_nats_away(own: NatsServer) -> None:
    """Every operation fails with its own error in bounded time, and nothing is stored later."""
    # Reading waits for the connection; here it shall soon give up.
    options = replace(brisk(own.url), pace=replace(BRISK, outage_s=0.5))
    async with backend_with(options) as backend:
        await append(backend, 2)
        own.kill()
        async with asyncio.timeout(20):
            with pytest.raises(StorageFailed) as failure:
                await backend.append(notification(payload="lost"), key="lost")
            assert failure.value.message == "Failed to publish notification message to JetStream"
            await eventually(lambda: not backend.connected)
            with pytest.raises(SetupFailed, match="Failed to ensure stream exists"):
                await backend.bounds("ev")
            with pytest.raises(HistoryFailed):
                await backend.read("ev", 1, 2, limit=10)
            with pytest.raises(HistoryFailed):
                await backend.first_since("ev", 0)
            own.start()
            await backend._connection.until_connected(20)
            assert await backend.bounds("ev") == Bounds(1, 2)
            assert [e.sequence for e in await read_all(backend, 1, 2)] == [1, 2]


async def test_a_short_absence_is_bridged(own: NatsServer) -> None:
    """A publish during a restart of NATS is retried and succeeds."""
    options = replace(brisk(own.url), publish_retry_attempts=12)
    async with backend_with(options) as backend:
        await append(backend, 2)
        own.kill()
        waiting = asyncio.ensure_future(backend.append(notification(payload="x"), key="x"))
        await asyncio.to_thread(own.start)
        async with asyncio.timeout(30):
            assert (await waiting).sequence == 3
        assert backend.reconnects == 1


async def test_many_in_flight(opened: Opener) -> None:
    """Publishes overlap: a thousand at once are all stored, each once."""
    # No second copies, which would be told as repeats: on a busy machine an answer may take long.
    backend = await opened(pace=replace(BRISK, ack_s=60))
    receipts = await asyncio.gather(
        *(backend.append(notification(payload=n), key=f"{n % 500}") for n in range(1000))
    )
    assert sorted({r.sequence for r in receipts}) == list(range(1, 501))
    assert sum(r.repeated for r in receipts) == 500


async def test_a_repeat_is_reported_after_a_pause_too(own: NatsServer) -> None:
    """A key that was used before is a repeat although NATS paused meanwhile: callers compare.

    Taken for our own second copy, it was acknowledged with the other notification's sequence.
    """
    with recorded() as journal:
        options = replace(brisk(own.url), publish_retry_attempts=20)
        async with backend_with(options) as backend:
            assert await backend.append(notification(payload="A"), key="k") == Receipt(1)
            own.pause()
            waiting = asyncio.ensure_future(backend.append(notification(payload="B"), key="k"))
            await journal.seen("backend.jetstream.publish.retry.channel_closed")
            own.resume()
            async with asyncio.timeout(30):
                assert await waiting == Receipt(1, repeated=True)
