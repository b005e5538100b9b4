"""One stream in memory: an append-only log with holes, found by sequence or by time.

Slot ``i`` holds sequence ``base + i``. Deleting empties a slot, trimming drops empty slots from
the front, so finding a sequence is an index and finding a time is a bisection: the times of
emptied slots stay, and they never decrease.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

from aviso_server.backends.backend import Batch, Bounds
from aviso_server.core.notification import Record

_TRIM_AT = 4096
"""Dropped slots kept before the lists are moved down: makes eviction O(1) on average."""


@dataclass(slots=True)
class MemoryLog:
    """The notifications of one event type, oldest first."""

    event_type: str
    last: int = 0
    lost: int = 0
    listeners: set[Callable[[Record], None]] = field(default_factory=set)
    _slots: list[Record | None] = field(default_factory=list)
    _times: "array[int]" = field(default_factory=lambda: array("q"))
    _head: int = 0
    """Index of the first slot in use; those before it are dropped and wait for the next trim."""
    _base: int = 1
    """Sequence of slot 0."""
    _holes: int = 0
    """Emptied slots in use."""

    @property
    def first(self) -> int:
        """Lowest sequence stored; ``last + 1`` when empty."""
        return self._base + self._head

    @property
    def bounds(self) -> Bounds:
        """The bounds now."""
        return Bounds(self.first, self.last, self.lost, self._holes)

    def append(self, record: Record) -> None:
        """Store the next record; its sequence is ``last + 1``."""
        self._slots.append(record)
        self._times.append(record.stored_at_ns)
        self.last = record.sequence
        if self.listeners:
            for listener in tuple(self.listeners):
                listener(record)

    def get(self, sequence: int) -> Record | None:
        """The record with that sequence, if it is still there."""
        index = sequence - self._base
        return self._slots[index] if self._head <= index < len(self._slots) else None

    def read(self, first: int, last: int, limit: int) -> Batch:
        """A batch of ``first..last``."""
        start = max(first - self._base, self._head)
        stop = min(last - self._base + 1, len(self._slots))
        end = min(start + limit, stop)
        entries = [record for record in self._slots[start:end] if record is not None]
        following = last + 1 if end >= stop else self._base + end
        return Batch(entries, following, self.bounds)

    def first_since(self, ns: int) -> int:
        """Lowest stored sequence at or after a time."""
        index = bisect_left(self._times, ns, lo=self._head)
        while index < len(self._slots) and self._slots[index] is None:
            index += 1
        return self._base + index

    def last_until(self, ns: int) -> int:
        """Highest stored sequence at or before a time."""
        index = bisect_right(self._times, ns, lo=self._head) - 1
        while index >= self._head and self._slots[index] is None:
            index -= 1
        return self._base + index

    def remove(self, sequence: int, *, lost: bool = False) -> Record | None:
        """Take one record out and leave a hole; ``lost`` when retention did it."""
        record = self.get(sequence)
        if record is None:
            return None
        self._slots[sequence - self._base] = None
        self._holes += 1
        if lost:
            self.lost = max(self.lost, sequence)
        self._trim()
        return record

    def clear(self) -> list[Record]:
        """Take everything out; the counter stays."""
        removed = [record for record in self._slots if record is not None]
        self._slots.clear()
        del self._times[:]
        self._head = self._holes = 0
        self._base = self.last + 1
        return removed

    def _trim(self) -> None:
        slots, head = self._slots, self._head
        while head < len(slots) and slots[head] is None:
            head += 1
        self._holes -= head - self._head
        self._head = head
        if head >= _TRIM_AT and head * 2 >= len(slots):
            del slots[:head]
            del self._times[:head]
            self._base += head
            self._head = 0
