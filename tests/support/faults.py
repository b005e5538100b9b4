"""A backend that fails on request: real storage underneath, faults at the seams.

It wraps a real backend and passes everything through, so that what is tested is the relay's
handling of a fault and not an imitation of a store.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from aviso_server.backends.backend import Backend, Batch, Bounds, Fault, Outcome, Receipt
from aviso_server.core.errors import HistoryFailed, LiveFailed
from aviso_server.core.filter import Filter
from aviso_server.core.notification import Entry, Notification, Unreadable


class FaultyBackend:
    """Passes through to a real backend until told to fail."""

    def __init__(self, real: Backend) -> None:
        self._real = real
        self.kind = real.kind
        self.fail_reads_from: int | None = None
        """Reads beginning at this sequence or later fail."""
        self.fail_bounds = False
        self.refuse_tails = False
        self.unreadable: set[int] = set()
        """Sequences that cannot be decoded."""
        self.hold_reads: asyncio.Event | None = None
        """Reads wait for this event."""
        self.meter: asyncio.Semaphore | None = None
        """Tails deliver one entry per permit: the hub falls behind the store."""
        self._broken = asyncio.Event()

    def break_tails(self) -> None:
        """Every open tail fails now."""
        self._broken.set()
        self._broken = asyncio.Event()

    @property
    def connected(self) -> bool:
        """As underneath."""
        return self._real.connected

    @property
    def fault(self) -> Fault | None:
        """As underneath."""
        return self._real.fault

    async def append(self, notification: Notification, *, key: str) -> Receipt:
        """As underneath."""
        return await self._real.append(notification, key=key)

    async def append_many(self, items: Sequence[tuple[Notification, str]]) -> Sequence[Outcome]:
        """As underneath."""
        return await self._real.append_many(items)

    async def append_together(
        self, items: Sequence[tuple[Notification, str]]
    ) -> Sequence[Receipt | None]:
        """As underneath."""
        return await self._real.append_together(items)

    async def bounds(self, event_type: str) -> Bounds:
        """As underneath, or a failure."""
        if self.fail_bounds:
            raise OSError("the store is away")
        return await self._real.bounds(event_type)

    async def read(
        self, event_type: str, first: int, last: int, *, limit: int, wanted: Filter | None = None
    ) -> Batch:
        """As underneath, later, spoiled, or a failure."""
        if self.hold_reads is not None:
            await self.hold_reads.wait()
        if self.fail_reads_from is not None and first >= self.fail_reads_from:
            raise HistoryFailed("Failed to read history", details="the store is away")
        batch = await self._real.read(event_type, first, last, limit=limit, wanted=wanted)
        return replace(batch, entries=[self._spoil(entry) for entry in batch.entries])

    async def first_since(self, event_type: str, ns: int) -> int:
        """As underneath."""
        return await self._real.first_since(event_type, ns)

    async def last_until(self, event_type: str, ns: int) -> int:
        """As underneath."""
        return await self._real.last_until(event_type, ns)

    async def tail(self, event_type: str, after: int) -> AsyncGenerator[Sequence[Entry], None]:
        """As underneath, until it is broken."""
        if self.refuse_tails:
            raise LiveFailed("the store is away")
        broken = asyncio.ensure_future(self._broken.wait())
        async with aclosing(self._real.tail(event_type, after)) as tail:
            arrived: asyncio.Future[Sequence[Entry]] | None = None
            try:
                while True:
                    arrived = asyncio.ensure_future(anext(tail))
                    await asyncio.wait({broken, arrived}, return_when=asyncio.FIRST_COMPLETED)
                    if broken.done():
                        raise LiveFailed("the connection broke")
                    entries = [self._spoil(entry) for entry in arrived.result()]
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
        """As underneath."""
        return await self._real.event_types()

    async def delete(self, event_type: str, sequence: int) -> bool:
        """As underneath."""
        return await self._real.delete(event_type, sequence)

    async def wipe(self, event_type: str) -> int:
        """As underneath."""
        return await self._real.wipe(event_type)

    async def close(self) -> None:
        """As underneath."""
        await self._real.close()

    def _spoil(self, entry: Entry) -> Entry:
        if entry.sequence not in self.unreadable:
            return entry
        return Unreadable(
            entry.sequence, entry.stored_at_ns, "ev.?", "Failed to decode stored topic"
        )


_: type[Backend] = FaultyBackend
