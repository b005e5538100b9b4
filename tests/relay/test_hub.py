"""The hub as the owner of its tails: it ends them, also those that do not listen at once."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

import pytest
from support.relay import NOW_NS, relay

from aviso_server import tasks
from aviso_server.backends.memory.backend import MemoryBackend, MemoryLimits
from aviso_server.core.notification import Entry


class Deaf(MemoryBackend):
    """A backend whose tail loses the first cancellation, as asyncio.wait_for may on Python 3.11."""

    async def tail(
        self,
        event_type: str,  # noqa: ARG002 - the protocol's
        after: int,  # noqa: ARG002 - the protocol's
    ) -> AsyncGenerator[Sequence[Entry], None]:
        """Wait for ever, twice."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.Event().wait()
        yield []


async def test_a_tail_that_misses_its_cancellation_is_told_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server must end although a library lost the wish to end."""
    monkeypatch.setattr(tasks, "AGAIN_S", 0.01)
    async with asyncio.timeout(20):
        async with relay(Deaf(MemoryLimits(), now_ns=lambda: NOW_NS)) as world:
            await world.watch()
            await world.settle()
            running = set(world.sources.hub._running)
    assert [task.done() for task in running] == [True]
