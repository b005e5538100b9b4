"""Whether stores succeed, stream by stream; those that keep failing are refused at once.

Rules
- What was not acknowledged is sent again by the publisher. A stream trips when the reason is known,
  or when a notification failed for good: after that no other waits for the same failure.
- A tripped stream refuses at once, with the reason, until its wait is over. Waits double.
- Then it is on trial: notifications go through, each is sent once. One that is stored ends the
  trial, one that is not trips the stream again.
- A new connection puts every stream on trial: NATS was restarted, or another node answers.
- A full store refuses at once on its own: here it is only shown.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from aviso_server.backends.backend import Fault
from aviso_server.backends.jetstream import disk
from aviso_server.backends.jetstream.connection import (
    Connection,
    NoAnswer,
    NoResponder,
    Refused,
    Unavailable,
)
from aviso_server.backends.jetstream.options import Store

FULL = frozenset({10023, 10047})
"""NATS refuses because its store, or what is reserved of it, is at the limit."""

_WAITS_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
_MOST_TRIPS = 1000
"""Clients may invent event types; those on trial are forgotten first."""


@dataclass(slots=True)
class _Trip:
    fault: Fault
    times: int
    """How often in a row."""
    until: float
    generation: int
    """Of the connection under which it happened."""


class Stores:
    """The outcome of stores on the streams of one connection."""

    def __init__(
        self,
        connection: Connection,
        store: Store | None,
        *,
        write_fault: Callable[[], str | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._store = store
        self._write_fault = write_fault
        self._clock = clock
        self._trips: dict[str, _Trip] = {}

    @property
    def fault(self) -> Fault | None:
        """Why some stream takes nothing now."""
        for trip in self._trips.values():
            if self._holds(trip):
                return trip.fault
        return None

    def refusal(self, stream: str) -> Fault | None:
        """Why this stream need not be tried now."""
        trip = self._trips.get(stream)
        if trip is None or trip.fault.reason == "store_full" or not self._holds(trip):
            return None
        return trip.fault

    def on_trial(self, stream: str) -> bool:
        """Whether it failed before and nothing was stored since."""
        return stream in self._trips

    def succeeded(self, stream: str) -> None:
        """A notification was stored."""
        if self._trips and self._trips.pop(stream, None) is not None:
            structlog.get_logger().info(
                "Notifications are stored again",
                event_name="backend.jetstream.store.recovered",
                stream_name=stream,
            )

    async def failed(
        self, stream: str, error: Unavailable | Refused, *, final: bool
    ) -> Fault | None:
        """One was not stored. Why, if the reason is known or it will not be tried again."""
        fault = await self._cause(error)
        if fault is None and final and isinstance(error, NoAnswer | NoResponder):
            # Without a connection every attempt ends at once, and the reason is another one.
            fault = self._unexplained(stream, error) if self._connection.connected else None
        if fault is not None:
            self._trip(stream, fault)
        return fault

    async def reconsider(self, *, full: bool | None, answering: frozenset[str]) -> None:
        """Check the reasons again: is it still full, does the stream answer, is there space?

        Nothing else would: while we are not ready there is no traffic, so no notification would
        ever be tried.
        """
        now = self._clock()
        room = self._store is None or await self._unwritable() is None
        for stream, trip in self._trips.items():
            match trip.fault.reason:
                case "store_full" if full is False:
                    trip.until = now
                case "no_quorum" if stream in answering:
                    trip.until = now
                case "write_failed" if not room:
                    trip.until = now + _WAITS_S[0]

    def full(self, why: str) -> Fault:
        """The fault of a store at its limit."""
        if self._store is None:
            return Fault("store_full", f"NATS has reached a limit of its storage: {why}")
        limit = disk.shown_bytes(self._store.limit_bytes)
        return Fault("store_full", f"the store of the embedded NATS is full (limit {limit})")

    def unwritable(self, why: str) -> Fault:
        """The fault of an embedded server that cannot write."""
        return Fault("write_failed", f"the embedded NATS cannot write: {why}")

    def _holds(self, trip: _Trip) -> bool:
        return trip.generation == self._connection.generation and self._clock() < trip.until

    async def _cause(self, error: Unavailable | Refused) -> Fault | None:
        if isinstance(error, Refused):
            return self.full(str(error)) if error.code in FULL else None
        if self._store is None or not isinstance(error, NoAnswer):
            return None
        why = await self._unwritable()
        return None if why is None else self.unwritable(why)

    async def _unwritable(self) -> str | None:
        """Why the embedded server cannot write, as it says or as we find."""
        if self._store is None:
            return None
        return self._write_fault() or await asyncio.to_thread(disk.lack_of_room, self._store.folder)

    def _unexplained(self, stream: str, error: Exception) -> Fault:
        if isinstance(error, NoResponder):
            return Fault("no_quorum", f"stream {stream} has no leader: {error}")
        return Fault("not_acknowledged", f"NATS does not store in {stream}: {error}")

    def _trip(self, stream: str, fault: Fault) -> None:
        before = self._trips.pop(stream, None)
        times = 0 if before is None else before.times + 1
        if before is None or before.fault.reason != fault.reason:
            structlog.get_logger().error(
                "Notifications cannot be stored",
                event_name="backend.jetstream.store.failing",
                stream_name=stream,
                reason=fault.reason,
                error=fault.message,
            )
        if len(self._trips) >= _MOST_TRIPS:
            self._trips.pop(next(iter(self._trips)))
        until = self._clock() + _WAITS_S[min(times, len(_WAITS_S) - 1)]
        self._trips[stream] = _Trip(fault, times, until, self._connection.generation)
