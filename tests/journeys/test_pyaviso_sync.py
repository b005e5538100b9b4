"""The real client, synchronous: its calls block, so they run in threads beside the server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from functools import partial
from typing import Any, TypeVar

import pyaviso
import pytest
from support.config import settings
from support.journal import WATCHING, Journal
from support.listening import PATIENCE_S, blocking, take_blocking
from support.server import connected

NORTH = {"region": "n"}
_Result = TypeVar("_Result")


async def in_thread(call: Callable[[], _Result]) -> _Result:
    """The result of a blocking call."""
    async with asyncio.timeout(PATIENCE_S):
        return await asyncio.to_thread(call)


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """A server."""
    async with connected(settings()) as server:
        yield server.running.url


async def publish(client: pyaviso.AvisoClient, count: int) -> None:
    """Publish with payloads 0, 1, 2 and so on."""
    for value in range(count):
        notify = partial(client.notify, event_type="ev", identifier=NORTH, payload=value)
        answer = await in_thread(notify)
        assert answer.status == "success"


async def replayed(client: pyaviso.AvisoClient, **options: Any) -> list[int]:
    """The sequences of a replay to its end."""

    def read() -> list[int]:
        with closing(client.listen("ev", mode="replay_only", **options)) as history:
            return [item.sequence for item in history]

    return await in_thread(read)


async def test_history_and_windows(url: str) -> None:
    """Replays end by themselves; a start is exclusive and an end inclusive for the client."""
    client = blocking(url)
    assert await replayed(client, start_from=0) == []
    await publish(client, 5)
    assert await replayed(client, start_from=0) == [1, 2, 3, 4, 5]
    assert await replayed(client, start_from=1, until=4, filter=NORTH) == [2, 3, 4]
    assert await replayed(client, start_from="2020-01-01T00:00:00Z") == [1, 2, 3, 4, 5]


async def test_listen_live(journal: Journal, url: str) -> None:
    """A blocking iterator yields what is published while it waits, in order and without a hole."""
    client = blocking(url)
    with client.listen("ev") as live:
        await journal.seen(WATCHING)
        await publish(client, 5)
        items = await take_blocking(live, 5)
    assert [(item.sequence, item.payload) for item in items] == [(n + 1, n) for n in range(5)]


async def test_history_then_live(url: str) -> None:
    """An unfiltered listener crosses from history to live exactly."""
    client = blocking(url)
    await publish(client, 3)
    with client.listen("ev", start_from=1) as stream:
        assert [item.sequence for item in await take_blocking(stream, 2)] == [2, 3]
        await publish(client, 2)
        assert [item.sequence for item in await take_blocking(stream, 2)] == [4, 5]


async def test_function_trigger(url: str) -> None:
    """A trigger function sees each notification of a replay once."""
    client = blocking(url)
    await publish(client, 3)
    called: list[int] = []
    trigger = pyaviso.Trigger.function(lambda item: called.append(item.sequence))

    def run() -> None:
        client.listen("ev", start_from=0, mode="replay_only", triggers=[trigger]).run()

    await in_thread(run)
    assert called == [1, 2, 3]


async def test_listen_many(url: str) -> None:
    """Two listeners through one loop: each replay ends, then the loop does."""
    client = blocking(url)
    await publish(client, 2)

    def read() -> list[tuple[str, int]]:
        wanted: dict[str, dict[str, Any]] = {
            "all": {"event_type": "ev"},
            "none": {"event_type": "ev", "filter": {"region": "x"}},
        }
        with closing(client.listen_many(wanted, start_from=0, mode="replay_only")) as both:
            return [(name, item.sequence) for name, item in both]

    assert await in_thread(read) == [("all", 1), ("all", 2)]
