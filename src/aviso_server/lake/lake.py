"""The lake as the server reads it: by sequence and by time, without Spark or Java.

Blocking work runs in a few threads of the lake's own, so that the event loop never waits for a disk
or an object store. The tables are refreshed when a reader needs it, at most every ``refresh_s``
unless it asks for a fresh snapshot; concurrent refreshes are one.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pyarrow as pa
from deltalake.exceptions import DeltaError

from aviso_server.core.errors import HistoryFailed
from aviso_server.core.filter import Filter
from aviso_server.core.mark import Mark
from aviso_server.lake.bounds import LakeBatch, LakeBounds
from aviso_server.lake.follow import Outdated
from aviso_server.lake.layout import Place
from aviso_server.lake.reader import Reader
from aviso_server.lake.rowgroups import FileGone, RowGroups
from aviso_server.lake.snapshot import EventTypeSnapshot, Snapshots
from aviso_server.lake.storage import LakeFailed
from aviso_server.lake.tombstones import append_tombstones

THREADS = 3
"""Reads at the same time; each is short (``reader.ROWS``)."""

CACHE_BYTES = 67_108_864

_T = TypeVar("_T")


class Lake:
    """Reads and hides archived notifications. Failures are HistoryFailed."""

    def __init__(
        self,
        place: Place,
        *,
        cache_bytes: int = CACHE_BYTES,
        refresh_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._place = place
        self._clock = clock
        self._snapshots = Snapshots(place, refresh_s, clock)
        self._reader = Reader(RowGroups(place, cache_bytes=cache_bytes))
        self._firsts: dict[str, int] = {}
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="lake")

    async def bounds(self, event_type: str, *, fresh: bool = False) -> LakeBounds:
        """What is archived and visible; ``fresh`` reads the table now."""
        return await self._ask(self._bounds, event_type, fresh=fresh)

    async def mark(self, event_type: str) -> Mark:
        """How far an event type is archived now, and the proof of it."""
        return await self._ask(lambda ours: ours.mark, event_type, fresh=True)

    async def read(
        self, event_type: str, first: int, last: int, *, limit: int, wanted: Filter | None = None
    ) -> LakeBatch:
        """At most ``limit`` entries of ``first..last``; none above the mark."""

        def read(ours: EventTypeSnapshot) -> LakeBatch:
            return self._reader.read(ours, first, last, limit=limit, wanted=wanted)

        return await self._ask(read, event_type)

    async def first_since(self, event_type: str, ns: int) -> int | None:
        """The lowest visible archived sequence stored at or after a time."""
        return await self._ask(lambda ours: self._reader.first(ours, least=1, since=ns), event_type)

    async def last_until(self, event_type: str, ns: int) -> int | None:
        """The highest visible archived sequence stored at or before a time."""
        return await self._ask(lambda ours: self._reader.last(ours, until=ns), event_type)

    async def hide(self, event_type: str, first: int, last: int, *, kind: str) -> None:
        """Write a tombstone; it is durable on return, and every process's next look sees it."""
        await self._in_thread(self._hide, event_type, (first, last), kind)

    async def event_types(self) -> list[str]:
        """Event types with archived notifications, hidden or not."""
        asked = self._clock()
        return await self._in_thread(lambda: self._snapshots.since(asked).index.event_types)

    async def close(self) -> None:
        """Let running reads end; those that wait are dropped."""
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)

    def _bounds(self, ours: EventTypeSnapshot) -> LakeBounds:
        name = ours.event_type
        # The beginning only ever moves up: where it was is a good place to look from.
        least = min(self._firsts.get(name, 1), ours.through + 1)
        first = self._reader.first(ours, least=least) or ours.through + 1
        if ours.through:
            self._firsts[name] = first
        return LakeBounds(first, ours.through, ours.lost.pairs())

    def _hide(self, event_type: str, span: tuple[int, int], kind: str) -> None:
        append_tombstones(self._place, [(event_type, *span)], kind=kind)
        self._snapshots.since(self._clock())

    async def _ask(
        self, question: Callable[[EventTypeSnapshot], _T], event_type: str, *, fresh: bool = False
    ) -> _T:
        """The answer of a snapshot, in a thread."""
        asked = self._clock()

        def answer() -> _T:
            known = self._snapshots.since(asked) if fresh else self._snapshots.recent(asked)
            try:
                return question(known.of(event_type))
            except (FileGone, Outdated):
                # Compacted and vacuumed since the snapshot was taken, or the log cleaned up.
                return question(self._snapshots.since(self._clock(), anew=True).of(event_type))

        return await self._in_thread(answer)

    async def _in_thread(self, work: Callable[..., _T], *arguments: object) -> _T:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._pool, work, *arguments)
        except LakeFailed as error:
            raise HistoryFailed("Failed to read history", details=error.message) from error
        except (DeltaError, OSError, ValueError, pa.ArrowException) as error:
            details = f"lake {self._place.path}: {error}"
            raise HistoryFailed("Failed to read history", details=details) from error
