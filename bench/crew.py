"""The sockets of a load process: producers that notify, readers that count frames.

Everything here is on the client's side of a measurement and must stay far cheaper than what it
measures: raw protocols, requests built beforehand, answers recognised by their last bytes.
"""

import asyncio
import re
import time
from itertools import cycle
from typing import cast

from bench.tally import CLOSING, REPLAY, Tally
from bench.wire import Speech

HOST = "127.0.0.1"
_LENGTH = re.compile(rb"\r\nContent-Length: (\d+)\r\n", re.IGNORECASE)


class Broken(Exception):
    """The load did not get what it expected; a figure from it would be wrong."""


class Producers:
    """Connections that each keep one request in flight until all are answered."""

    def __init__(self, speech: Speech, count: int) -> None:
        self._requests = cycle(speech.publish)
        self._accepted = re.compile(speech.accepted)
        self._unsent = self._unanswered = count
        self.latencies_s: list[float] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def next_request(self) -> bytes | None:
        """What to send next, if anything is left."""
        if self._unsent == 0:
            return None
        self._unsent -= 1
        return next(self._requests)

    def answered(self, answer: bytes, latency_s: float) -> None:
        """Note an answer."""
        if not self._accepted.match(answer):
            self.broke(f"notify was refused: {answer[:1000]!r}")
            return
        self.latencies_s.append(latency_s)
        self._unanswered -= 1
        if self._unanswered == 0 and not self.done.done():
            self.done.set_result(None)

    def broke(self, why: str) -> None:
        """Note that the run is worthless."""
        if not self.done.done():
            self.done.set_exception(Broken(why))


class Producer(asyncio.Protocol):
    """One keep-alive connection of the producers."""

    def __init__(self, producers: Producers) -> None:
        self._producers = producers
        self._answer = b""
        self._sent_at = 0.0
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; sending starts when all are connected."""
        self.transport = cast("asyncio.Transport", transport)

    def send(self) -> None:
        """Send the next request, if there is one."""
        request = self._producers.next_request()
        if request is not None and self.transport is not None:
            self._sent_at = time.monotonic()
            self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Take an answer when it is whole."""
        answer = self._answer + data if self._answer else data
        if not _whole(answer):
            self._answer = answer
            return
        self._answer = b""
        self._producers.answered(answer, time.monotonic() - self._sent_at)
        self.send()

    def connection_lost(self, exc: Exception | None) -> None:
        """Too early, unless all was answered."""
        self._producers.broke(f"a producer was disconnected: {exc}")


def _whole(answer: bytes) -> bool:
    head = answer.find(b"\r\n\r\n")
    length = _LENGTH.search(answer, 0, head + 2) if head >= 0 else None
    return length is not None and len(answer) >= head + 4 + int(length[1])


class Reader(asyncio.Protocol):
    """One stream, read as fast as it comes and only counted, until a mark was seen often enough."""

    def __init__(self, request: bytes, until: bytes) -> None:
        self._request = request
        self._until = Tally(until)
        self._target = 1
        self._reached = asyncio.get_running_loop().create_future()
        self.reached_at = 0.0
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the stream."""
        # uvloop's transports do not derive from asyncio's classes.
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Count, and tell when the target is reached."""
        self._until.feed(data)
        if self._until.count >= self._target:
            self._reach()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - counts decide
        """A stream that breaks must not keep the run waiting."""
        self._reach()

    def aim(self, further: int) -> None:
        """Set the target to so many further marks."""
        self._target = self._until.count + further
        self._reached = asyncio.get_running_loop().create_future()
        if self.transport is None or self.transport.is_closing():
            self._reach()

    async def reached(self) -> None:
        """Wait for the target; raises Broken when the stream ended before it."""
        await self._reached
        if self._until.count != self._target:
            raise Broken(f"a stream gave {self._until.count} of {self._target} frames")

    def _reach(self) -> None:
        if not self._reached.done():
            self.reached_at = time.monotonic()
            self._reached.set_result(None)


class Watcher(Reader):
    """A watch: first its opening is awaited, then notifications are counted."""

    def __init__(self, speech: Speech) -> None:
        super().__init__(speech.watch, speech.opened)
        self._delivered = Tally(speech.delivered)

    def data_received(self, data: bytes) -> None:
        """Count notifications from the beginning: the first may come with the opening."""
        if self._until is not self._delivered:
            self._delivered.feed(data)
        super().data_received(data)

    def aim(self, further: int) -> None:
        """Count notifications from now on."""
        self._until = self._delivered
        super().aim(further)


class Replayer(Reader):
    """A replay, read to its closing frame."""

    def __init__(self, request: bytes) -> None:
        super().__init__(request, CLOSING)
        self._replayed = Tally(REPLAY)

    @property
    def count(self) -> int:
        """Notifications so far."""
        return self._replayed.count

    def data_received(self, data: bytes) -> None:
        """Count the notifications too."""
        self._replayed.feed(data)
        super().data_received(data)
