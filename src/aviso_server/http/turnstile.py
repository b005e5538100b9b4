"""Lets requests begin a few at a time, so that a crowd keeps nobody else out.

Thousands of requests may arrive in one turn of the loop, and would all be worked on in the next:
whoever comes later waits for all of them, a health probe and a stream with a heartbeat due as
well. So only some begin in each turn, and the others wait here in their order.

How long they wait tells how far the server is behind.
"""

import asyncio
from collections import deque

PER_TURN = 32
"""Requests that begin in one turn: some milliseconds of work."""


class Turnstile:
    """The queue in front of the handlers of one process.

    Turns are noticed only when there is a crowd: a turn of the loop of its own for every request
    would make a server slower that has nothing to do.
    """

    def __init__(self) -> None:
        self._queue: deque[tuple[asyncio.Future[None], float]] = deque()
        self._begun = 0
        """Since a turn was noticed; what reaches the limit has the next one noticed."""
        self.behind_s = 0.0
        """How long the request that was let in last had waited."""

    async def enter(self) -> None:
        """Return when a request may begin: at once, unless many have begun in this turn."""
        loop = asyncio.get_running_loop()
        if self._begun >= PER_TURN:
            waiter = loop.create_future()
            self._queue.append((waiter, loop.time()))
            await waiter
            return
        self.behind_s = 0.0
        self._begin(loop)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._begun += 1
        if self._begun == PER_TURN:
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
            self._begin(loop)
