"""The archive behind the log: its contract, and what the two have together.

The log ends where history ends, the archive reaches back further, and in between the two overlap.
Where they do not, retention was quicker than the archive job, and something is lost.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from aviso_server.backends.backend import Backend, Bounds
from aviso_server.core.filter import Filter
from aviso_server.lake.bounds import Extent, Piece


class Archive(Protocol):
    """The cold past of all event types; ``lake.lake.Lake`` in a server. HistoryFailed if it fails.

    What a call sees is never older than what an earlier call of this process saw.
    """

    async def extent(self, event_type: str, *, fresh: bool = False) -> Extent:
        """What is archived, as last seen; ``fresh`` looks for what other processes did since."""
        ...

    async def read(
        self, event_type: str, first: int, last: int, *, limit: int, wanted: Filter | None = None
    ) -> Piece:
        """Up to ``limit`` visible entries of ``first..last``."""
        ...

    async def first_since(self, event_type: str, ns: int) -> int | None:
        """Lowest visible archived sequence at or after a storage time."""
        ...

    async def last_until(self, event_type: str, ns: int) -> int | None:
        """Highest visible archived sequence at or before a storage time."""
        ...

    async def hide(self, event_type: str, first: int, last: int, *, kind: str) -> None:
        """Hide a range for good, also what of it is archived later; durable on return."""
        ...

    async def event_types(self) -> Sequence[str]:
        """Every event type with archived notifications, visible or not."""
        ...


@dataclass(frozen=True, slots=True)
class Joined:
    """Log and archive as one past, for the part below the log."""

    bounds: Bounds
    """Of the log."""
    extent: Extent
    """Of the archive; decides what is lost only if looked at after the log."""

    @property
    def first(self) -> int:
        """Lowest sequence that either has; ``last + 1`` when neither has any."""
        archived = self.extent.first <= self.extent.through
        return min(self.extent.first, self.bounds.first) if archived else self.bounds.first

    @property
    def seen(self) -> Bounds:
        """The bounds of both. Nothing counts as lost here: what is, is told where it is."""
        return Bounds(self.first, self.bounds.last, 0, self.bounds.deleted)

    def skip(self, sequence: int) -> "Skip | None":
        """Where to go on if the archive has nothing from a sequence on; None if it may have."""
        if sequence < self.first:
            lost = any(last >= sequence and first < self.first for first, last in self._lost)
            return Skip(self.first, lost=lost)
        following = sequence
        for first, last in self._lost:
            if first <= following <= last:
                following = last + 1
        if following > self.extent.through:
            return Skip(self.bounds.first, lost=following > sequence)
        return Skip(following, lost=True) if following > sequence else None

    def reach(self, sequence: int) -> int:
        """The last sequence the archive can be read up to, from one that is not skipped."""
        ends = [first - 1 for first, _ in self._lost if first > sequence]
        return min(self.extent.through, self.bounds.first - 1, *ends)

    @property
    def _lost(self) -> tuple[tuple[int, int], ...]:
        """Inclusive ranges that nobody has and nobody removed, ascending."""
        ranges = [item for item in self.extent.lost if item[0] < self.bounds.first]
        if self.extent.through < self.bounds.lost:
            ranges.append((self.extent.through + 1, self.bounds.lost))
        return tuple(ranges)


@dataclass(frozen=True, slots=True)
class Skip:
    """A stretch without anything to read."""

    following: int
    """Where to go on."""
    lost: bool
    """Whether retention removed some of it before it was archived."""


async def behind(archive: Archive, log: Backend, event_types: Iterable[str]) -> int:
    """How many sequences of the log the archive does not have yet."""
    missing = 0
    for name in event_types:
        bounds, extent = await log.bounds(name), await archive.extent(name)
        missing += max(0, bounds.last - max(extent.through, bounds.first - 1))
    return missing
