"""Signals and ports of a server in its own process."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
import yaml
from support.config import document, settings
from support.process import ServerProcess, server_process
from support.sse import Stream, opened, sequences

from aviso_server.core.json import Json
from aviso_server.server.serve import FAREWELL_S, GRACE_S, serving

BOTH = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
STREAMS = pytest.mark.parametrize("endpoint", ["watch", "replay"])
BODY = b'{"event_type":"ev","identifier":{"region":"n"}}'
ALLOWED_S = 30
"""How long a shutdown may take, whatever clients do."""


async def publish(url: str, count: int, *, size: int = 1) -> None:
    """Publish notifications with payloads of ``size`` characters."""
    body = {"event_type": "ev", "identifier": {"region": "n"}, "payload": "x" * size}
    async with aiohttp.ClientSession() as session:
        for _ in range(count):
            async with session.post(f"{url}/api/v1/notification", json=body) as response:
                assert response.status == 200


class Stalled:
    """A client that sent a stream request and reads only when told to."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    def rest(self) -> bytes:
        """Read to the end."""
        pieces = []
        while piece := self.connection.recv(1 << 16):
            pieces.append(piece)
        return b"".join(pieces)


@asynccontextmanager
async def stalled(url: str, endpoint: str = "replay") -> AsyncIterator[Stalled]:
    """Ask for 10 MB of history and read nothing but the first bytes: the server has to wait."""
    await publish(url, 100, size=100_000)
    host, port = urlsplit(url).hostname, urlsplit(url).port
    body = json.dumps({"event_type": "ev", "identifier": {}, "from_id": "1"})
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(20)
        connection.connect((host, port))
        connection.sendall(
            f"POST /api/v1/{endpoint} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
            f"\r\n{body}".encode()
        )
        seen = b""
        # Once history begins to arrive its first batch, all 10 MB, is on its way.
        while b"event: replay\n" not in seen:
            seen += await asyncio.to_thread(connection.recv, 15)
        assert seen.startswith(b"HTTP/1.1 200 OK")
        yield Stalled(connection)


# Streams end with server_shutdown


@BOTH
async def test_during_live(number: signal.Signals, tmp_path: Path) -> None:
    """Every live watch is told, its body ends cleanly, and the server exits with 0."""
    watch = {"event_type": "ev", "identifier": {}}
    with server_process(document(), tmp_path) as server:
        url = f"{server.url}/api/v1/watch"
        async with opened(url, watch) as one, opened(url, watch) as two:
            for stream in (one, two):
                assert [e.kind for e in await stream.until("heartbeat")] == [
                    "connection_established",
                    "heartbeat",
                ]
            server.signal(number)
            for stream in (one, two):
                (closing,) = await stream.rest()
                assert closing.kind == "server_shutdown"
                assert closing.data["message"] == "Server is shutting down gracefully"
        assert server.wait(ALLOWED_S) == 0
        assert f"startup.signal.{number.name.lower()}.received" in server.output
        assert "startup.server.stopped" in server.output


@BOTH
@STREAMS
async def test_during_history(number: signal.Signals, endpoint: str, tmp_path: Path) -> None:
    """A long replay stops at a frame's end: neither the rest of it nor replay_completed follows."""
    slow: Mapping[str, Json] = {
        "watch_endpoint": {"replay_batch_size": 1, "replay_batch_delay_ms": 60_000}
    }
    request = {"event_type": "ev", "identifier": {}, "from_id": "1"}
    with server_process(document(slow), tmp_path) as server:
        await publish(server.url, 3)
        async with opened(f"{server.url}/api/v1/{endpoint}", request) as stream:
            seen = await stream.until("replay")
            server.signal(number)
            seen += await stream.rest()
        assert sequences(seen) == [1]
        assert [e.kind for e in seen if e.kind != "heartbeat"] == [
            "replay_started",
            "replay",
            "server_shutdown",
        ]
        assert server.wait(ALLOWED_S) == 0


@STREAMS
async def test_stalled_reader_returns(endpoint: str, tmp_path: Path) -> None:
    """A stalled reader that reads again is told too: the frame under way, then server_shutdown."""
    with server_process(document({"watch_endpoint": {"replay_batch_size": 5}}), tmp_path) as server:
        async with stalled(server.url, endpoint) as reader:
            server.signal(signal.SIGTERM)
            await asyncio.to_thread(server.printed, "startup.shutdown.received")
            body = await asyncio.to_thread(reader.rest)
        assert body.count(b"event: replay\n") < 100
        assert b"replay_completed" not in body
        assert b'"reason":"server_shutdown"' in body.split(b"event: ")[-1]
        assert body.endswith(b"\n\n\r\n0\r\n\r\n")
        assert server.wait(ALLOWED_S) == 0


async def test_stalled_reader_stays() -> None:
    """A reader that never reads again holds the shutdown up for the grace, not for ever."""
    async with asyncio.timeout(20):
        async with serving(settings(), grace_s=0.1) as running:
            reader = stalled(running.url)
            await reader.__aenter__()
        await reader.__aexit__(None, None, None)
    assert GRACE_S + 2 * FAREWELL_S < ALLOWED_S


@asynccontextmanager
async def unfinished(url: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A notify whose body (``BODY``) the server waits for."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    head = f"POST /api/v1/notification HTTP/1.1\r\nHost: x\r\nContent-Length: {len(BODY)}\r\n"
    # The server says 100 only when it waits for the body: the request has begun.
    writer.write(head.encode() + b"Expect: 100-continue\r\n\r\n")
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    yield reader, writer
    writer.close()


async def test_request_in_progress(tmp_path: Path) -> None:
    """A notify whose body is still on its way is answered before the server ends."""
    with server_process(document(), tmp_path) as server:
        async with unfinished(server.url) as (reader, writer):
            server.signal(signal.SIGTERM)
            await asyncio.to_thread(server.printed, "startup.shutdown.received")
            writer.write(BODY)
            answer = await asyncio.wait_for(reader.read(), 20)
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert b'"status":"success"' in answer
        assert server.wait(ALLOWED_S) == 0


async def test_shutdown_has_begun(tmp_path: Path) -> None:
    """While a shutdown waits: not ready, new streams are told at once, new clients are refused."""
    watch = {"event_type": "ev", "identifier": {}}
    with server_process(document(), tmp_path) as server:
        async with (
            unfinished(server.url) as (_, writer),
            aiohttp.ClientSession() as session,
            aiohttp.ClientSession() as watcher,
        ):
            for client in (session, watcher):
                async with client.get(f"{server.url}/ready") as response:
                    assert response.status == 200
            server.signal(signal.SIGTERM)
            await asyncio.to_thread(server.printed, "startup.shutdown.received")
            # Both still have their connection, for one more request.
            async with session.get(f"{server.url}/ready") as response:
                assert response.status == 503
                assert response.headers["Connection"] == "close"
                assert await response.text() == '{"status":"not_ready","backend_connected":true}'
            async with watcher.post(f"{server.url}/api/v1/watch", json=watch) as response:
                kinds = [event.kind for event in await Stream(response).rest()]
                assert kinds == ["connection_established", "server_shutdown"]
            with pytest.raises(aiohttp.ClientConnectionError):
                await publish(server.url, 1)
            writer.write(BODY)
        assert server.wait(ALLOWED_S) == 0


@BOTH
async def test_second_signal(number: signal.Signals, tmp_path: Path) -> None:
    """While the first signal waits for a stalled reader, a second one ends the process at once."""
    with server_process(document(), tmp_path) as server:
        async with stalled(server.url):
            server.signal(signal.SIGTERM)
            await asyncio.to_thread(server.printed, "startup.shutdown.received")
            server.signal(number)
            assert await asyncio.to_thread(server.wait, GRACE_S / 2) == 1


# Ports


async def test_port_zero(tmp_path: Path) -> None:
    """Port 0 takes a free port and prints it where clients and people find it."""
    with server_process(document(), tmp_path) as server:
        attributes = _started(server)
        assert attributes["port"] == urlsplit(server.url).port != 0
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{server.url}/health") as response,
        ):
            assert response.status == 200


def _started(server: ServerProcess) -> dict[str, Json]:
    (line,) = [line for line in server.output.splitlines() if "startup.server.started" in line]
    attributes: dict[str, Json] = json.loads(line)["attributes"]
    return attributes


def test_port_in_use(tmp_path: Path) -> None:
    """A taken port is a clear message with a way out and exit code 1, without a traceback."""
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(document()))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "aviso_server", "serve", f"--config={config}", f"--port={port}"],
            capture_output=True,
            text=True,
            timeout=ALLOWED_S,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == (
        f"aviso-server cannot start: cannot listen on 127.0.0.1:{port}: Address already in use. "
        "Choose another port with --port, or 0 for a free one.\n"
    )
