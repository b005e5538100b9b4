"""The in-memory backend: one process, history until it exits, the same semantics as the others."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass

import structlog

from aviso_server.backends.backend import Backend, Batch, Bounds, Fault, Outcome, Prompt, Receipt
from aviso_server.backends.memory.keys import Keys
from aviso_server.backends.memory.log import MemoryLog
from aviso_server.backends.memory.retention import Budget, TopicLimits
from aviso_server.core.errors import AvisoError, StorageFailed
from aviso_server.core.filter import Filter
from aviso_server.core.notification import Entry, Notification, Record
from aviso_server.core.schema import stream_conflict

MAX_STREAMS = 10_000
"""Streams kept at most: clients invent event types without a schema."""

PER_TURN = 128
"""Notifications of a batch that are stored in one turn of the loop."""

KEYS_SHARE = 2
"""Idempotency keys may take at most one part in this many of the budget."""

_REPORT_EVERY_NS = 60 * 1_000_000_000
"""Budget evictions are logged at most once a minute."""


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """How much is kept; None is unlimited."""

    max_messages: int = 1_000_000
    max_bytes: int = 268_435_456
    max_history_per_topic: int | None = None
    max_topics: int | None = None


class MemoryBackend:
    """Keeps every stream as a log in this process.

    Nothing here awaits between looking and changing, so every append is atomic on the loop.
    """

    kind = "in_memory"
    connected = True
    fault: Fault | None = None

    def __init__(self, limits: MemoryLimits, *, now_ns: Callable[[], int]) -> None:
        self._limits = limits
        self._now_ns = now_ns
        self._logs: dict[str, MemoryLog] = {}
        self._owners: dict[str, str] = {}
        """Event type by stream name, to refuse a second spelling."""
        self._topics = TopicLimits(limits.max_history_per_topic, limits.max_topics)
        self._budget = Budget(limits.max_messages, limits.max_bytes, self._topics.active)
        self._keys = Keys(limits.max_bytes // KEYS_SHARE)
        self._stamp_ns = 0
        self._evicted = _Evicted()
        self._journal = structlog.get_logger()

    @property
    def total_bytes(self) -> int:
        """What is counted against ``max_bytes`` now."""
        return self._budget.total_bytes + self._keys.total_bytes

    async def append_many(self, items: Sequence[tuple[Notification, str]]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for notification, key in items:
            if outcomes and len(outcomes) % PER_TURN == 0:
                await asyncio.sleep(0)
            try:
                outcomes.append(self.append_now(notification, key=key))
            except AvisoError as error:
                outcomes.append(error)
        return outcomes

    async def append_together(
        self, items: Sequence[tuple[Notification, str]]
    ) -> list[Receipt | None]:
        now = self._now_ns()
        before = [self._keys.seen(item.event_type, key, now) for item, key in items]
        if any(before):
            return before
        costs = [self._weigh(notification) for notification, _ in items]
        return [
            self._store(notification, key, now_ns=now, cost=cost)
            for (notification, key), cost in zip(items, costs, strict=True)
        ]

    async def append(self, notification: Notification, *, key: str) -> Receipt:
        return self.append_now(notification, key=key)

    def append_now(self, notification: Notification, *, key: str) -> Receipt:
        now = self._now_ns()
        if (repeat := self._keys.seen(notification.event_type, key, now)) is not None:
            return repeat
        return self._store(notification, key, now_ns=now, cost=self._weigh(notification))

    def _weigh(self, notification: Notification) -> int:
        """What a notification takes; StorageFailed if that is more than there may ever be."""
        cost = self._budget.cost(notification)
        if cost > self._limits.max_bytes:
            raise StorageFailed(
                "Failed to store notification",
                details=f"notification is larger than max_bytes ({self._limits.max_bytes})",
            )
        return cost

    def _store(self, notification: Notification, key: str, *, now_ns: int, cost: int) -> Receipt:
        log = self._logs.get(notification.event_type) or self._log_for(notification.event_type)
        # One stamp for all streams: appending order is then also the order of age.
        self._stamp_ns = max(now_ns, self._stamp_ns)
        record = Record(log.last + 1, self._stamp_ns, notification)
        log.append(record)
        self._keys.remember(record, key)
        self._budget.add(record, cost)
        self._make_room(record)
        return Receipt(record.sequence)

    async def bounds(self, event_type: str) -> Bounds:
        return self._find(event_type).bounds

    async def read(
        self, event_type: str, first: int, last: int, *, limit: int, wanted: Filter | None = None
    ) -> Batch:
        del wanted  # nothing needs to be decoded here, so nothing is gained by leaving out
        return self._find(event_type).read(first, last, limit)

    async def first_since(self, event_type: str, ns: int) -> int:
        return self._find(event_type).first_since(ns)

    async def last_until(self, event_type: str, ns: int) -> int:
        return self._find(event_type).last_until(ns)

    async def tail(self, event_type: str, after: int) -> AsyncGenerator[Sequence[Entry], None]:
        # New records are passed on by the append itself, not read back: a budget smaller than a
        # burst cannot remove one before it was delivered. The pending list needs no separate bound,
        # because the one consumer empties it on every turn of the loop.
        log = self._log_for(event_type)
        pending: list[Entry] = []
        grown = asyncio.Event()

        def arrived(record: Record) -> None:
            pending.append(record)
            grown.set()

        pending.extend(log.read(after + 1, log.last, limit=log.last).entries)
        log.listeners.add(arrived)
        try:
            while True:
                if not pending:
                    grown.clear()
                    await grown.wait()
                taken = pending[:]
                pending.clear()
                yield taken
        finally:
            log.listeners.discard(arrived)

    async def event_types(self) -> Sequence[str]:
        return sorted(self._logs)

    async def delete(self, event_type: str, sequence: int) -> bool:
        record = self._find(event_type).remove(sequence)
        if record is None:
            return False
        self._forget((record,))
        return True

    async def wipe(self, event_type: str) -> int:
        removed = self._find(event_type).clear()
        self._forget(removed)
        self._journal.info(
            "Stream wiped",
            event_name="backend.in_memory.stream.wiped",
            event_type=event_type,
            notifications_removed=len(removed),
        )
        return len(removed)

    async def close(self) -> None:
        """Nothing to flush."""

    def _find(self, event_type: str) -> MemoryLog:
        """The log of an event type, or an empty one that is not kept."""
        self._refuse_conflict(event_type)
        return self._logs.get(event_type) or MemoryLog(event_type)

    def _log_for(self, event_type: str) -> MemoryLog:
        log = self._logs.get(event_type)
        if log is not None:
            return log
        self._refuse_conflict(event_type)
        if len(self._logs) >= MAX_STREAMS:
            raise StorageFailed(
                "Failed to store notification",
                details=f"more than {MAX_STREAMS} event types are in use",
            )
        log = self._logs[event_type] = MemoryLog(event_type)
        self._owners[event_type.upper()] = event_type
        return log

    def _refuse_conflict(self, event_type: str) -> None:
        if self._owners.get(event_type.upper(), event_type) != event_type:
            raise stream_conflict(event_type)

    def _make_room(self, record: Record) -> None:
        if self._topics.active:
            self._keep_latest(record)
        if not self._budget.fits(beside=self._keys.total_bytes):
            self._evict()
        if self._evicted.messages and self._stamp_ns >= self._evicted.report_at_ns:
            self._report_evicted()

    def _evict(self) -> None:
        for old in self._budget.overdue(beside=self._keys.total_bytes):
            self._logs[old.notification.event_type].remove(old.sequence, lost=True)
            self._topics.drop(old)
            self._evicted.messages += 1
            self._evicted.total_bytes += self._budget.cost(old.notification)

    def _keep_latest(self, record: Record) -> None:
        gone, evicted = self._topics.add(record)
        for old in gone:
            self._logs[old.notification.event_type].remove(old.sequence)
            self._budget.drop(old)
        if evicted is not None:
            self._journal.warning(
                "Topic evicted",
                event_name="backend.in_memory.topic.evicted",
                removed_topic=".".join(evicted),
                max_topics=self._limits.max_topics,
            )

    def _forget(self, records: Iterable[Record]) -> None:
        for record in records:
            self._budget.drop(record)
            self._topics.drop(record)

    def _report_evicted(self) -> None:
        self._journal.warning(
            "Oldest notifications evicted to stay within the memory budget",
            event_name="backend.in_memory.budget.evicted",
            messages_removed=self._evicted.messages,
            bytes_removed=self._evicted.total_bytes,
        )
        self._evicted = _Evicted(report_at_ns=self._stamp_ns + _REPORT_EVERY_NS)


@dataclass(slots=True)
class _Evicted:
    """What the budget took since the last report."""

    messages: int = 0
    total_bytes: int = 0
    report_at_ns: int = 0


_: type[Backend] = MemoryBackend
_prompt: type[Prompt] = MemoryBackend
