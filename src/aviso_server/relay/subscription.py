"""One subscriber's bounded share of the live feed (docs/protocol.md#slow-readers).

The hub offers chunks; the feed takes them. When a chunk does not fit, the subscription
*detaches*: it takes no more, keeps what it has, and notes the first sequence it did not take.
The feed then delivers what is queued, and reads from that sequence on from history. So memory
per connection is bounded, publishers never wait, and nothing is dropped.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from aviso_server.core import footprint
from aviso_server.core.errors import LiveFailed
from aviso_server.core.notification import Unreadable

MAX_QUEUED_BYTES = 4 * 1024 * 1024
"""Second bound on a queue: 1000 notifications of 256 KiB would be 256 MiB per stalled reader."""


@dataclass
class Chunk:
    """Consecutive matching notifications of one dispatch, rendered once for all subscribers."""

    items: Sequence[tuple[int, bytes | Unreadable]]
    """Sequence and ``live-notification`` frame, or its substitute."""
    encoded: bytes | None = None
    """The frames as the connections write them, kept by the first that does."""

    @property
    def first(self) -> int:
        """Lowest sequence in the chunk."""
        return self.items[0][0]

    @property
    def last(self) -> int:
        """Highest sequence in the chunk."""
        return self.items[-1][0]

    @property
    def frames(self) -> bytes:
        """All frames joined; computed each time, since only the encoded form is kept."""
        return b"".join(frame for _, frame in self.items if isinstance(frame, bytes))

    @cached_property
    def notifications(self) -> int:
        """How many of the items are notifications."""
        return sum(isinstance(frame, bytes) for _, frame in self.items)

    @property
    def same_for_all(self) -> bool:
        """Whether every subscriber gets the same frames."""
        return self.notifications == len(self.items)

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
    pass_on: Callable[[Chunk], bool]
    """Delivers a chunk past the queue if the subscriber is idle; False if it is not."""
    boundary: int = 0
    """H: only sequences above it are live for this subscriber."""
    resume_at: int | None = None
    """First sequence not taken after the queue was full; None while attached."""
    failure: LiveFailed | None = None
    _chunks: deque[Chunk] = field(default_factory=deque)
    _queued: int = 0
    _queued_bytes: int = 0

    @property
    def queued(self) -> int:
        """Notifications that wait."""
        return self._queued

    def offer(self, chunk: Chunk) -> bool:
        """Take a chunk; False when it does not fit and the subscription has detached."""
        if not self._chunks and chunk.first > self.boundary and self.pass_on(chunk):
            return True
        count = len(chunk.items)
        full = self._queued + count > self.limit
        if full or (self._chunks and self._queued_bytes + chunk.size > MAX_QUEUED_BYTES):
            self.resume_at = chunk.first
            self.wake()
            return False
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
        return None
