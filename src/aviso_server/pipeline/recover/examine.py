"""What a log has that the lake does not, where the two contradict each other.

A log that was restored from an older copy begins as the archived one did and then differs. Its
older part needs no saving: the lake has it unchanged, or as deleted. What was stored after the
lake's last notification, and whatever the lake has otherwise, is only in the log.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import numpy as np

from aviso_server.backends.backend import Bounds
from aviso_server.backends.jetstream.connection import Connection
from aviso_server.backends.jetstream.history import MAX_BATCH, Reader
from aviso_server.backends.jetstream.messages import Stored, decode
from aviso_server.backends.jetstream.streams import inspect_stream
from aviso_server.core.mark import Mark
from aviso_server.core.notification import Entry, Record
from aviso_server.core.schema import Schema
from aviso_server.lake.layout import Place
from aviso_server.lake.snapshot import EventTypeSnapshot
from aviso_server.pipeline.history.files import reader
from aviso_server.pipeline.source.agreement import contradiction
from aviso_server.pipeline.source.log import SourceLog

Step = Callable[[int], None]
"""Progress: this many more sequences are compared."""


@dataclass(frozen=True, slots=True)
class Stand:
    """How log and lake stand to each other for one event type."""

    schema: Schema
    mark: Mark
    first: int
    last: int
    """Of the log; nothing is stored if ``last < first``."""
    why: str | None
    """How they contradict each other; None if they do not."""

    @property
    def empty(self) -> bool:
        """Whether the log holds nothing."""
        return self.last < self.first

    @property
    def continues(self) -> int:
        """The sequence at which the log has to continue: above all that were assigned."""
        return max(self.mark.through, self.last) + 1


async def stand_of(connection: Connection, log: SourceLog, schema: Schema, mark: Mark) -> Stand:
    """Compare ends and proof; nothing is read but the one notification at the mark."""
    found = await inspect_stream(connection, schema.stream)
    ends = Bounds(1, 0) if found is None else found[1].bounds
    schema = schema if found is None else found[1].layout.read_by(schema)
    why = await contradiction(log, schema.event_type, mark, ends)
    return Stand(schema, mark, ends.first, ends.last, why)


async def only_in_log(
    connection: Connection, place: Place, shelf: EventTypeSnapshot, stand: Stand, *, step: Step
) -> AsyncIterator[Stored]:
    """Every stored message that the lake does not have unchanged, ascending."""
    log, lake = Reader(connection), reader(place)
    position = stand.first
    while position <= stand.last:
        messages, following = await log.read(
            stand.schema.stream, position, stand.last, limit=MAX_BATCH
        )
        known: dict[int, Entry] = {}
        begin, end = position, min(following - 1, shelf.through)
        while begin <= end:
            piece = lake.read(shelf, begin, end, limit=MAX_BATCH, wanted=None)
            known |= {entry.sequence: entry for entry in piece.entries}
            begin = piece.following
        for message in messages:
            if not _archived(stand, shelf, message, known.get(message.sequence)):
                yield message
        step(following - position)
        position = following


def _archived(stand: Stand, shelf: EventTypeSnapshot, message: Stored, known: Entry | None) -> bool:
    """Whether the lake has this very message, or has it as deleted."""
    if message.sequence > stand.mark.through:
        return False
    if known is None:
        # Deleted on purpose; but what is younger than the lake took a number that was taken.
        deleted = bool(shelf.hidden.mask(np.array([message.sequence]))[0])
        return deleted and message.time_ns <= stand.mark.time_ns
    entry = decode(stand.schema, message)
    if known.stored_at_ns != entry.stored_at_ns:
        return False
    same = isinstance(known, Record) and isinstance(entry, Record)
    return not same or known == entry
