"""The lake below the log: what the relay asks of it, and what the two have together.

The log ends where history ends, the lake reaches back further, and in between the two overlap. If
they do not, retention outran the archive job, and something is lost.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from aviso_server.backends.backend import Backend, Bounds
from aviso_server.core.filter import Filter
from aviso_server.lake.bounds import LakeBatch, LakeBounds


class LakeTier(Protocol):
    """The cold past of all event types; ``lake.lake.Lake`` in a server. HistoryFailed if it fails.

    What a call sees is never older than what an earlier call of this process saw.
    """

    async def bounds(self, event_type: str, *, fresh: bool = False) -> LakeBounds:
        """What is archived, as last seen; ``fresh`` includes what other processes did since."""
        ...

    async def read(
        self, event_type: str, first: int, last: int, *, limit: int, wanted: Filter | None = None
    ) -> LakeBatch:
        """Up to ``limit`` visible entries of ``first..last``."""
        ...

    async def first_since(self, event_type: str, ns: int) -> int | None:
        """Lowest visible archived sequence at or after a storage time."""
        ...

    async def last_until(self, event_type: str, ns: int) -> int | None:
        """Highest visible archived sequence at or before a storage time."""
        ...

    async def hide(self, event_type: str, first: int, last: int, *, kind: str) -> None:
        """Hide a range for good, even what of it is archived later; durable on return."""
        ...

    async def event_types(self) -> Sequence[str]:
        """Every event type with archived notifications, visible or not."""
        ...


@dataclass(frozen=True, slots=True)
class Joined:
    """Log and lake as one past, for the part below the log."""

    log: Bounds
    lake: LakeBounds
    """Decides what is lost only if read after the log."""

    @property
    def first(self) -> int:
        """Lowest sequence that either has; ``last + 1`` when neither has any."""
        archived = self.lake.first <= self.lake.through
        return min(self.lake.first, self.log.first) if archived else self.log.first

    @property
    def seen(self) -> Bounds:
        """The bounds of both. Nothing counts as lost here: losses are reported where they are."""
        return Bounds(self.first, self.log.last, 0, self.log.deleted)

    def skip(self, sequence: int) -> "Skip | None":
        """Where to continue if the lake has nothing from a sequence on; None if it may have."""
        if sequence < self.first:
            lost = any(last >= sequence and first < self.first for first, last in self._lost)
            return Skip(self.first, lost=lost)
        following = sequence
        for first, last in self._lost:
            if first <= following <= last:
                following = last + 1
        if following > self.lake.through:
            return Skip(self.log.first, lost=following > sequence)
        return Skip(following, lost=True) if following > sequence else None

    def reach(self, sequence: int) -> int:
        """The last sequence the lake can be read up to, from one that is not skipped."""
        ends = [first - 1 for first, _ in self._lost if first > sequence]
        return min(self.lake.through, self.log.first - 1, *ends)

    @property
    def _lost(self) -> tuple[tuple[int, int], ...]:
        """Inclusive ranges that neither has and no one removed, ascending."""
        ranges = [item for item in self.lake.lost if item[0] < self.log.first]
        if self.lake.through < self.log.lost:
            ranges.append((self.lake.through + 1, self.log.lost))
        return tuple(ranges)


@dataclass(frozen=True, slots=True)
class Skip:
    """A range without anything to read."""

    following: int
    """Where to continue."""
    lost: bool
    """Whether retention removed some of it before it was archived."""


async def behind(lake: LakeTier, log: Backend, event_types: Iterable[str]) -> int:
    """How many sequences of the log the lake does not have yet."""
    missing = 0
    for name in event_types:
        kept, archived = await log.bounds(name), await lake.bounds(name)
        missing += max(0, kept.last - max(archived.through, kept.first - 1))
    return missing
