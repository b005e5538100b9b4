"""What operators do to a log and a lake: copy them, put copies back, lose them."""

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backends.jetstream.conftest import BRISK
from support.config import on_jetstream, settings
from support.lake import filled
from support.nats import NatsServer
from support.server import Client, connected
from support.sse import sequences

from aviso_server.core.json import Json
from aviso_server.core.notification import Record
from aviso_server.lake.layout import NOTIFICATIONS, Place
from aviso_server.lake.marks import read_mark
from aviso_server.lake.table import find
from aviso_server.server.build import open_backend
from aviso_server.settings import Settings

SCHEMAS: dict[str, Json] = {
    "alert": {
        "topic": {"base": "alert", "key_order": ["region"]},
        "identifier": {
            "region": {"type": "StringHandler", "required": True},
            "note": {"type": "StringHandler", "required": True},
            "polygon": {"type": "PolygonHandler", "required": True},
        },
    }
}
"""Required fields, an odd text outside the topic, and a place."""

HERE = "(0,0,0,5,5,5,0,0)"
OLD: list[Json] = [f"old-{n}" for n in range(1, 11)]
"""What the lake has in the end."""

ALL: Mapping[str, Any] = {"region": "no.rth", "note": "\u00a0é", "polygon": HERE}


def chosen(store: NatsServer, lake: Path | None, **jetstream: Json) -> Settings:
    """A server on a NATS server of the test's own, with a lake or without."""
    kept: dict[str, Json] = {} if lake is None else {"lake": {"path": str(lake)}}
    return settings({**on_jetstream(store.url, **jetstream), **kept}, schemas=SCHEMAS)


async def announce(client: Client, *payloads: Json) -> list[int]:
    """Publish; the sequences given."""
    return [(await client.notify("alert", ALL, payload=p))["sequence"] for p in payloads]


async def payloads(client: Client, **window: str) -> list[Json]:
    """The payloads of a replay from the beginning."""
    async with client.replay("alert", ALL, **{"from_id": "1", **window}) as stream:
        events = await stream.rest()
    assert [event.kind for event in events][-2:] == ["replay_completed", "end_of_stream"]
    found = [event for event in events if event.kind == "replay"]
    assert sequences(found) == sorted(set(sequences(found)))
    return [event.data["data"]["payload"] for event in found]


async def archive(of: Settings, event_type: str = "alert", *, last: int | None = None) -> int:
    """Archive what the log has, up to a sequence, as far as commits go; the mark."""
    place = Place(of.lake.path or "")
    backend = await open_backend(of)
    try:
        through = last or (await backend.bounds(event_type)).last
        done = await asyncio.to_thread(lambda: read_mark(find(place, NOTIFICATIONS), event_type))
        batch = await backend.read(event_type, done.through + 1, through, limit=1000)
        rows = [entry for entry in batch.entries if isinstance(entry, Record)]
        await asyncio.to_thread(filled, place, rows, marks={event_type: through})
        return through
    finally:
        await backend.close()


def copy(store: NatsServer) -> Path:
    """A cold copy of a log."""
    running = store.running
    store.stop()
    target = store.folder / "copy"
    shutil.copytree(store.folder / "store", target)
    if running:
        store.start()
    return target


def put_back(store: NatsServer, kept: Path) -> None:
    """Replace a log by its copy."""
    lose(store, start=False)
    shutil.copytree(kept, store.folder / "store")
    store.start()


def lose(store: NatsServer, *, start: bool = True) -> None:
    """Remove a log altogether."""
    store.stop()
    shutil.rmtree(store.folder / "store")
    if start:
        store.start()


async def older_log(store: NatsServer, lake: Path) -> None:
    """A log that ends at 5 beside a lake that has all ten."""
    async with connected(chosen(store, lake), pace=BRISK) as client:
        await announce(client, *OLD[:5])
    kept = copy(store)
    async with connected(chosen(store, lake), pace=BRISK) as client:
        assert await announce(client, *OLD[5:]) == [6, 7, 8, 9, 10]
    await archive(chosen(store, lake))
    put_back(store, kept)
