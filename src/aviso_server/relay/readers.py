"""Whose turn it is to read history: few reads at a time, the caller that cost least goes first.

Rules
- A bounded number of reads run at a time. The others wait, and meanwhile their feeds handle
  heartbeats, deadlines and clients that leave.
- A turn is one batch. Between batches a stream queues up again, so that long replays of one
  caller stand between the short ones of others only one batch at a time.
- A turn costs its caller 1, and 1 for each entry that was read and did not match. Callers who scan
  without matching yield to those who find something, and no one waits for ever.

Theory of operation
Fair queueing by what was spent. Time passes with the turns: it is what the last caller served had
spent before. A new caller begins there, so that being idle earns no credit; a debt counts until
time has caught up with it. When there are no reads any more, all is forgotten.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from time import perf_counter
from typing import TypeAlias

from aviso_server.telemetry.metrics import SILENT, Metrics

Caller: TypeAlias = tuple[str, str]
"""Whom a stream is read for: the kind of name, and the name."""

NOBODY: Caller = ("", "")

MAX_ACCOUNTS = 10_000
"""Callers remembered in an endless rush; beyond it only those who wait are."""


@dataclass(eq=False, slots=True)
class _Account:
    """What a caller has cost, and which of its reads wait."""

    spent: int
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)
    """In order; those whose client has left stay until their turn comes."""
    queued: bool = False


class Readers:
    """Lets streams read in turns."""

    def __init__(self, limit: int = 0, metrics: Metrics = SILENT) -> None:
        self.limit = limit
        """Reads at the same time; 0 is no limit. May be changed at any time."""
        self._meter = metrics.readers()
        self._time = 0
        self._accounts: dict[Caller, _Account] = {}
        self._queue: list[tuple[int, int, _Account]] = []
        """Accounts with waiting reads, by what they had spent when they were put in."""
        self._numbers = count()
        """First come, first served among those who have spent the same."""
        self.active = 0
        self.waiting = 0

    @asynccontextmanager
    async def turn(self, caller: Caller) -> AsyncIterator[None]:
        """Wait until it is the caller's turn, and hold a place while the block runs."""
        account = self._account(caller)
        if self._free and not self._queue:
            self._serve(account)
        else:
            await self._wait(account)
        try:
            yield
        finally:
            self._leave()

    def charge(self, caller: Caller, passed: int) -> None:
        """Count entries that were read for a caller and left out by its filter."""
        if (account := self._accounts.get(caller)) is not None:
            account.spent += passed

    @property
    def _free(self) -> bool:
        return not self.limit or self.active < self.limit

    def _account(self, caller: Caller) -> _Account:
        if len(self._accounts) >= MAX_ACCOUNTS:
            self._accounts = {name: item for name, item in self._accounts.items() if item.queued}
        found = self._accounts.setdefault(caller, _Account(self._time))
        found.spent = max(found.spent, self._time)
        return found

    async def _wait(self, account: _Account) -> None:
        called = asyncio.get_running_loop().create_future()
        account.waiting.append(called)
        self._enqueue(account)
        self.waiting += 1
        self._meter.waiting.add()
        begun = perf_counter()
        try:
            await called
        except asyncio.CancelledError:
            if not called.cancelled():
                self._leave()  # it was called and did not hear it any more
            raise
        finally:
            self.waiting -= 1
            self._meter.waiting.add(-1)
            self._meter.wait.observe(perf_counter() - begun)

    def _enqueue(self, account: _Account) -> None:
        if not account.queued:
            account.queued = True
            heapq.heappush(self._queue, (account.spent, next(self._numbers), account))

    def _serve(self, account: _Account) -> None:
        self._time = max(self._time, account.spent)
        account.spent += 1
        self.active += 1
        self._meter.active.add()

    def _leave(self) -> None:
        self.active -= 1
        self._meter.active.add(-1)
        while self._queue and self._free:
            spent, _, account = heapq.heappop(self._queue)
            account.queued = False
            if account.spent == spent:
                self._call(account)
            # Else it was charged meanwhile, and others may come first now.
            if account.waiting:
                self._enqueue(account)
        if not self.active:
            self._accounts.clear()
            self._time = 0

    def _call(self, account: _Account) -> None:
        """Let the first of the account's reads begin whose client is still there."""
        while account.waiting:
            called = account.waiting.popleft()
            if not called.done():
                self._serve(account)
                called.set_result(None)
                return
