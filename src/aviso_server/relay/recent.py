"""The newest part of a stream, kept in this process: recent history without asking the store.

It holds every stored entry of a span of sequences that grows at the top with the live tail and
shrinks at the bottom to stay within its bytes. Deletions made elsewhere are noticed by counting:
when the store has more holes, or begins later, than when the span was filled, what may be stale is
dropped.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from aviso_server.backends.backend import Batch, Bounds
from aviso_server.core import footprint
from aviso_server.core.notification import Entry

_TRIM_AT = 1024
"""Dropped entries kept before the lists are moved down: makes dropping O(1) on average."""


class Room:
    """What the spans of all streams may take together.

    Where that is too little, the stream that has not been read for the longest time gives way,
    its oldest entries first.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._spans: dict[Recent, None] = {}
        """By when they were last read, the longest ago first."""
        self.total_bytes = 0

    def touch(self, span: "Recent") -> None:
        """Note that a span is new, or was read."""
        self._spans.pop(span, None)
        self._spans[span] = None

    def remove(self, span: "Recent") -> None:
        """Forget a span."""
        self._spans.pop(span, None)

    def clear_up(self) -> None:
        """Let spans give way until the rest fits."""
        for span in self._spans:
            if self.total_bytes <= self._max_bytes:
                return
            span.shrink(lambda: self.total_bytes > self._max_bytes)


class Recent:
    """A span of one stream's newest entries."""

    def __init__(self, bounds: Bounds, max_bytes: int, room: Room | None = None) -> None:
        self.bounds = bounds
        """The store's bounds as last seen; every new feed reads them."""
        self._max_bytes = max_bytes
        self._bytes = 0
        self._room = room or Room(max_bytes)
        self._room.touch(self)
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
                self._count(footprint.of_entry(entry))
        if entries:
            self._last = entries[-1].sequence
        self.shrink(lambda: self._bytes > self._max_bytes)
        self._room.clear_up()

    def shrink(self, too_large: Callable[[], bool]) -> None:
        """Let the oldest entries go for as long as something is too large."""
        while self._head < len(self._entries) and too_large():
            self._drop()
        self._trim()

    def close(self) -> None:
        """Give back what was taken of the room."""
        self._forget(self._last)
        self._room.remove(self)

    def agree(self, bounds: Bounds) -> None:
        """Drop what the store no longer has."""
        moved = bounds.first != self.bounds.first
        # As many holes as before prove nothing once the beginning has moved: one of them may have
        # fallen off below while another was made.
        if bounds.deleted != self.bounds.deleted or (moved and bounds.deleted):
            self._forget(bounds.last)
        self.bounds = bounds
        while self._head < len(self._sequences) and self._sequences[self._head] < bounds.first:
            self._drop()
        # Above the span, too: the tail may lag, and bring what was wiped or trimmed meanwhile.
        self._first = max(self._first, bounds.first)
        self._trim()

    def _forget(self, stored: int) -> None:
        """Start again at the top, above what is stored: the tail may lag behind the store and still
        deliver something that was already removed."""
        self._sequences.clear()
        self._entries.clear()
        self._count(-self._bytes)
        self._head = 0
        self._first = max(self._last, stored) + 1

    def read(self, first: int, last: int, *, limit: int) -> Batch:
        """A batch of ``first..last``, all of it within the span."""
        self._room.touch(self)
        start = bisect_left(self._sequences, first, lo=self._head)
        stop = bisect_right(self._sequences, last, lo=start)
        end = min(start + limit, stop)
        following = last + 1 if end >= stop else self._sequences[end]
        return Batch(self._entries[start:end], following, self.bounds)

    def _drop(self) -> None:
        self._count(-footprint.of_entry(self._entries[self._head]))
        self._first = self._sequences[self._head] + 1
        self._head += 1

    def _count(self, size: int) -> None:
        self._bytes += size
        self._room.total_bytes += size

    def _trim(self) -> None:
        if self._head >= _TRIM_AT and self._head * 2 >= len(self._entries):
            del self._entries[: self._head]
            del self._sequences[: self._head]
            self._head = 0
