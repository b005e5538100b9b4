"""Metrics of a real server: one page for all workers, true whatever happens (decision 0008)."""

import asyncio
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest
from backends.jetstream.conftest import BRISK, eventually
from support.config import document, embedded, on_jetstream
from support.metrics import Page, counting, moved, page_url, scrape
from support.nats import NatsServer
from support.process import ServerProcess, server_process
from support.server import connected
from support.sse import opened

from aviso_server.core.json import Json

WORKERS = 2
BODY = {"event_type": "ev", "identifier": {"region": "n"}}


def page_address() -> tuple[str, int]:
    """A loopback address of this test process: ports of a configuration cannot be picked freely."""
    pid = os.getpid()
    return f"127.{1 + pid // 65025 % 250}.{1 + pid // 255 % 250}.{1 + pid % 250}", 9090


def crewed(folder: Path) -> tuple[dict[str, Json], str]:
    """A configuration with an embedded store and metrics, and where its page is."""
    host, port = page_address()
    metrics: dict[str, Json] = {"enabled": True, "host": host, "port": port}
    chosen = document({**embedded(folder / "store"), "metrics": metrics})
    return chosen, f"http://{host}:{port}/metrics"


async def publish(server: ServerProcess, count: int) -> int:
    """Send notifications, each on a connection of its own, so that every worker gets some.

    How many were stored; those that a dying worker took with it are sent again.
    """
    stored = 0
    while stored < count:
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.post(f"{server.url}/api/v1/notification", json=BODY) as response,
            ):
                assert response.status == 200
                stored += 1
        except (aiohttp.ClientConnectionError, aiohttp.ServerDisconnectedError):
            continue
    return stored


def successes(page: Page) -> float:
    """Notifications stored, as the page shows."""
    return page.value("aviso_notifications_total", event_type="ev", status="success")


async def until(url: str, condition: Callable[[Page], bool]) -> None:
    """Wait until the page says so."""

    async def agrees() -> bool:
        return condition(await scrape(url))

    await eventually(agrees)


def worker_pids(server: ServerProcess) -> list[int]:
    """The workers started so far, as the log shows."""
    # Not line by line: the lines of several processes may run into each other.
    found = re.findall(r'"startup\.worker\.started"[^{}]*?"pid":(\d+)', server.output)
    return [int(pid) for pid in found]


@pytest.mark.slow
async def test_one_page_for_all_workers(tmp_path: Path) -> None:
    """Totals are what was sent, whichever worker took it, and stay so after ``kill -9`` of one.

    Nothing was scraped between the last notification and the kill: what a worker counted is not
    lost with it. What it had open is.
    """
    chosen, url = crewed(tmp_path)
    with server_process(chosen, tmp_path, "--workers", str(WORKERS)) as server:
        sent = await publish(server, 40)
        page = await scrape(url)
        assert successes(page) == sent
        assert page.value("aviso_backend_connected", backend="jetstream") == 1
        labels = {"backend": "jetstream", "operation": "publish", "outcome": "ok"}
        name = "aviso_backend_operation_duration_seconds"
        assert page.value(f"{name}_count", **labels) == sent
        assert page.value(f"{name}_bucket", **labels, le="+Inf") == sent
        watch: dict[str, Json] = {"event_type": "ev", "identifier": {}}
        async with opened(f"{server.url}/api/v1/watch", watch) as stream:
            await stream.until("connection_established")
            await until(url, lambda page: page.total("aviso_sse_connections_active") == 1)
            sent += await publish(server, 20)
            before = await scrape(url)
            sent += await publish(server, 20)
            for pid in worker_pids(server):
                os.kill(pid, signal.SIGKILL)
            server.printed("startup.worker.died", times=WORKERS)
        after = await scrape(url)
        assert successes(after) == sent
        assert after.total("aviso_sse_connections_active") == 0
        assert (
            after.value("aviso_sse_connections_total", route="/api/v1/watch", event_type="ev") == 1
        )
        grown = after.growing()
        assert all(grown[key] >= value for key, value in before.growing().items())
        server.printed("startup.worker.started", times=2 * WORKERS)
        sent += await publish(server, 20)
        await until(url, lambda page: page.total("aviso_backend_connected") == 1)
        assert successes(await scrape(url)) == sent
        server.signal(signal.SIGTERM)
        assert await asyncio.to_thread(server.wait) == 0


async def test_the_connection_to_nats(own: NatsServer) -> None:
    """Whether NATS is there, how often it came back, and what failed meanwhile."""
    async with connected(counting(on_jetstream(own.url)), pace=BRISK) as client:
        url = page_url(client.running)
        await client.notify("ev", {"region": "n"})
        first = await scrape(url)
        assert first.value("aviso_backend_connected", backend="jetstream") == 1
        assert first.value("aviso_backend_reconnects_total", backend="jetstream") == 0
        await asyncio.to_thread(own.kill)
        await until(url, lambda page: page.total("aviso_backend_connected") == 0)
        before = await scrape(url)
        for path in ("watch", "notification"):
            async with client.session.post(
                f"{client.running.url}/api/v1/{path}", json=BODY
            ) as response:
                assert response.status == 500
        call = {"backend": "jetstream", "operation": "publish", "outcome": "error"}
        asked = {"route": "/api/v1/watch", "event_type": "ev"}
        assert (await scrape(url)).since(before).items() >= (
            moved("aviso_sse_connections_total", **asked)
            | moved("aviso_notifications_total", event_type="ev", status="error")
            | moved("aviso_backend_operations_total", **call)
        ).items()
        assert (await scrape(url)).total("aviso_sse_connections_active") == 0
        await asyncio.to_thread(own.start)
        await until(url, lambda page: page.total("aviso_backend_connected") == 1)
        assert (await scrape(url)).total("aviso_backend_reconnects_total") >= 1


async def test_tail_cache_of_a_server(own: NatsServer) -> None:
    """A reconnect is served from memory, and the page shows it."""
    async with connected(counting(on_jetstream(own.url)), pace=BRISK) as client:
        async with client.watch("ev", {}) as stream:
            await stream.until("connection_established")
            await client.notify("ev", {"region": "n"})
            await stream.until("live-notification")
        async with client.replay("ev", {}, from_id="1") as stream:
            await stream.rest()
        page = await scrape(page_url(client.running))
        assert page.value("aviso_history_reads_total", tier="memory") == 1
        assert page.value("aviso_history_reads_total", tier="log") == 0
