"""Decoding what was read, in turns: a page may hold places of thousands of points each."""

import asyncio
from collections.abc import Sequence

from aviso_server.backends.jetstream.messages import (
    GEOMETRY,
    POINT_CLOUD,
    Stored,
    decode_wanted,
)
from aviso_server.core.filter import Filter
from aviso_server.core.notification import Entry
from aviso_server.core.schema import Schema

EVERYTHING = Filter()

TURN_BYTES = 48 * 1024
"""Of stored text that is decoded before others have their turn: a few milliseconds."""

MESSAGE_BYTES = 512
"""What any message counts for, however small it is."""


async def decode_in_turns(
    schema: Schema, messages: Sequence[Stored], wanted: Filter = EVERYTHING
) -> list[Entry]:
    """The entries that a filter may match, in order."""
    entries: list[Entry] = []
    left = TURN_BYTES
    for message in messages:
        entry = decode_wanted(schema, message, wanted)
        if entry is not None:
            entries.append(entry)
        left -= MESSAGE_BYTES + len(message.body)
        left -= len(message.headers.get(GEOMETRY, "")) + len(message.headers.get(POINT_CLOUD, ""))
        if left <= 0:
            left = TURN_BYTES
            await asyncio.sleep(0)
    return entries
