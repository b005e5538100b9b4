"""Whether a stream continues where the lake ends; checked before its first use on a connection.

Three outcomes: they agree; they do not, and the stream is refused with the reason; or the lake
cannot be read. Then the stream is refused too, unless its mark was read before: marks only grow, so
an older one still rules out most of what can be wrong.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import structlog

from aviso_server.backends.jetstream.configuration import StreamState
from aviso_server.backends.jetstream.connection import Connection
from aviso_server.backends.jetstream.history import Reader
from aviso_server.core.errors import HistoryFailed, SetupFailed
from aviso_server.core.mark import UNMARKED, Mark, Neighbour, disagreement, remedy
from aviso_server.core.schema import Schema

MarkReader: TypeAlias = Callable[[str], Awaitable[Mark]]
"""Gives the mark of an event type, or HistoryFailed where the lake cannot be read."""


class Disagreement(SetupFailed):
    """Log and lake contradict each other; nothing is stored until that is settled."""


class Agreement:
    """Compares the streams of a connection with the lake; without one they always agree."""

    def __init__(self, connection: Connection, marks: MarkReader | None = None) -> None:
        self._connection = connection
        self._marks = marks
        self._known: dict[str, Mark] = {}
        self._reported: dict[str, str] = {}
        """By event type: the contradiction already logged; it is found again and again until it is
        resolved."""

    async def mark(self, event_type: str) -> Mark:
        """How far an event type is archived; SetupFailed if unknown."""
        if self._marks is None:
            return UNMARKED
        try:
            found = await self._marks(event_type)
        except HistoryFailed as error:
            known = self._known.get(event_type)
            if known is None:
                raise SetupFailed(
                    f"Cannot verify that the log of '{event_type}' continues where the lake ends: "
                    f"{error.details}"
                ) from error
            return known
        self._known[event_type] = found
        return found

    async def check(self, schema: Schema, held: StreamState, mark: Mark) -> None:
        """Disagreement unless the stream can be the one that was archived."""
        empty = held.first > held.last
        neighbour = None
        if mark.record and not empty and held.first <= mark.record <= held.last:
            reader = Reader(self._connection)
            found = await reader.last_until_sequence(schema.stream, mark.record, held.first)
            neighbour = None if found is None else Neighbour(found.sequence, found.time_ns)
        why = disagreement(mark, last=held.last, empty=empty, neighbour=neighbour)
        if why is None:
            self._reported.pop(schema.event_type, None)
            return
        if self._reported.get(schema.event_type) != why:
            self._reported[schema.event_type] = why
            structlog.get_logger().error(
                "Log and lake disagree, nothing is stored",
                event_name="backend.jetstream.stream.lake.disagrees",
                stream_name=schema.stream,
                event_type=schema.event_type,
                reason=why,
                log_last=held.last,
                lake_through=mark.through,
            )
        raise Disagreement(f"'{schema.event_type}': {why}: {remedy(schema.event_type)}")
