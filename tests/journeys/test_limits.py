"""The real client at a limit: it waits as it is told and then gets its stream."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest
from support.config import document, settings
from support.footprints import resident_bytes
from support.journal import recorded
from support.listening import anonymous, published, take
from support.process import server_process
from support.server import connected

from aviso_server.core import footprint
from aviso_server.core.filter import Filter
from aviso_server.http import limits


async def test_pyaviso_waits_for_a_free_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """429 with Retry-After is not an error for a listener."""
    monkeypatch.setattr(limits, "STREAM_RETRY_S", 1)
    limited = settings({"limits": {"max_streams": 1}})
    with recorded() as journal:
        async with connected(limited) as server:
            client = anonymous(server.running.url)

            async def listen() -> list[object]:
                async with client.listen("ev", start_from=0) as listener:
                    return [item.payload for item in await take(listener, 2)]

            async with server.watch("ev", {}) as stream:
                await stream.until("connection_established")
                listening = asyncio.create_task(listen())
                await journal.seen("api.request.limit.reached")
            await published(client, 2)
            assert await listening == [0, 1]


async def test_an_open_stream_takes_what_is_counted_for_it(tmp_path: Path) -> None:
    """The memory of a server grows with idle watchers about as their limit assumes."""
    count = 500
    with server_process(document(), tmp_path) as server:
        async with AsyncExitStack() as stack:
            # The first few pay for what all share.
            await watching(stack, server.url, 50)
            before = resident_bytes(server.process.pid)
            await watching(stack, server.url, count)
            taken = resident_bytes(server.process.pid) - before
    resting = footprint.RESTING - footprint.STREAM
    counted = count * (footprint.of_stream(Filter((("region", "n"),))) + resting)
    assert 0.7 * taken <= counted <= 3 * taken


async def watching(stack: AsyncExitStack, url: str, count: int) -> None:
    """Open watches that stay open as long as the stack."""
    session = await stack.enter_async_context(
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    )
    body = {"event_type": "ev", "identifier": {"region": "n"}}
    for _ in range(count):
        answer = await session.post(f"{url}/api/v1/watch", json=body)
        assert answer.status == 200
        assert b"connection_established" in await answer.content.readline() + (
            await answer.content.readline()
        )
