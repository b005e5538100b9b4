"""The real client, synchronous: its calls block, so they run in threads beside the server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from functools import partial
from pathlib import Path
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


async def test_notify_many(url: str) -> None:
    """A batch is published by several connections; the sequences are contiguous."""
    client = blocking(url)
    batch = [{"event_type": "ev", "identifier": NORTH, "payload": n} for n in range(50)]
    results = await in_thread(lambda: client.notify_many(batch, concurrency=5))
    assert all(result.ok for result in results)
    assert await replayed(client, start_from=0) == list(range(1, 51))


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


async def test_resume(journal: Journal, url: str, tmp_path: Path) -> None:
    """A second client with the first one's state file goes on where that one stopped."""
    store = tmp_path / "state.json"
    await publish(blocking(url), 4)
    for start, expected in ((0, [1, 2]), (None, [3, 4])):
        client = blocking(url, state=pyaviso.JsonFileStore(store))
        with client.listen("ev", filter=NORTH, start_from=start) as stream:
            assert [item.sequence for item in await take_blocking(stream, 2)] == expected
    assert [record["start_at"] for record in journal.all(WATCHING)] == ["1", "3"]


async def test_schemas(url: str) -> None:
    """The catalogue, one schema, and a 404 as HttpError."""
    client = blocking(url)
    assert "ev" in (await in_thread(client.schema)).event_types
    assert (await in_thread(lambda: client.schema_for("ev"))).event_type == "ev"
    with pytest.raises(pyaviso.HttpError) as missing:
        await in_thread(lambda: client.schema_for("nope"))
    assert missing.value.status == 404


async def test_administration(url: str) -> None:
    """Delete leaves a hole that stops an unfiltered listener; wipes keep the counter."""
    client = blocking(url)
    await publish(client, 3)
    await in_thread(lambda: client.delete_notification("ev@2"))
    with pytest.raises(pyaviso.HistoryGapError) as gap:
        await replayed(client, start_from=0)
    assert gap.value.reason == "sequence_jump"
    assert await replayed(client, start_from=0, filter=NORTH) == [1, 3]
    await in_thread(lambda: client.wipe_stream("ev"))
    await publish(client, 1)
    assert await replayed(client, start_from=3) == [4]
    await in_thread(client.wipe_all)
    assert await replayed(client, start_from=0) == []
