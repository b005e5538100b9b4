"""Idempotency keys seen lately: a repeat answers with the first receipt.

cachetools' TTLCache would do, but takes a third more for each key (458 bytes instead of 346), and
these are the smallest things that clients can make us keep.
"""

from collections import OrderedDict

from aviso_server.backends.backend import Receipt
from aviso_server.core import footprint
from aviso_server.core.notification import Record

WINDOW_NS = 120 * 1_000_000_000
"""How long a key is remembered: JetStream's default duplicate window, so both backends agree."""


class Keys:
    """Sequences by (event type, key), forgotten after the window, or when they take too much."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        """Bounds what clients can make us remember; beyond it the oldest keys go first."""
        self.total_bytes = 0
        self._seen: OrderedDict[tuple[str, str], tuple[int, int]] = OrderedDict()
        """Sequence and storage time, oldest first."""
        self._look_ns = 0
        """Until then no key has to be forgotten for its age."""

    def seen(self, event_type: str, key: str, now_ns: int) -> Receipt | None:
        """The receipt of an earlier append with this key, marked as a repeat."""
        if now_ns > self._look_ns or self.total_bytes > self._max_bytes:
            self._forget(now_ns)
        found = self._seen.get((event_type, key))
        return None if found is None else Receipt(found[0], repeated=True)

    def remember(self, record: Record, key: str) -> None:
        """Note what a key was used for."""
        place = record.notification.event_type, key
        self._seen[place] = record.sequence, record.stored_at_ns
        self.total_bytes += footprint.of_key(key)

    def _forget(self, now_ns: int) -> None:
        self._look_ns = now_ns + WINDOW_NS
        while self._seen:
            oldest = next(iter(self._seen))
            ends_ns = self._seen[oldest][1] + WINDOW_NS
            if now_ns <= ends_ns and self.total_bytes <= self._max_bytes:
                self._look_ns = ends_ns
                return
            del self._seen[oldest]
            self.total_bytes -= footprint.of_key(oldest[1])
