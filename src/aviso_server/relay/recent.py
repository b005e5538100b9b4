"""The newest part of a stream, kept in this process: recent history without asking the store.

It holds every stored entry of a span of sequences that grows at the top with the live tail and
shrinks at the bottom to stay within its bytes. Deletions made elsewhere are noticed by counting:
when the store has more holes, or begins later, than when the span was filled, what may be stale
is let go.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from aviso_server.backends.backend import Batch, Bounds
from aviso_server.core.notification import Entry, Record

_OVERHEAD_BYTES = 1100
"""What an entry costs besides payload and place: 1000 to 1110 bytes with seven to nine fields,
measured with tracemalloc on decoded messages."""

_POINT_BYTES = 130
"""What a point of an area or cloud costs: 127 to 129 bytes, measured likewise."""

_TRIM_AT = 1024
"""Dropped entries kept before the lists are moved down: makes dropping O(1) on average."""


class Recent:
    """A span of one stream's newest entries."""

    def __init__(self, bounds: Bounds, max_bytes: int) -> None:
        self.bounds = bounds
        """The store's bounds as last seen; every feed that is set up looks at them."""
        self._max_bytes = max_bytes
        self._bytes = 0
        self._first = bounds.last + 1
        self._last = bounds.last
        self._sequences: list[int] = []
        self._entries: list[Entry] = []
        self._head = 0

    @property
    def first(self) -> int:
        """Lowest sequence of the span; everything stored from here to ``last`` is held."""
        return self._first

    @property
    def last(self) -> int:
        """Highest sequence of the span."""
        return self._last

    def add(self, entries: Sequence[Entry]) -> None:
        """Take what the live tail delivered next."""
        for entry in entries:
            if entry.sequence >= self._first:
                self._sequences.append(entry.sequence)
                self._entries.append(entry)
                self._bytes += _cost(entry)
        if entries:
            self._last = entries[-1].sequence
        while self._bytes > self._max_bytes:
            self._drop()
        self._trim()

    def agree(self, bounds: Bounds) -> None:
        """Let go of what the store no longer has."""
        moved = bounds.first != self.bounds.first
        # As many holes as before prove nothing once the beginning has moved: one of them may have
        # fallen off below while another was made.
        if bounds.deleted != self.bounds.deleted or (moved and bounds.deleted):
            self._forget(bounds.last)
        self.bounds = bounds
        while self._head < len(self._sequences) and self._sequences[self._head] < bounds.first:
            self._drop()
        self._first = max(self._first, min(bounds.first, self._last + 1))
        self._trim()

    def _forget(self, stored: int) -> None:
        """Begin anew at the top, above what is stored: the tail may be behind the store and still
        bring something that was removed before now."""
        self._sequences.clear()
        self._entries.clear()
        self._head = self._bytes = 0
        self._first = max(self._last, stored) + 1

    def read(self, first: int, last: int, *, limit: int) -> Batch:
        """A batch of ``first..last``, all of which lies within the span."""
        start = bisect_left(self._sequences, first, lo=self._head)
        stop = bisect_right(self._sequences, last, lo=start)
        end = min(start + limit, stop)
        following = last + 1 if end >= stop else self._sequences[end]
        return Batch(self._entries[start:end], following, self.bounds)

    def _drop(self) -> None:
        self._bytes -= _cost(self._entries[self._head])
        self._first = self._sequences[self._head] + 1
        self._head += 1

    def _trim(self) -> None:
        if self._head >= _TRIM_AT and self._head * 2 >= len(self._entries):
            del self._entries[: self._head]
            del self._sequences[: self._head]
            self._head = 0


def _cost(entry: Entry) -> int:
    if not isinstance(entry, Record):
        return _OVERHEAD_BYTES
    item = entry.notification
    points = 0 if item.geometry is None else len(item.geometry.points)
    return _OVERHEAD_BYTES + len(item.payload) + _POINT_BYTES * points
