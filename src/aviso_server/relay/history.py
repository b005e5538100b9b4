"""The past of a stream as one thing to read, whichever tiers it is made of.

Rules
- Memory first, then the log, the lake only below the log. All three are joined by sequence.
- What is gone from the log was removed on purpose or is in the lake. It counts as lost only if the
  lake was read after the log: the archive job may have taken it in between.
- A reader sees every deletion made before it began, even by other processes. Its first read is
  ``fresh``; so is one that finds that the log begins later than before.

Theory of operation
The beginning of the log only moves up. The last one seen (``_Floor``) spares asking the log for
what it does not have; that it moved on meanwhile shows in the bounds that come with every read.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from cachetools import LRUCache

from aviso_server.backends.backend import Backend, Batch, Bounds
from aviso_server.core.filter import Filter
from aviso_server.relay.lake import Joined, LakeTier, Skip
from aviso_server.relay.recent import Recent
from aviso_server.telemetry.metrics import SILENT, Metrics

FLOORS = 1024
"""Event types whose beginning is remembered: clients make names up, so there is a bound."""


class History(Protocol):
    """Reading the past by sequence or by time; the duties are those stated at ``Backend``."""

    async def bounds(self, event_type: str) -> Bounds:
        """The bounds of the log; a read says where history begins below it."""
        ...

    def at_hand(self, event_type: str, first: int, last: int, *, limit: int) -> Batch | None:
        """The same as ``read`` where it costs nothing, from memory; else None."""
        ...

    async def read(
        self,
        event_type: str,
        first: int,
        last: int,
        *,
        limit: int,
        wanted: Filter | None = None,
        fresh: bool = False,
    ) -> Batch:
        """Up to ``limit`` entries of ``first..last``; others than ``wanted`` may be left out.

        ``fresh`` with the first read of a reader.
        """
        ...

    async def first_since(self, event_type: str, ns: int) -> int:
        """Lowest stored sequence at or after a storage time."""
        ...

    async def last_until(self, event_type: str, ns: int) -> int:
        """Highest stored sequence at or before a storage time."""
        ...


@dataclass(slots=True)
class _Floor:
    """Where the log of an event type begins, as last seen."""

    bounds: Bounds
    looked_below: int = 0
    """The lake was read when the log was already known to begin here."""


class Tiers:
    """The newest entries from memory, the others from the log, the oldest from the lake."""

    def __init__(
        self,
        log: Backend,
        recent: Callable[[str], Recent | None],
        *,
        lake: LakeTier | None = None,
        metrics: Metrics = SILENT,
    ) -> None:
        self._log = log
        self._recent = recent
        self._lake = lake
        self._metrics = metrics
        self._floors: LRUCache[str, _Floor] = LRUCache(FLOORS)

    async def bounds(self, event_type: str) -> Bounds:
        """The bounds of the log now; what is held in memory is checked against them."""
        bounds = await self._log.bounds(event_type)
        if (recent := self._recent(event_type)) is not None:
            recent.agree(bounds)
        self._note(event_type, bounds)
        return bounds

    def at_hand(self, event_type: str, first: int, last: int, *, limit: int) -> Batch | None:
        """A piece of what is held in memory, when that reaches back far enough."""
        recent = self._recent(event_type)
        if recent is None or not recent.first <= first <= recent.last:
            return None
        self._metrics.history_read("memory")
        return recent.read(first, min(last, recent.last), limit=limit)

    async def read(
        self,
        event_type: str,
        first: int,
        last: int,
        *,
        limit: int,
        wanted: Filter | None = None,
        fresh: bool = False,
    ) -> Batch:
        """From memory when it reaches back far enough, else from the log, else from the lake."""
        held = self.at_hand(event_type, first, last, limit=limit)
        if held is not None:
            return held
        recent = self._recent(event_type)
        if recent is not None and first < recent.first:
            last = min(last, recent.first - 1)
        lake, floor = self._lake, self._floors.get(event_type)
        if lake is None or floor is None or first >= floor.bounds.first:
            self._metrics.history_read("log")
            batch = await self._log.read(event_type, first, last, limit=limit, wanted=wanted)
            if lake is None or first >= batch.bounds.first:
                return batch
            # The log begins later. What it gave is asked for again when its turn comes.
            floor = self._note(event_type, batch.bounds)
        joined, skip = await self._below(lake, event_type, first, floor, fresh=fresh)
        if skip is not None:
            return Batch((), skip.following, joined.seen, missing=skip.lost)
        self._metrics.history_read("lake")
        last = min(last, joined.reach(first))
        piece = await lake.read(event_type, first, last, limit=limit, wanted=wanted)
        return Batch(piece.entries, piece.following, joined.seen)

    async def first_since(self, event_type: str, ns: int) -> int:
        """Lowest stored sequence at or after a storage time, in any tier."""
        found = await self._log.first_since(event_type, ns)
        if (lake := self._lake) is None:
            return found
        bounds = await self.bounds(event_type)
        if found > bounds.first:
            return found  # the log begins before that time, and all below is older still
        await lake.bounds(event_type, fresh=True)
        archived = await lake.first_since(event_type, ns)
        return found if archived is None else min(found, archived)

    async def last_until(self, event_type: str, ns: int) -> int:
        """Highest stored sequence at or before a storage time, in any tier."""
        found = await self._log.last_until(event_type, ns)
        if (lake := self._lake) is None:
            return found
        bounds = await self.bounds(event_type)
        if found >= bounds.first:
            return found
        below = await lake.bounds(event_type, fresh=True)
        archived = await lake.last_until(event_type, ns)
        return Joined(bounds, below).first - 1 if archived is None else archived

    async def _below(
        self, lake: LakeTier, event_type: str, first: int, floor: _Floor, *, fresh: bool
    ) -> tuple[Joined, Skip | None]:
        """What log and lake have together, for a sequence that the log does not have."""
        # The bounds of the log are older than the look at the lake, on purpose. The other way
        # round, what was archived and trimmed between the two looks would be in neither, and a
        # gap would be reported that is none.
        bounds = floor.bounds
        # This sequence left the log after the last look at the lake: that look says nothing of it.
        fresh = fresh or first >= floor.looked_below
        joined = Joined(bounds, await lake.bounds(event_type, fresh=fresh))
        skip = joined.skip(first)
        if not fresh and skip is not None and skip.following > joined.lake.through:
            # An old look at the lake says that it ends before this sequence. It may have grown
            # before the log was trimmed, so only a look that is younger than the bounds decides.
            fresh = True
            joined = Joined(bounds, await lake.bounds(event_type, fresh=True))
            skip = joined.skip(first)
        if fresh:
            # What lay below the log at this look is settled; only what leaves it later is not.
            floor.looked_below = max(floor.looked_below, bounds.first)
        return joined, skip

    def _note(self, event_type: str, bounds: Bounds) -> _Floor:
        """Remember where the log begins."""
        floor = self._floors.setdefault(event_type, _Floor(bounds))
        floor.bounds = bounds
        return floor


_: type[History] = Tiers
