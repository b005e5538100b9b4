"""A backend whose calls are counted and timed; what it does is done by the one inside."""

import time
from collections.abc import AsyncGenerator, Awaitable, Sequence
from typing import Protocol, TypeVar, runtime_checkable

from aviso_server.backends.backend import (
    Backend,
    Batch,
    Bounds,
    Fault,
    Outcome,
    Prompt,
    Receipt,
    Usage,
)
from aviso_server.core.errors import AvisoError
from aviso_server.core.filter import Filter
from aviso_server.core.notification import Entry, Notification
from aviso_server.telemetry.metrics import Metrics

_Result = TypeVar("_Result")


class MeteredBackend:
    """Counts and times the calls of a backend, whose duties are stated at ``Backend``.

    Calls that are cancelled are not counted.
    """

    def __init__(self, inner: Backend, metrics: Metrics) -> None:
        self.inner = inner
        self._prompt: Prompt = inner  # type: ignore[assignment] # who knows that it is one asks
        self.kind = inner.kind
        self._metrics = metrics

    @property
    def connected(self) -> bool:
        return self.inner.connected

    @property
    def fault(self) -> Fault | None:
        return self.inner.fault

    async def append(self, notification: Notification, *, key: str) -> Receipt:
        # Timed in place: every notification comes this way, and a call more would count.
        begun = time.perf_counter()
        try:
            receipt = await self.inner.append(notification, key=key)
        except Exception:
            self._metrics.backend_called("publish", time.perf_counter() - begun, failed=True)
            raise
        self._metrics.backend_called("publish", time.perf_counter() - begun, failed=False)
        return receipt

    def append_now(self, notification: Notification, *, key: str) -> Receipt:
        """``append`` of a backend that never waits.

        A repeat is not counted: it has to be compared, and is appended again by who can wait.
        """
        begun = time.perf_counter()
        receipt = self._prompt.append_now(notification, key=key)
        if not receipt.repeated:
            self._metrics.backend_called("publish", time.perf_counter() - begun, failed=False)
        return receipt

    async def append_many(self, items: Sequence[tuple[Notification, str]]) -> Sequence[Outcome]:
        begun = time.perf_counter()
        outcomes = await self.inner.append_many(items)
        taken = time.perf_counter() - begun
        failed = sum(isinstance(outcome, AvisoError) for outcome in outcomes)
        self._appended(failed, taken, failed=True)
        self._appended(len(outcomes) - failed, taken, failed=False)
        return outcomes

    async def append_together(
        self, items: Sequence[tuple[Notification, str]]
    ) -> Sequence[Receipt | None]:
        begun = time.perf_counter()
        try:
            receipts = await self.inner.append_together(items)
        except Exception:
            self._appended(len(items), time.perf_counter() - begun, failed=True)
            raise
        self._appended(len(items), time.perf_counter() - begun, failed=None in receipts)
        return receipts

    def _appended(self, count: int, seconds: float, *, failed: bool) -> None:
        if count:
            self._metrics.backend_called("publish", seconds, failed=failed, count=count)

    async def bounds(self, event_type: str) -> Bounds:
        return await self.inner.bounds(event_type)

    async def read(
        self, event_type: str, first: int, last: int, *, limit: int, wanted: Filter | None = None
    ) -> Batch:
        reading = self.inner.read(event_type, first, last, limit=limit, wanted=wanted)
        return await time_call(self._metrics, "get_batch", reading)

    async def first_since(self, event_type: str, ns: int) -> int:
        return await self.inner.first_since(event_type, ns)

    async def last_until(self, event_type: str, ns: int) -> int:
        return await self.inner.last_until(event_type, ns)

    def tail(self, event_type: str, after: int) -> AsyncGenerator[Sequence[Entry], None]:
        return self.inner.tail(event_type, after)

    async def event_types(self) -> Sequence[str]:
        return await self.inner.event_types()

    async def delete(self, event_type: str, sequence: int) -> bool:
        # One that is not there is no failure.
        return await time_call(
            self._metrics, "delete_message", self.inner.delete(event_type, sequence)
        )

    async def wipe(self, event_type: str) -> int:
        return await time_call(self._metrics, "wipe_stream", self.inner.wipe(event_type))

    async def close(self) -> None:
        await self.inner.close()


async def time_call(metrics: Metrics, operation: str, call: Awaitable[_Result]) -> _Result:
    """Await one backend operation, count it and its time."""
    begun = time.perf_counter()
    try:
        result = await call
    except Exception:
        metrics.backend_called(operation, time.perf_counter() - begun, failed=True)
        raise
    metrics.backend_called(operation, time.perf_counter() - begun, failed=False)
    return result


@runtime_checkable
class Reconnecting(Protocol):
    """A backend with a connection that can be lost and restored."""

    @property
    def reconnects(self) -> int:
        """How often it was restored."""
        ...


class Batched(Protocol):
    """What became of batches."""

    stored: int
    failed: int
    notifications: int
    """In those that were stored."""


@runtime_checkable
class Batching(Protocol):
    """A backend that stores notifications together."""

    @property
    def batches(self) -> Batched:
        """Those of this process."""
        ...


@runtime_checkable
class Measured(Protocol):
    """A backend that knows how full its store is."""

    @property
    def usage(self) -> Usage | None:
        """As of the last look; None before the first."""
        ...


def usage_of(backend: Backend) -> Usage | None:
    """How full the store is, if it is measured."""
    inner = unwrap(backend)
    return inner.usage if isinstance(inner, Measured) else None


def look(backend: Backend, metrics: Metrics) -> None:
    """Note the state of the backend now."""
    inner = unwrap(backend)
    reconnects = inner.reconnects if isinstance(inner, Reconnecting) else 0
    fault = inner.fault
    reason = None if fault is None else fault.reason
    metrics.backend_seen(connected=inner.connected, reconnects=reconnects, fault=reason)
    if isinstance(inner, Batching):
        done = inner.batches
        metrics.batches_seen(done.stored, done.failed, done.notifications)
    if (usage := usage_of(inner)) is not None:
        metrics.store_seen(usage.stored_bytes, usage.limit_bytes, usage.free_bytes)
        for event_type, stream in usage.streams.items():
            metrics.stream_seen(event_type, stream.messages, stream.bytes)


def meter(backend: Backend, metrics: Metrics) -> Backend:
    """The backend with its calls counted; itself when nothing is counted."""
    return MeteredBackend(backend, metrics) if metrics.enabled else backend


def unwrap(backend: Backend) -> Backend:
    """The one inside, for operations that are made of several calls and count once."""
    return backend.inner if isinstance(backend, MeteredBackend) else backend


_: type[Backend] = MeteredBackend
