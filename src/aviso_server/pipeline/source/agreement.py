"""Whether the log continues where the lake ends, for jobs that read both (core/mark.py)."""

from collections.abc import Mapping

from aviso_server.backends.backend import Bounds
from aviso_server.core.errors import AvisoError
from aviso_server.core.mark import Mark, Neighbour, disagreement, remedy
from aviso_server.pipeline.source.log import SourceLog
from aviso_server.pipeline.source.ranges import Range

NEAR = 256
"""How far below the mark a neighbour is searched for, in sequences."""


class LogReplaced(AvisoError):
    """The log is not the one that the lake has; the message says what to do."""

    @classmethod
    def of(cls, event_type: str, why: str) -> "LogReplaced":
        """The error for an event type."""
        return cls(f"'{event_type}': {why}: {remedy(event_type)}")


async def check_agreement(log: SourceLog, marks: Mapping[str, Mark]) -> None:
    """LogReplaced for the first event type whose log cannot be the one that was archived."""
    for name, mark in sorted(marks.items()):
        if mark.through:
            ends = await log.bounds(name)
            why = await contradiction(log, name, mark, ends)
            if why is not None:
                raise LogReplaced.of(name, why)


async def contradiction(log: SourceLog, event_type: str, mark: Mark, ends: Bounds) -> str | None:
    """Why an event type's log cannot be the one that was archived; None if it can."""
    empty = ends.first > ends.last
    neighbour = None
    if mark.record and not empty and ends.first <= mark.record <= ends.last:
        neighbour = await _neighbour(log, event_type, mark.record, ends.first)
    return disagreement(mark, last=ends.last, empty=empty, neighbour=neighbour)


async def _neighbour(log: SourceLog, event_type: str, record: int, first: int) -> Neighbour | None:
    """What the log has at a sequence, or nearest below it."""
    for begin in (record, max(first, record - NEAR)):
        found: Neighbour | None = None
        async for part in log.read(Range(event_type, begin, record)):
            for entry in part.entries:
                found = Neighbour(entry.sequence, entry.stored_at_ns)
        if found is not None:
            return found
    return None
