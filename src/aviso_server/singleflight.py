"""One fetch for all callers who ask the same, and a memory of its result.

The fetch is a separate task: the first caller may leave, and those who wait with it still get their
answer. Failures reach every waiter and are forgotten at once.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from enum import Enum
from typing import Any, Generic, TypeVar

from cachetools import TLRUCache

from aviso_server import tasks

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Answered(Enum):
    """Where an answer came from; the values are for the log."""

    HIT = "hit"
    COALESCED = "miss_coalesced"
    FETCHED = "miss_fetched"


class SingleFlight(Generic[_Key, _Value]):
    """Values by key, each kept for its time, in a bounded number."""

    def __init__(
        self, *, max_entries: int, ttl_s: Callable[[_Value], float], clock: Callable[[], float]
    ) -> None:
        self._kept: TLRUCache[_Key, _Value] = TLRUCache(
            max_entries, ttu=lambda _, value, now: now + ttl_s(value), timer=clock
        )
        self._running: dict[_Key, asyncio.Task[_Value]] = {}

    def __len__(self) -> int:
        """How many values are kept."""
        return len(self._kept)

    def kept(self, key: _Key) -> _Value | None:
        """The value, if it is kept."""
        return self._kept.get(key)

    async def get(
        self, key: _Key, fetch: Callable[[], Coroutine[Any, Any, _Value]]
    ) -> tuple[_Value, Answered]:
        """The value; fetched unless it is kept or already being fetched."""
        with suppress(KeyError):
            return self._kept[key], Answered.HIT
        task = self._running.get(key)
        answered = Answered.COALESCED
        if task is None:
            answered = Answered.FETCHED
            task = self._running[key] = asyncio.create_task(fetch())
            task.add_done_callback(lambda done: self._end(key, done))
        # Shielded: a waiter that leaves does not affect the others.
        return await asyncio.shield(task), answered

    async def close(self) -> None:
        """End what is on its way."""
        await tasks.end(*self._running.values())

    def _end(self, key: _Key, task: asyncio.Task[_Value]) -> None:
        del self._running[key]
        # The exception is retrieved even if every waiter is gone: asyncio would warn of it.
        if not task.cancelled() and task.exception() is None:
            self._kept[key] = task.result()
