"""One subscriber's bounded share of the live feed (docs/protocol.md#slow-readers).

The hub offers chunks; the feed takes them. When a chunk does not fit, the subscription
*detaches*: it takes no more, keeps what it has, and notes the first sequence it did not take.
The feed then delivers what is queued, and reads from that sequence on from history. So memory
per connection is bounded, publishers never wait, and nothing is dropped.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from aviso_server.core import footprint
from aviso_server.core.errors import LiveFailed
from aviso_server.core.notification import Unreadable
from aviso_server.telemetry.metrics import Number

MAX_QUEUED_BYTES = 4 * 1024 * 1024
"""Second bound on a queue: 1000 notifications of 256 KiB would be 256 MiB per stalled reader."""


class Chunk:
    """Consecutive matching notifications of one dispatch, rendered once for all subscribers."""

    __slots__ = (
        "__dict__",
        "compressed",
        "encoded",
        "first",
        "items",
        "notifications",
        "same_for_all",
    )

    def __init__(self, items: Sequence[tuple[int, bytes | Unreadable]]) -> None:
        self.items = items
        """Sequence and ``live-notification`` frame, or its substitute."""
        self.first = items[0][0]
        """Lowest sequence in the chunk."""
        self.notifications = sum(isinstance(frame, bytes) for _, frame in items)
        """How many of the items are notifications."""
        self.same_for_all = self.notifications == len(items)
        """Whether every subscriber gets the same frames."""
        self.encoded: bytes | None = None
        """The frames as the connections write them, kept by the first that does."""
        self.compressed: bytes | None = None
        """The same for those that compress."""

    @property
    def frames(self) -> bytes:
        """All frames joined; computed each time, since only the encoded form is kept."""
        return b"".join(frame for _, frame in self.items if isinstance(frame, bytes))

    @cached_property
    def size(self) -> int:
        """Bytes it takes while it is queued, by one or by many."""
        return footprint.of_frames(frame for _, frame in self.items)

    def after(self, sequence: int) -> "Chunk | None":
        """The part above a sequence."""
        if self.first > sequence:
            return self
        items = [item for item in self.items if item[0] > sequence]
        return Chunk(items) if items else None


@dataclass(eq=False, slots=True)
class Subscription:
    """A bounded queue of chunks between the hub and one feed."""

    limit: int
    """Notifications queued at the most."""
    wake: Callable[[], None]
    """Called whenever there is something to check."""
    sent: Number
    """Counts the notifications that went past the queue."""
    pass_on: Callable[[Chunk], bool] | None = None
    """While the subscriber rests, all before it sent: delivers a chunk past the queue, or not."""
    boundary: int = 0
    """H: only sequences above it are live for this subscriber."""
    resume_at: int | None = None
    """First sequence not taken after the queue was full; None while attached."""
    failure: LiveFailed | None = None
    _chunks: deque[Chunk] | None = None
    """None while nothing waits: most subscribers keep up, and an empty deque is large."""
    _queued: int = 0
    _queued_bytes: int = 0

    @property
    def queued(self) -> int:
        """Notifications that wait."""
        return self._queued

    def offer(self, chunk: Chunk) -> bool:
        """Take a chunk; False when it does not fit and the subscription has detached."""
        if self.pass_on is not None and chunk.first > self.boundary and self.pass_on(chunk):
            self.sent.add(chunk.notifications)
            return True
        count = len(chunk.items)
        full = self._queued + count > self.limit
        if full or (self._chunks and self._queued_bytes + chunk.size > MAX_QUEUED_BYTES):
            self.resume_at = chunk.first
            self.wake()
            return False
        if self._chunks is None:
            self._chunks = deque()
        self._chunks.append(chunk)
        self._queued += count
        self._queued_bytes += chunk.size
        self.wake()
        return True

    def fail(self, failure: LiveFailed) -> None:
        """The live source is gone for good; what is queued can still be delivered."""
        self.failure = failure
        self.wake()

    def take(self) -> Chunk | None:
        """The next chunk above the boundary; what is not taken yet counts as queued."""
        while self._chunks:
            chunk = self._chunks.popleft()
            self._queued -= len(chunk.items)
            self._queued_bytes -= chunk.size
            # Shortly after subscribing the hub may have dispatched before H was taken.
            above = chunk.after(self.boundary)
            if above is not None:
                return above
        self._chunks = None
        return None
