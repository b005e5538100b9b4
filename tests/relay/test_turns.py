"""Long work lets everybody else run: in turns, or aside in a thread."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from aviso_server.backends.backend import Receipt
from aviso_server.backends.memory.backend import MemoryBackend, MemoryLimits
from aviso_server.core.errors import BodyTooLarge
from aviso_server.core.notification import Notification
from aviso_server.core.schema import Catalogue
from aviso_server.relay.publish import BatchPublisher, Declined, Published
from aviso_server.relay.turns import PIECE_BYTES, TURN_BYTES, Turns, aside


@asynccontextmanager
async def counted() -> AsyncIterator[list[int]]:
    """How often the loop came round, in the one item of the list."""
    turns = [0]

    async def count() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(count())
    yield turns
    task.cancel()


async def test_many_small_pieces_come_in_turns() -> None:
    """A turn ends after so many bytes, or so many pieces however small they are."""
    turns = Turns()
    async with counted() as passed:
        for _ in range(1000):
            await turns.spend(0)
    assert passed[0] >= 1000 * PIECE_BYTES // TURN_BYTES
    async with counted() as passed:
        for _ in range(10):
            await turns.spend(TURN_BYTES)
    assert passed[0] >= 10


async def test_a_large_piece_is_worked_on_in_another_thread() -> None:
    """A small one is not: the way there and back costs more than the work."""
    here = threading.get_ident()
    assert await aside(TURN_BYTES, threading.get_ident) == here
    assert await aside(TURN_BYTES + 1, threading.get_ident) != here
    with pytest.raises(ZeroDivisionError):
        await aside(TURN_BYTES + 1, lambda: 1 // 0)


class Attentive(MemoryBackend):
    """Notes in which turn of the loop each notification came."""

    def __init__(self, passed: list[int]) -> None:
        super().__init__(MemoryLimits(), now_ns=lambda: 1)
        self.passed = passed
        self.turns: list[int] = []

    def append_now(self, notification: Notification, *, key: str) -> Receipt:
        self.turns.append(self.passed[0])
        return super().append_now(notification, key=key)


async def test_a_batch_never_takes_many_items_in_one_turn() -> None:
    """Results stand in the order of the items, and the store got them in that order."""
    async with counted() as passed:
        backend = Attentive(passed)
        batch = BatchPublisher(backend, Catalogue(strict=False), key="k", owner="anonymous")

        def texts() -> Iterator[bytes | BodyTooLarge]:
            for number in range(2000):
                yield b'{"event_type":"ev","identifier":{"n":"%d"}}' % number
            yield BodyTooLarge(1)
            yield b"{"

        results = await batch.publish(texts())
    assert [r.receipt.sequence for r in results if isinstance(r, Published)] == [*range(1, 2001)]
    assert [type(r.error).__name__ for r in results if isinstance(r, Declined)] == [
        "BodyTooLarge",
        "MalformedBody",
    ]
    assert not any(r.error.__traceback__ for r in results if isinstance(r, Declined))
    assert max(map(backend.turns.count, set(backend.turns))) <= TURN_BYTES // PIECE_BYTES
