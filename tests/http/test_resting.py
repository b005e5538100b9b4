"""Watches that wait for notifications: what they keep, and what becomes of the connection."""

import asyncio
import socket
from contextlib import AsyncExitStack
from itertools import chain, repeat

from support.config import settings
from support.edge import NOON_NS, Edge, Parts, edge
from support.journal import recorded
from support.raw import PATIENCE_S, Wire, request, wired

from aviso_server.backends.memory.backend import MemoryBackend, MemoryLimits
from aviso_server.http.held import Held
from aviso_server.relay.query import StreamRules

WATCH = request("POST", "/api/v1/watch", b'{"event_type":"ev","identifier":{}}')
WATCHERS = 20


async def resting(served: Edge, stack: AsyncExitStack) -> Wire:
    """A watch that has sent what it sends at first."""
    wire = await stack.enter_async_context(wired(served.running))
    await wire.send(WATCH)
    async with asyncio.timeout(PATIENCE_S):
        await wire.reader.readuntil(b"\r\n\r\n")
        assert b"connection_established" in await wire.chunk()
        assert b"heartbeat" in await wire.chunk()
    return wire


async def test_watches_that_rest_have_no_tasks() -> None:
    """They get what is published all the same, each in one chunk and in order."""
    async with edge(settings()) as served, AsyncExitStack() as stack:
        await served.notify("ev", {"region": "n"})
        before = len(asyncio.all_tasks())
        wires = [await resting(served, stack) for _ in range(WATCHERS)]
        async with asyncio.timeout(PATIENCE_S):
            while len(asyncio.all_tasks()) > before + 2:  # the hub follows the stream
                await served.notify("diss2", {"destination": "FOO", "note": "x"})
        for sequence in (2, 3):
            await served.notify("ev", {"region": "n"})
            for wire in wires:
                assert b'"sequence":%d,' % sequence in await wire.chunk()


async def test_a_connection_has_its_next_request_after_the_stream() -> None:
    """Also one that was sent while the stream rested, in pieces."""
    rules = StreamRules(max_duration_s=0.5)
    async with edge(settings(), Parts(rules=rules)) as served, AsyncExitStack() as stack:
        wire = await resting(served, stack)
        await wire.send(b"GET /health HTTP/1.1\r\n")
        await wire.send(b"Host: localhost\r\n\r\n")
        async with asyncio.timeout(PATIENCE_S):
            assert b"max_duration_reached" in await wire.chunk()
            assert await wire.chunk() == b""
        assert (await wire.answer()).status == 200
        assert (await wire.ask("GET", "/ready")).status == 200


async def test_more_than_a_request_is_not_read_while_the_stream_lasts() -> None:
    """What a client sends too early waits in its own buffers, and is answered in the end."""
    early = request("GET", "/health") * 4000
    rules = StreamRules(max_duration_s=0.5)
    async with edge(settings(), Parts(rules=rules)) as served, AsyncExitStack() as stack:
        wire = await resting(served, stack)
        sending = asyncio.create_task(wire.send(early))
        async with asyncio.timeout(PATIENCE_S):
            while await wire.chunk():
                pass
            for _ in range(4000):
                assert (await wire.answer()).status == 200
            await sending


async def test_a_rest_that_breaks_is_cut_short() -> None:
    """What nobody foresaw is logged, and the end of the body is missing."""
    # The clock stops after opening frame and heartbeat: the next heartbeat fails.
    times = chain(repeat(NOON_NS, 2), iter(()))
    parts = Parts(
        MemoryBackend(MemoryLimits(), now_ns=lambda: NOON_NS),
        lambda: next(times),
        rules=StreamRules(heartbeat_s=0.2),
    )
    with recorded() as journal:
        async with edge(settings(), parts) as served, AsyncExitStack() as stack:
            wire = await resting(served, stack)
            assert await wire.rest() == b""
            assert not list(served.hub.depths())
    assert len(journal.all("api.request.processing.failed")) == 1


async def test_a_client_that_takes_nothing_does_not_hold_the_end_up() -> None:
    """A stream that was asked to end, and cannot, is broken off with the application."""
    async with edge(settings()) as served, AsyncExitStack() as stack:
        wire = await resting(served, stack)
        connection: socket.socket = wire.writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.reader._transport.pause_reading()  # type: ignore[attr-defined]
        async with asyncio.timeout(PATIENCE_S):
            while not sum(served.hub.depths()):
                await served.notify("ev", {"region": "n"}, payload="x" * 200_000)
    assert not list(served.hub.depths())


def test_what_is_held_is_released_once_and_backwards() -> None:
    """By the block, or by whom it was kept for."""
    released: list[int] = []
    with Held() as held:
        held.add(lambda: released.append(1))
        held.add(lambda: released.append(2))
        kept = held.keep()
    assert not released
    kept.release()
    kept.release()
    assert released == [2, 1]
