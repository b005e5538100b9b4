"""The contract between the relay and whatever keeps notifications (docs/storage.md).

One stream per event type. Sequences of a stream start at 1, are contiguous, never reused, not
reset by wipes and not consumed by refused or repeated appends. Storage times never
decrease with the sequence. The caller has validated everything it appends.

The same contract suite (tests/backends/contract.py) runs over every implementation.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import msgspec

from aviso_server.core.errors import AvisoError
from aviso_server.core.filter import Filter
from aviso_server.core.notification import Entry, Notification


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a stream holds at one instant."""

    first: int
    """Lowest sequence still stored; ``last + 1`` when nothing is."""
    last: int
    """Last sequence ever allocated, deleted or not; 0 before the first append."""
    lost: int = 0
    """Highest sequence that retention removed, 0 if none. Wipes, deletions and keep-latest are
    deliberate and do not count: a reader that meets them has missed nothing it was promised."""
    deleted: int = 0
    """How many holes lie between first and last; lets a reader notice deletions made elsewhere."""


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """What an append was given."""

    sequence: int
    repeated: bool = False
    """True when the key was seen before and nothing was stored now."""


MOST_TOGETHER = 1000
"""Notifications that are stored all or none: what NATS takes in one batch unless told otherwise."""

Outcome: TypeAlias = Receipt | AvisoError
"""What became of a notification that was appended with others."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A piece of history."""

    entries: Sequence[Entry]
    """Ascending by sequence; holes are simply absent."""
    following: int
    """Where to continue: every sequence below it has been considered."""
    bounds: Bounds
    """The stream's bounds as of this read, so that a reader can see that it was overtaken."""
    missing: bool = False
    """True when something before ``following`` is no longer kept anywhere; there are no entries. A
    backend only reports its bounds: it does not know whether another tier has it."""
    passed: int = 0
    """How many more were read and left out, because they are not wanted."""


Reason = Literal[
    "disconnected",
    "no_quorum",
    "stream_refused",
    "store_full",
    "write_failed",
    "not_acknowledged",
]
"""Kinds of faults, for metrics and for ``GET /ready?details``; docs/operations.md explains each."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why notifications cannot be stored now."""

    reason: Reason
    message: str
    """Public: it names no files and no addresses."""


@dataclass(frozen=True, slots=True)
class StreamUsage:
    """What one stream takes."""

    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Usage:
    """How full a store is."""

    stored_bytes: int
    limit_bytes: int | None
    """Beyond it nothing is stored; None if there is none or it is unknown."""
    free_bytes: int | None
    """On the disk of the store, where we see it."""
    streams: Mapping[str, StreamUsage]
    """By event type, of those configured."""

    @property
    def share(self) -> float | None:
        """How much of what can be stored is stored: of the limit, or of the disk if it is less."""
        ends = [] if self.limit_bytes is None else [self.limit_bytes]
        if self.free_bytes is not None:
            ends.append(self.stored_bytes + self.free_bytes)
        return self.stored_bytes / max(min(ends), 1) if ends else None


class Prompt(Protocol):
    """A backend that never waits."""

    def append_now(self, notification: Notification, *, key: str) -> Receipt:
        """The same as ``Backend.append``."""
        ...


class Backend(Protocol):
    """Where notifications are kept. All methods may be called concurrently."""

    kind: str
    """Its name in the configuration."""

    @property
    def connected(self) -> bool:
        """Whether the store can be reached now."""
        ...

    @property
    def fault(self) -> Fault | None:
        """Why notifications of some event type cannot be stored now; drives ``/ready``."""
        ...

    async def append(self, notification: Notification, *, key: str) -> Receipt:
        """Store, then return. The same key within 120 s for the same event type stores nothing.

        Raises StorageFailed, and then nothing was stored; InvalidRequest when the stream belongs
        to a differently spelled event type.
        """
        ...

    async def append_many(self, items: Sequence[tuple[Notification, str]]) -> Sequence[Outcome]:
        """Append notifications, each with its key, in their order; the outcome of each.

        Those of one event type are stored in the order given unless some have to be sent again.
        """
        ...

    async def append_together(
        self, items: Sequence[tuple[Notification, str]]
    ) -> Sequence[Receipt | None]:
        """Append up to MOST_TOGETHER notifications of one event type, each with its own key.

        All or none, at consecutive sequences. If keys were seen before nothing is stored, and the
        receipts are the former ones: None for each key that was not seen. Raises StorageFailed, and
        then nothing was stored; Unacknowledged; NoBatches; InvalidRequest as ``append`` does.
        """
        ...

    async def bounds(self, event_type: str) -> Bounds:
        """The bounds now; ``Bounds(1, 0)`` for a stream that never had anything."""
        ...

    async def read(
        self, event_type: str, first: int, last: int, *, limit: int, wanted: Filter | None = None
    ) -> Batch:
        """Up to ``limit`` entries of ``first..last``; others than ``wanted`` may be left out.

        Raises HistoryFailed.
        """
        ...

    async def first_since(self, event_type: str, ns: int) -> int:
        """Lowest stored sequence at or after a storage time; ``last + 1`` if there is none."""
        ...

    async def last_until(self, event_type: str, ns: int) -> int:
        """Highest stored sequence at or before a storage time; ``first - 1`` if there is none."""
        ...

    def tail(self, event_type: str, after: int) -> AsyncGenerator[Sequence[Entry], None]:
        """Every entry above ``after``, in order, for as long as it is iterated.

        Ends only by raising LiveFailed, or HistoryLost when what it needs is no longer kept. The
        caller iterates without delay; it is the one consumer per stream and process.
        """
        ...

    async def event_types(self) -> Sequence[str]:
        """Every event type that has one of our streams, configured or not."""
        ...

    async def delete(self, event_type: str, sequence: int) -> bool:
        """Remove one notification and leave a hole; False when it is not there."""
        ...

    async def wipe(self, event_type: str) -> int:
        """Remove all notifications of a stream, keep its counter; how many there were."""
        ...

    async def close(self) -> None:
        """Flush and release everything; nothing is called afterwards."""
        ...
