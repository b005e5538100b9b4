"""What the memory backend drops: the total budget, and the optional limits per topic."""

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from aviso_server.core import footprint
from aviso_server.core.notification import Notification, Record

_COMPACT_AT = 1024
"""Dead entries tolerated in the age queue before it is rebuilt."""


@dataclass(slots=True)
class Budget:
    """How much may be kept in all, over every stream, and what is oldest."""

    max_messages: int
    max_bytes: int
    per_topic: bool = False
    """Whether the newest of each topic are tracked, which takes its own room."""
    messages: int = 0
    total_bytes: int = 0
    _by_age: deque[Record] = field(default_factory=deque)
    _gone: set[tuple[str, int]] = field(default_factory=set)
    """Records in the queue that left for another reason."""

    def add(self, record: Record, cost: int) -> None:
        """Count a record in, as the youngest; it was weighed before."""
        self._by_age.append(record)
        self.messages += 1
        self.total_bytes += cost

    def drop(self, record: Record) -> None:
        """Count a record out that left for another reason than age."""
        self._count_out(record)
        self._gone.add(_key(record))
        if len(self._gone) > max(_COMPACT_AT, self.messages):
            self._by_age = deque(r for r in self._by_age if _key(r) not in self._gone)
            self._gone.clear()

    def cost(self, notification: Notification) -> int:
        """Bytes that a notification takes here."""
        size = footprint.of_notification(notification)
        return size + footprint.TOPIC if self.per_topic else size

    def fits(self, beside: int = 0) -> bool:
        """Whether nothing is overdue, with ``beside`` bytes of other things."""
        return self.messages <= self.max_messages and (
            self.messages <= 1 or self.total_bytes + beside <= self.max_bytes
        )

    def overdue(self, beside: int = 0) -> Iterator[Record]:
        """Take out the oldest records until the rest fits, with ``beside`` bytes of other things.

        The youngest always stays.
        """
        while not self.fits(beside):
            record = self._by_age.popleft()
            if _key(record) in self._gone:
                self._gone.discard(_key(record))
                continue
            self._count_out(record)
            yield record

    def _count_out(self, record: Record) -> None:
        self.messages -= 1
        self.total_bytes -= self.cost(record.notification)


class TopicLimits:
    """Keep-latest: a limit of notifications per topic, and of topics."""

    def __init__(self, max_history: int | None, max_topics: int | None) -> None:
        self._max_history = max_history
        self._max_topics = max_topics
        self._topics: OrderedDict[tuple[str, ...], OrderedDict[int, Record]] = OrderedDict()
        """Topics, least recently announced first; each with its records, oldest first."""

    @property
    def active(self) -> bool:
        """False when nothing is limited and nothing needs to be tracked."""
        return self._max_history is not None or self._max_topics is not None

    def add(self, record: Record) -> tuple[list[Record], tuple[str, ...] | None]:
        """Note a new record; what must go for it, and the topic that was given up."""
        tokens = record.notification.tokens
        topic = self._topics.setdefault(tokens, OrderedDict())
        self._topics.move_to_end(tokens)
        topic[record.sequence] = record
        gone: list[Record] = []
        if self._max_history is not None:
            while len(topic) > self._max_history:
                gone.append(topic.popitem(last=False)[1])
        if self._max_topics is None or len(self._topics) <= self._max_topics:
            return gone, None
        evicted, records = self._topics.popitem(last=False)
        return [*gone, *records.values()], evicted

    def drop(self, record: Record) -> None:
        """Forget a record that left for another reason."""
        tokens = record.notification.tokens
        topic = self._topics.get(tokens)
        if topic is None:
            return
        topic.pop(record.sequence, None)
        if not topic:
            del self._topics[tokens]


def _key(record: Record) -> tuple[str, int]:
    return record.notification.event_type, record.sequence
