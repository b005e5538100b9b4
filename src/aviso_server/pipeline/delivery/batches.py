"""How much at a time, and how fast."""

import time
from collections.abc import Iterable, Iterator
from threading import Event
from typing import Protocol, TypeVar

MAX_BATCH_BYTES = 4 * 1024 * 1024
"""Of one request: half of what a server takes by default (application.max_batch_bytes)."""


class _HasBody(Protocol):
    @property
    def body(self) -> bytes:
        """JSON of one notification."""


_Item = TypeVar("_Item", bound=_HasBody)


def batches(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """The items in order, as many at a time as fit into one request: at most ``size``."""
    batch: list[_Item] = []
    room = MAX_BATCH_BYTES
    for item in items:
        needed = len(item.body) + 1  # with its comma
        if batch and (len(batch) >= size or needed > room):
            yield batch
            batch, room = [], MAX_BATCH_BYTES
        batch.append(item)
        room -= needed
    if batch:
        yield batch


class SendingPace:
    """At most a number of notifications per second; None is as fast as it goes."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._due = time.monotonic()

    def wait(self, count: int) -> None:
        """Return when that many more may be sent."""
        if self._rate is None or not count:
            return
        if (early := self._due - time.monotonic()) > 0:
            Event().wait(early)
        self._due = max(self._due, time.monotonic()) + count / self._rate
