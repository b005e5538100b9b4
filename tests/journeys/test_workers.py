"""``serve --workers N``: several processes behind one port, one store."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from backends.jetstream.conftest import eventually
from support.config import document, embedded, on_jetstream
from support.jetstream import status
from support.nats import NatsServer
from support.process import ServerProcess, alive, kernel_file, server_process
from support.storm import FILTERS, LAST, SCHEMA, Watcher, Weather, weather

from aviso_server.core.json import Json

pytestmark = pytest.mark.slow

WORKERS = 3
NOTICED_S = 30
"""How long anything may take to end."""


def stored_in(folder: Path) -> dict[str, Json]:
    """A configuration with an embedded NATS server that keeps its store in a folder."""
    return document(
        {
            **embedded(folder / "store", reconnect_delay_ms=100),
            "watch_endpoint": {"sse_heartbeat_interval_sec": 1},
        },
        schemas={"storm": SCHEMA},
    )


@contextmanager
def crewed(folder: Path) -> Iterator[ServerProcess]:
    """A server of several processes; whatever a failed test leaves of it is ended."""
    with server_process(stored_in(folder), folder, "--workers", str(WORKERS)) as server:
        family = descendants(server.process.pid)
        try:
            yield server
        finally:
            server.kill()
            for pid in family:
                # Numbers are reused: only what has this test's home is ours to end.
                if alive(pid) and os.fsencode(folder) in kernel_file(pid, "environ"):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Every process below one, as the kernel lists it."""
    found = [int(child) for child in kernel_file(pid, f"task/{pid}/children").split()]
    return found + [below for child in found for below in descendants(child)]


def workers(server: ServerProcess) -> list[int]:
    """The processes that serve."""
    return _running(server, b"spawn_main")


def _running(server: ServerProcess, name: bytes) -> list[int]:
    return [pid for pid in descendants(server.process.pid) if name in kernel_file(pid, "cmdline")]


async def spread(storm: Weather, server: ServerProcess) -> None:
    """Open watchers until every worker has some, as the open connections tell."""
    port = int(server.url.rpartition(":")[2])
    while True:
        for wanted in FILTERS:
            await storm.watch(wanted, faithful=True)
        if all(connections(pid, port) >= 2 for pid in workers(server)):
            return
        assert len(storm.watchers) < 200


def connections(pid: int, port: int) -> int:
    """How many clients a process serves on a port."""
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            inodes.add(entry.readlink().name.removeprefix("socket:[").removesuffix("]"))
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    established, local = "01", f":{port:04X}"
    return sum(
        row[9] in inodes and row[3] == established and row[1].endswith(local) for row in rows
    )


async def test_every_worker_delivers_everything(tmp_path: Path) -> None:
    """What one worker accepts reaches the watchers of all, in order and once.

    So it is after a restart of their NATS server. What is deleted through one is gone from all.
    SIGTERM ends everything: the watchers are told, the exit code is 0 and no process is left.
    """
    with crewed(tmp_path) as server:
        assert len(workers(server)) == WORKERS
        family = descendants(server.process.pid)
        async with weather(server.url) as storm:
            await storm.publisher().publish(LAST)
            await spread(storm, server)
            await storm.blow(30, publishers=6)
            await storm.settle()
            # What is deleted through one is gone from the memory of all.
            for doomed in ([3], [1, 2, 10]):
                for sequence in doomed:
                    await storm.delete(sequence)
                await nobody_has(storm, doomed)
            # Their NATS server dies too: it comes back on its port, and so do they.
            (store,) = _running(server, b"nats-server")
            os.kill(store, signal.SIGKILL)
            await storm.blow(30, publishers=6)
            await storm.settle()
            for watcher in storm.watchers:
                watcher.check_frames()
                watcher.faithful = False
            server.signal(signal.SIGTERM)
            for watcher in storm.watchers:
                await watcher.until_kind("server_shutdown")
        assert await asyncio.to_thread(server.wait, NOTICED_S) == 0
        await eventually(lambda: not any(map(alive, family)))


async def nobody_has(storm: Weather, doomed: list[int]) -> None:
    """Replays on a dozen connections, spread over the workers, have these sequences no more."""
    for _ in range(12):
        replay = Watcher(storm.book, storm.url, start=1, operation="replay")
        await replay.begin()
        await replay.until_kind("end_of_stream")
        assert set(replay.received) & set(doomed) == set()
        replay.check()


async def test_readiness(own: NatsServer, tmp_path: Path) -> None:
    """Each worker reports its own state: while NATS is away none is ready, and all of them live."""
    chosen = document(on_jetstream(own.url), schemas={"storm": SCHEMA})
    with server_process(chosen, tmp_path, "--workers", "2") as server:
        assert await answers(server, "/ready") == {200}
        own.kill()
        await eventually(lambda: _all(server, "/ready", 503))
        assert await answers(server, "/health") == {200}
        await asyncio.to_thread(own.start)
        await eventually(lambda: _all(server, "/ready", 200))


async def answers(server: ServerProcess, path: str) -> set[int]:
    """The statuses that twenty connections get, which the kernel spreads over the workers."""
    return {await status(f"{server.url}{path}") for _ in range(20)}


async def _all(server: ServerProcess, path: str, expected: int) -> bool:
    return await answers(server, path) == {expected}


async def test_worker_crash(tmp_path: Path) -> None:
    """A worker killed in a storm is replaced; its watchers come back, and nobody misses anything.

    The watchers of the other workers keep their connections.
    """
    with crewed(tmp_path) as server:
        async with weather(server.url) as storm:
            await storm.publisher().publish(LAST)
            await spread(storm, server)
            victim, *others = workers(server)
            orphans = connections(victim, int(server.url.rpartition(":")[2]))
            async with asyncio.TaskGroup() as group:
                group.create_task(storm.blow(60))
                await storm.book.until(80)
                os.kill(victim, signal.SIGKILL)
            await storm.settle()
            moved = [watcher for watcher in storm.watchers if watcher.connections > 1]
            assert 0 < len(moved) <= orphans
            await eventually(lambda: len(workers(server)) == WORKERS)
            assert set(others) < set(workers(server))
            server.printed("startup.worker.died")
            server.printed("startup.worker.started", times=WORKERS + 1)
            await storm.blow(10)
            await storm.settle()


async def test_supervisor_crash(tmp_path: Path) -> None:
    """Nothing outlives a supervisor that is killed, and the next one finds every notification."""
    with crewed(tmp_path) as server:
        family = descendants(server.process.pid)
        assert len(family) >= WORKERS + 1
        async with weather(server.url) as storm:
            await storm.blow(20)
            sent = dict(storm.book.sent)
            await storm.watch()
            server.signal(signal.SIGKILL)
            server.process.wait(NOTICED_S)
            await eventually(lambda: not any(map(alive, family)))
    with crewed(tmp_path) as server:
        async with weather(server.url) as storm:
            replay = await storm.watch(start=1, operation="replay")
            await replay.until_kind("end_of_stream")
            found = {
                event.data["sequence"]: event.data["data"]["identifier"]
                for event in replay.events
                if event.kind == "replay"
            }
            assert sorted(found) == sorted(sent) == list(range(1, 81))
            assert all(
                found[sequence] == {name: str(value) for name, value in sent[sequence].items()}
                for sequence in sent
            )
        server.signal(signal.SIGTERM)
        assert await asyncio.to_thread(server.wait, NOTICED_S) == 0
