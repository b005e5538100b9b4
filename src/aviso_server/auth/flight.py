"""One fetch for everybody who asks the same, and a memory of what it brought.

The fetch is a task of its own: the caller who happened to come first may go away, and those who
wait with it still get their answer. Failures reach every waiter and are forgotten at once.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any, Generic, TypeVar

from aviso_server import tasks

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Source(Enum):
    """Where an answer came from; the words of the log."""

    HIT = "hit"
    COALESCED = "miss_coalesced"
    FETCHED = "miss_fetched"


class Flights(Generic[_Key, _Value]):
    """Values by key, each kept for a while, at most so many; oldest out first."""

    def __init__(self, *, max_entries: int, clock: Callable[[], float]) -> None:
        self._max_entries = max_entries
        self._clock = clock
        self._kept: OrderedDict[_Key, tuple[_Value, float]] = OrderedDict()
        self._running: dict[_Key, asyncio.Task[_Value]] = {}

    def __len__(self) -> int:
        """How many values are kept."""
        return len(self._kept)

    async def get(
        self,
        key: _Key,
        fetch: Callable[[], Coroutine[Any, Any, _Value]],
        *,
        ttl_s: Callable[[_Value], float],
    ) -> tuple[_Value, Source]:
        """The value; fetched unless it is kept or already on its way."""
        kept = self._kept.get(key)
        if kept is not None:
            value, until = kept
            if self._clock() < until:
                return value, Source.HIT
            del self._kept[key]
        task = self._running.get(key)
        source = Source.COALESCED
        if task is None:
            source = Source.FETCHED
            task = asyncio.create_task(self._fly(key, fetch, ttl_s))
            self._running[key] = task
            task.add_done_callback(lambda done: self._landed(key, done))
        # Shielded: a waiter that goes away takes nothing from the others.
        return await asyncio.shield(task), source

    async def close(self) -> None:
        """End what is on its way."""
        await tasks.end(*self._running.values())

    async def _fly(
        self,
        key: _Key,
        fetch: Callable[[], Coroutine[Any, Any, _Value]],
        ttl_s: Callable[[_Value], float],
    ) -> _Value:
        value = await fetch()
        seconds = ttl_s(value)
        if seconds > 0:
            self._keep(key, value, seconds)
        return value

    def _keep(self, key: _Key, value: _Value, seconds: float) -> None:
        now = self._clock()
        self._kept[key] = value, now + seconds
        self._kept.move_to_end(key)
        while self._kept:
            oldest = next(iter(self._kept))
            if len(self._kept) <= self._max_entries and self._kept[oldest][1] > now:
                break
            del self._kept[oldest]

    def _landed(self, key: _Key, task: asyncio.Task[_Value]) -> None:
        self._running.pop(key, None)
        if not task.cancelled():
            task.exception()  # seen, even when every waiter is gone
