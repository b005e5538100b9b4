"""What the source asks of a transport: the log of every event type, read by sequence.

A ``SourceLog`` is open between ``async with``; questions may be asked side by side. Both transports
keep these promises, and tests compare their answers (tests/pipeline/source/test_http.py).
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from aviso_server.backends.backend import Bounds
from aviso_server.core.notification import Entry
from aviso_server.core.schema import Schema
from aviso_server.pipeline.source.ranges import Range


@dataclass(frozen=True, slots=True)
class LogBatch:
    """A piece of a range, as read."""

    entries: Sequence[Entry]
    """Those asked for, ascending; holes are absent."""
    following: int
    """Every sequence of the range below it has been considered."""
    lost: Sequence[tuple[int, int]] = ()
    """What retention had removed, both ends included, ascending and below ``following``."""
    raw: Mapping[int, bytes] = field(default_factory=dict)
    """By sequence, the stored form of entries that could not be decoded, where it is known."""
    size: int = 0
    """About how many bytes the entries take."""


class SourceLog(Protocol):
    """The notifications behind one transport."""

    topics: bool
    """Whether entries have their topic."""

    async def event_types(self) -> Sequence[str]:
        """Every event type there is, in name order."""
        ...

    async def schema(self, event_type: str) -> Schema:
        """How its notifications are read; a generic one if it is not declared."""
        ...

    async def bounds(self, event_type: str) -> Bounds:
        """Where its stream begins and ends now; ``Bounds(1, 0)`` without a stream."""
        ...

    async def since(self, event_type: str, ns: int) -> int:
        """A sequence at which everything asked for and stored since a time begins."""
        ...

    async def until(self, event_type: str, ns: int) -> int:
        """The last sequence stored at or before a time; below the first if there is none."""
        ...

    def read(self, wanted: Range) -> AsyncGenerator[LogBatch, None]:
        """The range, in parts; each asked for, each once. Raises SourceError, never DataLost."""
        ...
