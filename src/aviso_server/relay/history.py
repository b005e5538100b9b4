"""The past of a stream as one thing to read, whichever tiers it is made of (design.md 2).

A backend is itself a ``History``. ``Tiers`` puts the newest part, which the hub keeps in memory,
in front of it: reconnects and short replays then never touch the store. The lake joins behind.
"""

from collections.abc import Callable
from typing import Protocol

from aviso_server.backends.backend import Batch, Bounds
from aviso_server.relay.recent import Recent
from aviso_server.telemetry.metrics import SILENT, Metrics


class History(Protocol):
    """Reading the past by sequence or by time; the duties are those stated at ``Backend``."""

    async def bounds(self, event_type: str) -> Bounds:
        """The bounds now."""
        ...

    async def read(self, event_type: str, first: int, last: int, *, limit: int) -> Batch:
        """Up to ``limit`` entries of ``first..last``."""
        ...

    async def first_since(self, event_type: str, ns: int) -> int:
        """Lowest stored sequence at or after a storage time."""
        ...

    async def last_until(self, event_type: str, ns: int) -> int:
        """Highest stored sequence at or before a storage time."""
        ...


class Tiers:
    """The newest entries from memory, the others from the store, joined by sequence."""

    def __init__(
        self,
        store: History,
        recent: Callable[[str], Recent | None],
        *,
        metrics: Metrics = SILENT,
    ) -> None:
        self._store = store
        self._recent = recent
        self._metrics = metrics

    async def bounds(self, event_type: str) -> Bounds:
        """The bounds now; what is held in memory is checked against them."""
        bounds = await self._store.bounds(event_type)
        if (recent := self._recent(event_type)) is not None:
            recent.agree(bounds)
        return bounds

    async def read(self, event_type: str, first: int, last: int, *, limit: int) -> Batch:
        """From memory when it reaches back far enough, else from the store up to there."""
        recent = self._recent(event_type)
        if recent is not None and recent.first <= first <= recent.last:
            self._metrics.history_read("memory")
            return recent.read(first, min(last, recent.last), limit=limit)
        if recent is not None and first < recent.first:
            last = min(last, recent.first - 1)
        self._metrics.history_read("store")
        return await self._store.read(event_type, first, last, limit=limit)

    async def first_since(self, event_type: str, ns: int) -> int:
        """Lowest stored sequence at or after a storage time."""
        return await self._store.first_since(event_type, ns)

    async def last_until(self, event_type: str, ns: int) -> int:
        """Highest stored sequence at or before a storage time."""
        return await self._store.last_until(event_type, ns)


_: type[History] = Tiers
