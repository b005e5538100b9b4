"""SIGHUP on a server in its own process: certificates, log level, event types, refusals."""

import asyncio
import re
import signal
import ssl
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from support.certificates import Authority
from support.config import SCHEMAS, document, embedded
from support.process import ServerProcess, server_process
from support.sse import opened

from aviso_server.core.json import Json

BODY: dict[str, Any] = {"event_type": "ev", "identifier": {"region": "n"}}
RELOADED = "configuration.reload.succeeded"
REFUSED = "configuration.reload.refused"


def grown(raw: dict[str, Json]) -> dict[str, Json]:
    """The configuration with one more event type, called ``fresh``."""
    more: Any = deepcopy(raw)
    more["notification_schema"]["fresh"] = deepcopy(SCHEMAS["ev"])
    more["notification_schema"]["fresh"]["topic"]["base"] = "fresh"
    return dict(more)


def rewrite(folder: Path, raw: dict[str, Json]) -> None:
    """Change the file the server was started with."""
    (folder / "config.yaml").write_text(yaml.safe_dump(raw))


async def reload(server: ServerProcess, said: str, *, times: int = 1) -> None:
    """Ask for it, and wait until the log has an outcome."""
    server.signal(signal.SIGHUP)
    await asyncio.to_thread(server.printed, said, times=times)


async def notify(url: str, event_type: str) -> int:
    """Publish; the status."""
    body = {**BODY, "event_type": event_type}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/api/v1/notification", json=body) as answer,
    ):
        return answer.status


async def test_event_types_and_level(tmp_path: Path) -> None:
    """They count at once; an open stream goes on; the server still ends in order."""
    raw = document()
    with server_process(raw, tmp_path) as server:
        url = server.url
        async with opened(f"{url}/api/v1/watch", {"event_type": "ev", "identifier": {}}) as stream:
            await stream.until("heartbeat")
            assert await notify(url, "fresh") == 400
            rewrite(tmp_path, {**grown(raw), "logging": {"level": "error"}})
            server.signal(signal.SIGHUP)
            async with asyncio.timeout(20):
                while await notify(url, "fresh") != 200:
                    pass
            assert await notify(url, "ev") == 200
            await stream.until("live-notification")
        assert "api.notification.processed" not in server.output
        rewrite(tmp_path, grown(raw))
        await reload(server, RELOADED)
        assert await notify(url, "fresh") == 200
        await asyncio.to_thread(server.printed, "api.notification.processed")
        server.signal(signal.SIGTERM)
        assert await asyncio.to_thread(server.wait) == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"application": {"host": "127.0.0.1", "port": 0, "base_url": "http://x"}}, "base_url"),
        ({"watch_endpoint": {"replay_batch_size": 0}}, "replay_batch_size"),
        ({"notification_backend": {}}, "notification_backend.kind"),
    ],
)
async def test_refused_configurations(change: dict[str, Json], reason: str, tmp_path: Path) -> None:
    """Unsafe or faulty: the log says why, nothing changes, and the next good one is taken."""
    raw = document()
    with server_process(raw, tmp_path) as server:
        rewrite(tmp_path, {**grown(raw), **change})
        await reload(server, REFUSED)
        assert reason in next(line for line in server.output.splitlines() if REFUSED in line)
        assert await notify(server.url, "fresh") == 400
        rewrite(tmp_path, grown(raw))
        await reload(server, RELOADED)
        assert await notify(server.url, "fresh") == 200


async def _serial(url: str, context: ssl.SSLContext) -> str:
    host, _, port = url.removeprefix("https://").partition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    certificate = writer.get_extra_info("peercert")
    writer.close()
    return str(certificate["serialNumber"])


async def test_certificates(tmp_path: Path) -> None:
    """Renewed files are used after the signal; broken ones leave the old certificate in place."""
    authority = Authority(tmp_path)
    pair = authority.sign("server")
    context = authority.trusting()
    tls: dict[str, Json] = {"certificate": str(pair.certificate), "key": str(pair.key)}
    with server_process(document({"application": {"tls": tls}}), tmp_path) as server:
        assert server.url.startswith("https://")
        first = await _serial(server.url, context)
        authority.sign("server")
        assert await _serial(server.url, context) == first
        await reload(server, RELOADED)
        second = await _serial(server.url, context)
        assert second != first
        pair.key.write_text("nonsense")
        await reload(server, REFUSED)
        assert await _serial(server.url, context) == second


@pytest.mark.slow
async def test_workers(tmp_path: Path) -> None:
    """The supervisor decides once and informs every worker; a refusal reaches none of them."""
    raw = document(embedded(tmp_path / "nats"))
    with server_process(raw, tmp_path, "--workers", "2") as server:
        url = server.url
        rewrite(tmp_path, {**grown(raw), "watch_endpoint": {"replay_batch_size": 7}})
        await reload(server, REFUSED)
        rewrite(tmp_path, grown(raw))
        await reload(server, RELOADED, times=3)
        # Each request is a connection of its own, so both workers are asked.
        assert [await notify(url, "fresh") for _ in range(12)] == [200] * 12
        assert server.output.count(REFUSED) == 1
        assert "startup.worker.died" not in server.output
        server.signal(signal.SIGTERM)
        assert await asyncio.to_thread(server.wait) == 0


def test_a_signal_during_start_up_is_not_the_end(tmp_path: Path) -> None:
    """A server that is still starting survives being asked to reload."""
    rewrite(tmp_path, document())
    command = [sys.executable, "-m", "aviso_server", "serve"]
    with subprocess.Popen(
        [*command, "--config", str(tmp_path / "config.yaml")], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            while not _ignores_hangup(server.pid):
                assert server.poll() is None
            server.send_signal(signal.SIGHUP)
            assert any("startup.server.started" in line for line in server.stdout)
        finally:
            server.kill()


def _ignores_hangup(pid: int) -> bool:
    """Whether a process has already said that it does not mind SIGHUP."""
    found = re.search(r"SigIgn:\s*([0-9a-f]+)", Path(f"/proc/{pid}/status").read_text())
    return found is not None and bool(int(found[1], 16) & (1 << (signal.SIGHUP - 1)))
