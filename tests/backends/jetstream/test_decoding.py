"""Decoding a page lets others have their turn, and changes nothing about what is read."""

import asyncio

from support.config import settings

from aviso_server.backends.jetstream.answers import read_fields
from aviso_server.backends.jetstream.decoding import TURN_BYTES, decode_in_turns
from aviso_server.backends.jetstream.messages import Stored, decode, encode
from aviso_server.core.announcement import notification_of
from aviso_server.core.json import Json
from aviso_server.core.wire import NotificationRequest

SCHEMA = settings().catalogue.schemas["area"]
POINTS = 2000


def stored(sequence: int) -> Stored:
    """A message with a large area."""
    ring: list[Json] = [[n / 100, (n * 7 % 1000) / 10] for n in range(POINTS)]
    request = NotificationRequest(
        event_type="area", identifier={"date": "20260101", "polygon": [*ring, ring[0]]}
    )
    message = encode(SCHEMA, notification_of(SCHEMA, request), f"k{sequence}")
    return Stored(sequence, sequence, message.subject, read_fields(message.head), message.body)


async def test_others_have_their_turn() -> None:
    """A page of large areas is decoded in as many turns as its size asks for, in order."""
    message = stored(1)
    page = [Stored(n, n, message.subject, message.headers, message.body) for n in range(1, 41)]
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    await asyncio.sleep(0)
    found = await decode_in_turns(SCHEMA, page)
    counting.cancel()
    assert found == [decode(SCHEMA, item) for item in page]
    size = len(page) * len(message.headers["spatial_geometry"])
    assert turns > size // TURN_BYTES // 2 > 5
