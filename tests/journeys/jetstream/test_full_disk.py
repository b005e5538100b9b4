"""A full disk and a full store: quick answers with the reason, and nothing to do but make room."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from backends.jetstream.conftest import BRISK, eventually
from support.config import SCHEMAS, document, settings
from support.disk import forbid_growth, largest_file, small_disk
from support.jetstream import ready
from support.journal import Journal, recorded
from support.process import server_process
from support.server import connected
from support.storm import FILTERS, LAST, SCHEMA, Weather, weather

from aviso_server.core.json import Json

pytestmark = pytest.mark.slow


EVENT_TYPES: dict[str, Json] = {"storm": SCHEMA, "ev": SCHEMAS["ev"]}


def section(store: Path, **jetstream: Json) -> dict[str, Json]:
    """A NATS server of our own in a folder."""
    quick: dict[str, Json] = {"reconnect_delay_ms": 100, "publish_retry_base_delay_ms": 10}
    return {"embedded": True, "store_dir": str(store), **quick, **jetstream}


def sections(jetstream: dict[str, Json]) -> dict[str, Json]:
    """What the configuration has besides the event types."""
    return {
        "notification_backend": {"kind": "jetstream", "jetstream": jetstream},
        "watch_endpoint": {"sse_heartbeat_interval_sec": 1},
    }


@asynccontextmanager
async def embedded(store: Path, **jetstream: Json) -> AsyncIterator[Weather]:
    """A server with a NATS of its own in a folder, and a storm to send over it."""
    chosen = settings(sections(section(store, **jetstream)), schemas=EVENT_TYPES)
    async with connected(chosen, pace=BRISK) as server, weather(server.running.url) as made:
        yield made


async def asked(storm: Weather, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
    """The answer to one notify, or to ``/ready?details``; a refusal names when to come back."""
    async with aiohttp.ClientSession() as session:
        if body is None:
            request = session.get(f"{storm.url}/ready?details")
        else:
            request = session.post(f"{storm.url}/api/v1/notification", json=body)
        async with request as response:
            if response.status == 500:
                assert response.headers["Retry-After"] == "5"
            return response.status, await response.json()


async def refuses(storm: Weather, reason: str, text: str) -> None:
    """Notifications are refused with the reason, again and again without a wait; so is traffic."""
    body = {"event_type": "ev", "identifier": {"region": "n"}, "payload": "x" * 4000}

    async def refused() -> bool:
        return (await asked(storm, body))[0] == 500

    await eventually(refused)
    # Waiting for an acknowledgement would take two seconds each.
    async with asyncio.timeout(30):
        for _ in range(40):
            status, answer = await asked(storm, body)
            assert (status, answer["code"]) == (500, "NOTIFICATION_STORAGE_FAILED")
            assert text in answer["details"]
    status, answer = await asked(storm)
    assert (status, answer["status"], answer["backend_connected"]) == (503, "not_ready", True)
    assert answer["fault"]["reason"] == reason
    assert text in answer["fault"]["message"]


async def survives(storm: Weather) -> None:
    """Everything acknowledged reached every watcher once, over one connection, and is kept."""
    await storm.settle()
    for watcher in storm.watchers:
        assert watcher.connections == 1
    past = await storm.watch(start=1)
    await past.until_sequence(storm.book.last)
    past.check()


def healed(journal: Journal, cause: str) -> None:
    """The log has NATS's own words and says what was done about them."""
    words = [record["error"] for record in journal.all("backend.jetstream.embedded.error")]
    assert any(cause in text for text in words), words
    assert len(words) <= 10, "a full disk must not fill the log"
    assert journal.all("backend.jetstream.embedded.restarted")
    assert journal.all("backend.jetstream.store.failing")


async def test_a_full_disk_heals_when_there_is_space(tmp_path: Path) -> None:
    """Real ENOSPC during a storm; nothing acknowledged is lost and nobody restarts anything."""
    with small_disk(tmp_path / "disk", 24) as disk, recorded() as journal:
        async with embedded(disk.folder / "nats", max_store="1Gi") as storm:
            await storm.publisher().publish(LAST)
            for wanted in FILTERS[:2]:
                await storm.watch(wanted)
            async with asyncio.TaskGroup() as group:
                storming = group.create_task(storm.blow(40))
                await storm.book.until(40)
                disk.fill()
                await refuses(storm, "write_failed", "cannot write: no space left on device")
                assert not storming.done()
                disk.clear()
                await ready(storm.url, expected=True)
            await survives(storm)
    healed(journal, "no space left on device")


async def test_workers_heal_too(tmp_path: Path) -> None:
    """The NATS server is the supervisor's; its workers find the reason and the end of it."""
    with small_disk(tmp_path / "disk", 24) as disk:
        jetstream = section(disk.folder / "nats", max_store="1Gi")
        raw = document(sections(jetstream), schemas=EVENT_TYPES)
        with server_process(raw, tmp_path, "--workers", "2") as server:
            async with weather(server.url) as storm:
                await storm.publisher().publish(LAST)
                await storm.watch()
                disk.fill()
                await refuses(storm, "write_failed", "cannot write: no space left on device")
                disk.clear()
                await storm.blow(10)
                await survives(storm)
                await ready(storm.url, expected=True)
            server.printed("backend.jetstream.embedded.error")
            server.printed("backend.jetstream.embedded.restarted")


async def test_a_write_error_heals(tmp_path: Path) -> None:
    """The same without a file system to fill: NATS may not write on, the disk itself could."""
    with recorded() as journal:
        async with embedded(tmp_path / "nats") as storm:
            await storm.blow(10)
            await storm.watch()
            pid = int((tmp_path / "nats" / "nats.pid").read_text())
            undo = forbid_growth(pid, largest_file(tmp_path / "nats" / "store") + 2000)
            await storm.blow(40)  # each is sent until it is stored
            assert storm.book.refused > 0
            undo()
            await ready(storm.url, expected=True)
            await survives(storm)
    healed(journal, "file too large")


async def test_a_full_store_says_so(tmp_path: Path) -> None:
    """At the limit: warned of before, refused in words; room makes it ready again."""
    with recorded() as journal:
        async with embedded(tmp_path / "nats", max_store="256Ki") as storm:
            await refuses(storm, "store_full", "the store of the embedded NATS is full (limit 256")
            await journal.seen("backend.jetstream.store.filling")
            url = f"{storm.url}/api/v1/overview"
            async with aiohttp.ClientSession() as session, session.get(url) as response:
                shown = (await response.json())["backend"]
            assert shown["fault"]["reason"] == "store_full"
            assert shown["store"]["limit_bytes"] == 256 * 1024
            assert shown["store"]["stored_bytes"] > 0.8 * 256 * 1024
            assert shown["store"]["free_bytes"] > 0
            await storm.wipe("ev")
            # Nobody publishes meanwhile: load balancers send nothing to a server that is not ready.
            await ready(storm.url, expected=True)
            await storm.publisher().publish(LAST)
    (started,) = journal.all("backend.jetstream.embedded.started")
    assert (started["max_store"], started["limited_by"]) == ("256.0 KiB", "setting")
    assert len(journal.all("backend.jetstream.store.filling")) == 1
    assert not journal.all("backend.jetstream.embedded.restarted")
