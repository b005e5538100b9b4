"""Group commit: what waits for the same stream is stored together (docs/storage.md#group-commit).

With every write synced to disk, NATS takes about as long for a batch of sixteen messages as for
sixteen single ones, and hardly longer for a batch of hundreds. So a message goes alone at once
while few are under way. Beyond that messages wait, and as soon as something is answered, those that
wait go together. One batch is under way per stream: that keeps their order, and the longer NATS
takes the more wait for the next.

A lane only decides who goes with whom. What a batch is, and what becomes of one that was refused,
is the publisher's.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from aviso_server import tasks
from aviso_server.backends.backend import Outcome
from aviso_server.backends.jetstream.messages import Message
from aviso_server.core.errors import StorageFailed

TOGETHER = 16
"""The fewest that go together; so many single ones take NATS as long."""
MOST = 500
"""In one batch, of the 1000 that NATS takes: others wait for it, and larger ones gain little."""
MOST_BYTES = 1024 * 1024
"""In one batch."""
LARGEST_BYTES = 60 * 1024
"""A larger message goes alone: writing it takes so long that nothing is gained, and NATS would
refuse a whole batch for headers of 64 KiB."""

Commit: TypeAlias = Callable[[Sequence[Message]], Awaitable[Sequence[Outcome | None] | None]]
"""Stores messages together; None for those that must go alone, or for all when nothing can be said
about them."""
Single: TypeAlias = Callable[[Message], Awaitable[Outcome]]


@dataclass(frozen=True, slots=True)
class _Waiting:
    message: Message
    settled: "asyncio.Future[Outcome | None]"
    """None: go alone."""

    def settle(self, outcome: Outcome | None) -> None:
        if not self.settled.done():  # its caller may have left
            self.settled.set_result(outcome)


class Lane:
    """The way into one stream."""

    def __init__(self, commit: Commit, single: Single) -> None:
        self._commit = commit
        self._single = single
        self._alone = 0
        """Messages under way that go alone."""
        self._waiting: deque[_Waiting] = deque()
        self._batches: asyncio.Task[None] | None = None
        self._apart = False
        """A batch failed, and its messages are being sent one by one: all others go alone too."""
        self.most = MOST

    @property
    def idle(self) -> bool:
        """Whether nothing is under way."""
        return not self._alone and not self._waiting and self._batches is None

    async def store(self, message: Message) -> Outcome:
        """Store a message, alone or with others."""
        if not self._free and message.size <= LARGEST_BYTES:
            outcome = await self._enqueue(message)
            if outcome is not None:
                return outcome
        return await self._store_alone(message)

    async def store_all(self, messages: Sequence[Message]) -> list[Outcome]:
        """Store messages in their order; the outcome of each."""
        places = [self._enqueue(message) for message in messages]
        self._turn()
        outcomes: list[Outcome | asyncio.Task[Outcome]] = []
        async with asyncio.TaskGroup() as alone:
            for message, place in zip(messages, places, strict=True):
                outcome = await place
                outcomes.append(
                    alone.create_task(self._store_alone(message)) if outcome is None else outcome
                )
        return [item.result() if isinstance(item, asyncio.Task) else item for item in outcomes]

    async def end(self) -> None:
        """Give up what is under way."""
        if self._batches is not None:
            await tasks.end(self._batches)

    @property
    def _free(self) -> bool:
        """Whether the next message goes alone, at once."""
        busy = self._batches is not None or self._waiting or self._alone >= TOGETHER
        return self._apart or not busy

    def _enqueue(self, message: Message) -> "asyncio.Future[Outcome | None]":
        place = _Waiting(message, asyncio.get_running_loop().create_future())
        if self._apart or message.size > LARGEST_BYTES:
            place.settle(None)
        else:
            self._waiting.append(place)
        return place.settled

    async def _store_alone(self, message: Message) -> Outcome:
        self._alone += 1
        try:
            return await self._single(message)
        finally:
            self._alone -= 1
            self._turn()

    def _turn(self) -> None:
        """Something was answered: whoever waits may go."""
        if self._batches is not None:
            return
        if len(self._waiting) >= TOGETHER:
            self._batches = asyncio.create_task(self._store_together(), name="group commit")
        else:
            self._release()

    def _release(self) -> None:
        while self._waiting:
            self._waiting.popleft().settle(None)

    async def _store_together(self) -> None:
        try:
            while len(self._waiting) >= TOGETHER:
                batch = self._take()
                try:
                    await self._store_batch(batch)
                finally:
                    for place in batch:
                        place.settle(StorageFailed("Failed to store notification"))
        finally:
            self._batches = None
            self._release()

    def _take(self) -> list[_Waiting]:
        """Those that go next: a batch of which each message has an id of its own."""
        batch: list[_Waiting] = []
        ids: set[str] = set()
        size = 0
        while self._waiting and len(batch) < self.most:
            place = self._waiting[0]
            size += place.message.size
            if size > MOST_BYTES:
                break
            self._waiting.popleft()
            if place.settled.cancelled():
                continue
            identity = place.message.key
            if identity in ids:
                place.settle(None)  # alone, after the first: NATS says what became of that
            else:
                ids.add(identity)
                batch.append(place)
        return batch

    async def _store_batch(self, batch: Sequence[_Waiting]) -> None:
        outcomes: Sequence[Outcome | None] | None
        if len(batch) < TOGETHER:
            outcomes = [None] * len(batch)  # some have left, or NATS takes no larger ones
        else:
            outcomes = await self._commit([place.message for place in batch])
        if outcomes is None:
            await self._store_apart(batch)
            return
        for place, outcome in zip(batch, outcomes, strict=True):
            place.settle(outcome)

    async def _store_apart(self, batch: Iterable[_Waiting]) -> None:
        """Send the messages of a failed batch one by one; their ids make that safe."""

        async def store(place: _Waiting) -> None:
            place.settle(await self._single(place.message))

        self._apart = True
        try:
            storing = asyncio.gather(*map(store, batch))
            self._release()  # after those before them, and without waiting for their retries
            await storing
        finally:
            self._apart = False
