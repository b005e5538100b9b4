"""Lets requests begin a few at a time, so that a crowd blocks no one else.

Thousands of requests may arrive in one turn of the loop, and would all be processed in the next:
later ones, such as a health probe or a stream with a heartbeat due, would wait for all of them. So
only some begin in each turn, and the others wait here in their order.

How long they wait shows how far the server is behind.
"""

import asyncio
from collections import deque

PER_TURN = 64
"""Requests that begin in one turn: some milliseconds of work."""

_NOTICED_AT = 8
"""Requests after which the end of a turn is waited for; an idle server never has so many."""


class Turnstile:
    """The queue in front of the handlers of one process.

    Turns are counted only in a crowd: a separate turn of the loop for every request would slow down
    an idle server.
    """

    def __init__(self) -> None:
        self._queue: deque[tuple[asyncio.Future[None], float]] = deque()
        self._begun = 0
        """Since the end of a turn was noticed."""
        self.behind_s = 0.0
        """How long the last request to begin had waited."""

    async def enter(self) -> None:
        """Return when a request may begin: at once, unless many have begun in this turn."""
        if self.passes():
            return
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._queue.append((waiter, loop.time()))
        await waiter

    def passes(self) -> bool:
        """Let a request begin, unless many have begun in this turn: then it has to wait."""
        if self._begun >= PER_TURN:
            return False
        self.behind_s = 0.0
        self._begin()
        return True

    def _begin(self) -> None:
        self._begun += 1
        if self._begun == _NOTICED_AT:
            loop = asyncio.get_running_loop()
            loop.call_soon(self._turn, loop)

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the next ones in."""
        self._begun = 0
        while self._queue and self._begun < PER_TURN:
            waiter, since = self._queue.popleft()
            if waiter.done():
                continue  # its connection is gone
            self.behind_s = loop.time() - since
            waiter.set_result(None)
            self._begin()
