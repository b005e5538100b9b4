"""The real client at a limit: it waits as it is told and then gets its stream (clients.md 5)."""

import asyncio

import pytest
from support.config import settings
from support.journal import recorded
from support.listening import anonymous, published, take
from support.server import connected

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
