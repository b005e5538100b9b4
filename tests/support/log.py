"""Filling a real log for those who read it, and reading it the plain way to compare."""

import random
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from backends.jetstream.conftest import backend_with, brisk
from support.config import settings

from aviso_server.backends.jetstream.backend import JetStreamBackend
from aviso_server.core.announcement import notification_of
from aviso_server.core.json import Json, compact
from aviso_server.core.notification import Entry, Notification
from aviso_server.core.wire import parse_request

SCHEMAS: dict[str, Json] = {
    "storm": {
        "topic": {"base": "storm", "key_order": ["region", "level"]},
        "identifier": {
            "region": {"type": "StringHandler", "required": True},
            "level": {"type": "IntHandler", "required": False, "range": [0, 100]},
        },
    },
    "flood": {
        "topic": {"base": "flood", "key_order": ["region"]},
        "identifier": {
            "region": {"type": "StringHandler", "required": True},
            "polygon": {"type": "PolygonHandler", "required": False},
        },
    },
}


CATALOGUE = settings(schemas=SCHEMAS).catalogue


def announced(event_type: str, number: int, *, seed: int = 0) -> Notification:
    """A notification that follows from its number: places, odd characters and payloads included."""
    draw = random.Random(f"{event_type}{number}{seed}")
    identifier: dict[str, Json] = {"region": draw.choice(["north", "so.uth", "été", "a b"])}
    if event_type == "storm":
        identifier["level"] = draw.randrange(100)
    else:
        lat, lon = draw.uniform(-80, 80), draw.uniform(-170, 170)
        identifier["polygon"] = [[lat, lon], [lat + 1, lon], [lat, lon + 1], [lat, lon]]
    payloads: list[Json] = [None, {"n": number, "text": "ü" * draw.randrange(5)}, "plain"]
    payload = draw.choice(payloads)
    return made({"event_type": event_type, "identifier": identifier, "payload": payload})


def made(body: Json) -> Notification:
    """The notification of a request body."""
    request = parse_request(compact(body))
    schema = CATALOGUE.schemas[request.event_type]
    return notification_of(schema, request)


def log_at(url: str) -> AbstractAsyncContextManager[JetStreamBackend]:
    """The log of a NATS server, to write to and to read from."""
    return backend_with(brisk(url), CATALOGUE)


async def fill(backend: JetStreamBackend, event_type: str, numbers: Sequence[int]) -> None:
    """Store notifications, in order."""
    for number in numbers:
        await backend.append(announced(event_type, number), key=f"{event_type}{number}")


async def everything(backend: JetStreamBackend, event_type: str) -> list[Entry]:
    """All the log has of an event type."""
    bounds = await backend.bounds(event_type)
    entries: list[Entry] = []
    position = bounds.first
    while position <= bounds.last:
        batch = await backend.read(event_type, position, bounds.last, limit=500)
        entries += batch.entries
        position = batch.following
    return entries
