"""The real client resumes, whatever was restarted: the server, NATS, or itself."""

import asyncio
from pathlib import Path

import pyaviso
import pytest
from backends.jetstream.conftest import BRISK
from support.config import embedded, on_jetstream, settings
from support.journal import WATCHING, Journal
from support.listening import Listening, anonymous, published, take
from support.nats import NatsServer
from support.server import connected

from aviso_server.settings import Settings

RESTORED = "backend.jetstream.connection.restored"


def lasting(folder: Path, *, port: int = 0) -> Settings:
    """A server with a store of its own, which survives it."""
    backend = embedded(folder / "store", reconnect_delay_ms=100)
    return settings({**backend, "application": {"port": port}})


async def until(listener: Listening[pyaviso.Notification], last: int) -> list[int]:
    """The sequences that come, up to one."""
    found: list[int] = []
    while last not in found:
        found += sequences(await take(listener, 1))
    return found


def sequences(items: list[pyaviso.Notification]) -> list[int]:
    """Their sequences."""
    return [item.sequence for item in items]


async def test_state_file_across_a_server_restart(tmp_path: Path) -> None:
    """A client with a state file goes on after its last sequence, on the restarted server.

    It is unfiltered: the client itself would raise HistoryGapError at a missing sequence. And it
    promises at least once: the last one may not have been committed when the listener closed.
    """
    state = tmp_path / "state.json"
    async with connected(lasting(tmp_path)) as server:
        port, url = server.running.port, server.running.url
        await published(anonymous(url), 2)
        first = anonymous(url, state=pyaviso.JsonFileStore(state))
        async with first.listen("ev", start_from=0) as stream:
            assert sequences(await take(stream, 2)) == [1, 2]
    async with connected(lasting(tmp_path, port=port)):
        await published(anonymous(url), 4)
        second = anonymous(url, state=pyaviso.JsonFileStore(state))
        async with second.listen("ev") as stream:
            assert await until(stream, 6) in ([2, 3, 4, 5, 6], [3, 4, 5, 6])
            await published(anonymous(url), 1)
            assert sequences(await take(stream, 1)) == [7]


@pytest.mark.slow
async def test_listening_across_a_server_restart(journal: Journal, tmp_path: Path) -> None:
    """A listener that is told server_shutdown waits 5 s, comes back and has missed nothing."""
    state = pyaviso.JsonFileStore(tmp_path / "state.json")
    async with connected(lasting(tmp_path)) as server:
        port, url = server.running.port, server.running.url
        await published(anonymous(url), 2)
        listener = anonymous(url, state=state).listen("ev", start_from=0)
        assert sequences(await take(listener, 2)) == [1, 2]
    async with listener, connected(lasting(tmp_path, port=port)):
        await published(anonymous(url), 3)
        assert sequences(await take(listener, 3)) == [3, 4, 5]
    assert [record["start_at"] for record in journal.all(WATCHING)] == ["1", "3"]


async def test_listening_across_a_nats_restart(
    own: NatsServer, journal: Journal, tmp_path: Path
) -> None:
    """The listener keeps its connection while NATS is away, and its state file stays right."""
    state = tmp_path / "state.json"
    chosen = settings(on_jetstream(own.url, publish_retry_attempts=1))
    async with connected(chosen, pace=BRISK) as server:
        client = anonymous(server.running.url, state=pyaviso.JsonFileStore(state))
        await published(client, 1)
        async with client.listen("ev", start_from=0) as stream:
            assert sequences(await take(stream, 1)) == [1]
            for turn in (1, 2):
                own.kill()
                with pytest.raises(pyaviso.HttpError) as away:
                    await published(client, 100)
                assert away.value.status == 500
                await asyncio.to_thread(own.start)
                await journal.seen(RESTORED, turn)
                await published(client, 2)
                assert sequences(await take(stream, 2)) == [2 * turn, 2 * turn + 1]
        assert len(journal.all(WATCHING)) == 1
        await published(client, 1)
        again = anonymous(server.running.url, state=pyaviso.JsonFileStore(state))
        async with again.listen("ev") as stream:
            assert await until(stream, 6) in ([5, 6], [6])
