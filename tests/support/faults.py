"""A memory backend that counts what it is asked, and fails, hangs or is spoiled where a test says.

The rest is the real one, so that what is tested is the handling of a fault and not an imitation of
a store. The other stores fail in the same methods, only not on demand.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Container, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace

from support.edge import NOON_NS

from aviso_server.backends.backend import Batch, Bounds, Outcome, Receipt
from aviso_server.backends.memory.backend import MemoryBackend, MemoryLimits
from aviso_server.core.errors import AvisoError, HistoryFailed, LiveFailed
from aviso_server.core.filter import Filter
from aviso_server.core.notification import Entry, Notification, Record, Unreadable

AWAY = OSError("the store is away")


class FaultyBackend(MemoryBackend):
    """Does what the memory backend does until told otherwise."""

    def __init__(
        self,
        failures: Mapping[str, Exception] | None = None,
        *,
        limits: MemoryLimits | None = None,
        now_ns: Callable[[], int] = lambda: NOON_NS,
    ) -> None:
        super().__init__(limits or MemoryLimits(), now_ns=now_ns)
        self.asked: Counter[str] = Counter()
        """How often, by operation."""
        self.failures = dict(failures or {})
        """By operation, or by operation and event type such as ``bounds ev``."""
        self.hanging: set[str] = set()
        """Operations, named alike, that set ``stuck`` and wait until they are let ``free``."""
        self.stuck, self.free = asyncio.Event(), asyncio.Event()
        self.fail_reads_from: int | None = None
        """Reads beginning at this sequence or later fail."""
        self.unreadable: Container[int] = ()
        """Sequences that cannot be decoded."""
        self.meter: asyncio.Semaphore | None = None
        """Tails deliver one entry per permit: the hub falls behind the store."""
        self._broken = asyncio.Event()

    def break_tails(self) -> None:
        """Every open tail fails now."""
        self._broken.set()
        self._broken = asyncio.Event()

    async def _meet(self, operation: str, event_type: str = "") -> None:
        self.asked[operation] += 1
        for key in (operation, f"{operation} {event_type}"):
            if key in self.failures:
                raise self.failures[key]
            if key in self.hanging:
                self.stuck.set()
                await self.free.wait()

    async def append(self, notification: Notification, *, key: str) -> Receipt:
        await self._meet("append", notification.event_type)
        return await super().append(notification, key=key)

    async def append_many(self, items: Sequence[tuple[Notification, str]]) -> list[Outcome]:
        """Each meets what a single one would."""
        outcomes: list[Outcome] = []
        for notification, key in items:
            try:
                outcomes.append(await self.append(notification, key=key))
            except AvisoError as error:
                outcomes.append(error)
        return outcomes

    async def append_together(
        self, items: Sequence[tuple[Notification, str]]
    ) -> list[Receipt | None]:
        await self._meet("append_together")
        return await super().append_together(items)

    async def bounds(self, event_type: str) -> Bounds:
        await self._meet("bounds", event_type)
        return await super().bounds(event_type)

    async def read(
        self, event_type: str, first: int, last: int, *, limit: int, wanted: Filter | None = None
    ) -> Batch:
        await self._meet("read", event_type)
        if self.fail_reads_from is not None and first >= self.fail_reads_from:
            raise HistoryFailed("Failed to read history", details="the store is away")
        batch = await super().read(event_type, first, last, limit=limit, wanted=wanted)
        return replace(batch, entries=self._spoil(batch.entries))

    async def first_since(self, event_type: str, ns: int) -> int:
        await self._meet("first_since", event_type)
        return await super().first_since(event_type, ns)

    async def tail(self, event_type: str, after: int) -> AsyncGenerator[Sequence[Entry], None]:
        await self._meet("tail", event_type)
        broken = asyncio.ensure_future(self._broken.wait())
        async with aclosing(super().tail(event_type, after)) as tail:
            arrived: asyncio.Future[Sequence[Entry]] | None = None
            try:
                while True:
                    arrived = asyncio.ensure_future(anext(tail))
                    await asyncio.wait({broken, arrived}, return_when=asyncio.FIRST_COMPLETED)
                    if broken.done():
                        raise LiveFailed("the connection broke")
                    entries = self._spoil(arrived.result())
                    if self.meter is None:
                        yield entries
                        continue
                    for entry in entries:
                        await self.meter.acquire()
                        yield [entry]
            finally:
                broken.cancel()
                if arrived is not None:
                    arrived.cancel()
                    await asyncio.gather(arrived, return_exceptions=True)

    async def event_types(self) -> Sequence[str]:
        await self._meet("event_types")
        return await super().event_types()

    async def delete(self, event_type: str, sequence: int) -> bool:
        await self._meet("delete", event_type)
        return await super().delete(event_type, sequence)

    async def wipe(self, event_type: str) -> int:
        await self._meet("wipe", event_type)
        return await super().wipe(event_type)

    def _spoil(self, entries: Sequence[Entry]) -> list[Entry]:
        reason = "Failed to decode stored topic"
        return [
            Unreadable(entry.sequence, entry.stored_at_ns, entry.notification.topic, reason)
            if isinstance(entry, Record) and entry.sequence in self.unreadable
            else entry
            for entry in entries
        ]
