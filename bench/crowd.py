"""The clients of a soak: watchers that come and go, callers at a given rate, readers that are slow.

All of them live on one event loop beside the server's process. As in ``bench.crew``, answers are
recognised by their last bytes and frames are only looked through for what is needed.
"""

import asyncio
import re
import socket
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import cast

from bench.crew import HOST
from bench.tally import LIVE, Tally

_SEQUENCE = re.compile(rb'"sequence":(\d+)')
TICK_S = 0.005
SMALL_BUFFER = 4096
"""Of sockets that are read slowly: the kernel must not read in their place."""


class Watcher(asyncio.Protocol):
    """One watch, read as fast as it comes; its notifications are counted."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._tally = Tally(LIVE)
        self.opened: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport | None = None

    @property
    def count(self) -> int:
        """Notifications so far; the opening frame is a live-notification too."""
        return self._tally.count - 1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the stream."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Count."""
        self._tally.feed(data)
        if not self.opened.done() and self._tally.count:
            self.opened.set_result(True)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - counts decide
        """A stream that never opened says so."""
        if not self.opened.done():
            self.opened.set_result(False)

    def leave(self) -> None:
        """Hang up."""
        if self.transport is not None:
            self.transport.abort()


class Observer(Watcher):
    """A watch that notes when each sequence arrived."""

    def __init__(self, request: bytes) -> None:
        super().__init__(request)
        self._sequences = Sequences()
        self.seen: list[tuple[int, float]] = []

    def data_received(self, data: bytes) -> None:
        """Note what arrived."""
        super().data_received(data)
        now = monotonic()
        self.seen += [(sequence, now) for sequence in self._sequences.feed(data)]


class Sequences:
    """The sequences in a byte stream of frames, in the order of their arrival."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[int]:
        """Those of the frames that this piece completes."""
        whole, end, rest = (self._rest + piece).rpartition(b"\n\n")
        self._rest = rest
        return [int(found) for found in _SEQUENCE.findall(whole)] if end else []


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one request."""

    number: int
    """Which of the requests it was."""
    sent_at: float
    after_s: float
    status: int
    retry_after: bool
    sequence: int | None
    """Where it was stored."""


@dataclass(slots=True)
class Offer:
    """Notifications offered over a pool of connections, whatever becomes of those before."""

    requests: Sequence[bytes]
    answers: list[Answer] = field(default_factory=list)
    held: int = 0
    """Offered while no connection was free; never sent."""
    lost: int = 0
    """Connections that broke."""
    offered: int = 0
    sent: int = 0
    greedy: bool = False
    """Whether a connection sends again as soon as it has its answer."""
    members: list["Caller"] = field(default_factory=list)
    free: deque["Caller"] = field(default_factory=deque)

    async def connect(self, port: int, count: int) -> None:
        """Open so many connections."""
        loop = asyncio.get_running_loop()
        while len(self.members) < count:
            some = range(min(50, count - len(self.members)))
            opening = (loop.create_connection(lambda: Caller(self), HOST, port) for _ in some)
            self.members += [member for _, member in await asyncio.gather(*opening)]
        self.free = deque(self.members)

    async def run(self, rate: float, seconds: float) -> None:
        """Offer at a rate, then wait for the answers."""
        began_at, due = monotonic(), 0
        while (passed := monotonic() - began_at) < seconds:
            for _ in range(int(passed * rate) - due):
                due += 1
                self.offered += 1
                if self.free:
                    self.free.popleft().send()
                else:
                    self.held += 1
            await asyncio.sleep(TICK_S)
        await self.quiet()

    async def saturate(self, seconds: float) -> float:
        """Answers per second with one request in flight on every connection."""
        before, began_at = len(self.answers), monotonic()
        self.greedy = True
        while self.free:
            self.free.popleft().send()
        await asyncio.sleep(seconds)
        self.greedy = False
        rate = (len(self.answers) - before) / (monotonic() - began_at)
        await self.quiet()
        return rate

    async def quiet(self) -> None:
        """Wait until nothing is in flight."""
        async with asyncio.timeout(120):
            while len(self.free) + self.lost < len(self.members):  # noqa: ASYNC110 - a look is enough
                await asyncio.sleep(TICK_S)

    def hang_up(self) -> None:
        """Close all connections."""
        for member in self.members:
            if member.transport is not None:
                member.transport.abort()


class Caller(asyncio.Protocol):
    """One keep-alive connection of an offer."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        self._number = 0
        self._sent_at = 0.0
        self._answer = b""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait to be used."""
        self.transport = cast("asyncio.Transport", transport)

    def send(self) -> None:
        """Send the next request."""
        assert self.transport is not None
        self._number = self._offer.sent % len(self._offer.requests)
        self._offer.sent += 1
        self._sent_at = monotonic()
        self.transport.write(self._offer.requests[self._number])

    def data_received(self, data: bytes) -> None:
        """Recognise the end of an answer: its JSON ends in a text."""
        self._answer += data
        if not self._answer.endswith(b'"}'):
            return
        answer, self._answer = self._answer, b""
        found = _SEQUENCE.search(answer)
        self._offer.answers.append(
            Answer(
                number=self._number,
                sent_at=self._sent_at,
                after_s=monotonic() - self._sent_at,
                status=int(answer[9:12]),
                retry_after=b"\r\nretry-after:" in answer.lower(),
                sequence=int(found[1]) if found else None,
            )
        )
        if self._offer.greedy:
            self.send()
        else:
            self._offer.free.append(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - counted
        """Note it."""
        self._offer.lost += 1


class SlowReader:
    """A watch whose client reads a little now and then, or never."""

    def __init__(self, port: int, request: bytes) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        self._socket.connect((HOST, port))
        self._socket.sendall(request)
        self._socket.setblocking(False)  # noqa: FBT003 - its own signature
        self._sequences = Sequences()
        self._last: int | None = None
        self.count = 0
        self.holes = 0
        """Where a sequence did not follow on the one before."""

    def read(self, size: int) -> None:
        """Read up to so many bytes of what is there."""
        try:
            piece = self._socket.recv(size)
        except BlockingIOError:
            return
        for sequence in self._sequences.feed(piece):
            self.holes += self._last is not None and sequence != self._last + 1
            self._last = sequence
            self.count += 1

    def leave(self) -> None:
        """Hang up."""
        self._socket.close()


async def open_watchers(port: int, requests: Sequence[bytes]) -> list[Watcher]:
    """A watch for each request, when all of them have their opening frame."""
    loop = asyncio.get_running_loop()
    watchers: list[Watcher] = []
    for first in range(0, len(requests), 50):
        opening = (
            loop.create_connection(lambda request=request: Watcher(request), HOST, port)  # type: ignore[misc]
            for request in requests[first : first + 50]
        )
        opened = [watcher for _, watcher in await asyncio.gather(*opening)]
        await asyncio.gather(*(watcher.opened for watcher in opened))
        watchers += opened
    return watchers
