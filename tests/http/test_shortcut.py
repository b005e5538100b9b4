"""The short cut of notifications: answers as by the long way, and nothing else is taken."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.config import settings
from support.edge import NOON_NS, Parts, edge
from support.raw import PATIENCE_S, request, wired
from support.server import Client, connected
from support.shortcut import comparable, takes_shortcut

from aviso_server.backends.backend import Receipt
from aviso_server.backends.memory.backend import MemoryBackend, MemoryLimits
from aviso_server.core.notification import Notification
from aviso_server.http.shortcut import MAX_BYTES, begin

PATH = "/api/v1/notification"
GOOD = b'{"event_type":"ev","identifier":{"region":"n"}}'


@pytest.fixture(scope="module")
async def served() -> AsyncIterator[Client]:
    """A server for all tests of this module."""
    async with connected(settings()) as started:
        yield started


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (GOOD, []),
        (GOOD, [("Idempotency-Key", "k1")]),
        (GOOD, [("Idempotency-Key", "not visible: \xe9")]),
        (GOOD, [("Origin", "https://elsewhere.example"), ("X-Request-ID", "mine")]),
        (GOOD, [("Authorization", "Bearer nothing"), ("Content-Type", "text/plain")]),
        (b'{"event_type":"ev","identifier":{"region":"n"},"payload":{"a":[1,2.5,null]}}', []),
        (b"", []),
        (b"[", []),
        (b"null", []),
        (b'{"event_type":"ev","identifier":{}}', []),
        (b'{"event_type":"ev","identifier":{"region":""}}', []),
        (b'{"event_type":"ev","identifier":{"region":"n"},"to_id":"7"}', []),
        (b'{"event_type":"ev","identifier":{"region":"n","x":1}}', []),
        (b'{"event_type":"none","identifier":{}}', []),
        (b'{"event_type":"ev","identifier":{"region":"n"},"more":1}', []),
        (b'{"event_type":"\xff"}', []),
    ],
)
async def test_answers_are_those_of_the_long_way(
    served: Client, body: bytes, headers: list[tuple[str, str]]
) -> None:
    """Status line, headers in their order and body are equal, whatever is wrong with a request."""
    async with wired(served.running) as short, wired(served.running) as long:
        assert (await long.ask("GET", "/health")).status == 200  # from now on it is aiohttp's
        by_short = await short.ask("POST", PATH, body, headers)
        assert takes_shortcut(served, short)
        assert not takes_shortcut(served, long)
        by_long = await long.ask("POST", PATH, body, headers)
        assert comparable(by_short) == comparable(by_long)
        assert by_short.data["request_id"] == by_short.request_id


async def test_limits_are_those_of_the_long_way() -> None:
    """A body over the limit is refused although it came whole and is small."""
    async with connected(settings({"application": {"max_body_bytes": 100}})) as small:
        for body, status in ((GOOD, 200), (GOOD + b" " * 100, 413)):
            async with wired(small.running) as wire:
                assert (await wire.ask("POST", PATH, body)).status == status


SENT = request("POST", PATH, GOOD)


@pytest.mark.parametrize(
    "sent",
    [
        SENT.replace(b"HTTP/1.1", b"HTTP/1.0"),
        SENT.replace(b"/notification ", b"/notification?a=1 "),
        SENT.replace(b"/notification ", b"/%6eotification "),
        SENT.replace(b"Host", b"Connection: close\r\nHost"),
        SENT.replace(b"Host", b"Expect: nothing\r\nHost"),
        SENT.replace(b"Host", b"Upgrade: websocket\r\nConnection: upgrade\r\nHost"),
        SENT.replace(b"Host", b"Content-Encoding: identity\r\nHost"),
        SENT.replace(b"Host: localhost", b"Transfer-Encoding: chunked\r\nHost: localhost"),
        SENT.replace(b"Host: localhost", b"Content-Length: 3\r\nHost: localhost"),
        SENT.replace(b"Host: localhost\r\n", b""),
        SENT.replace(b"Host", b"A: \x00\r\nHost"),
        SENT.replace(b"Host", b"A: b\r\n c\r\nHost"),
        SENT.replace(b"Host", b"A : b\r\nHost"),
        SENT.replace(b"localhost\r\n", b"localhost\n"),
        SENT.replace(b"POST", b"post"),
        b"\r\n" + SENT,
        SENT + b"\r\n",
        SENT + SENT,
        SENT + b"nonsense\r\n\r\n",
        SENT[:-1] + b'}"' + SENT,
        request("POST", PATH, GOOD[:-1] + b" " * MAX_BYTES + b"}"),
    ],
)
async def test_whatever_else_comes_is_left_to_aiohttp(served: Client, sent: bytes) -> None:
    """All bytes of it: what comes back is what a connection gives that never had a short cut."""
    async with wired(served.running) as first, wired(served.running) as second:
        assert (await first.ask("POST", PATH, GOOD)).status == 200
        assert (await second.ask("GET", "/health")).status == 200
        assert takes_shortcut(served, first)
        seen = []
        for wire in (first, second):
            await wire.send(sent)
            answer = await wire.answer()
            seen.append(comparable(answer))
            if answer.header("connection") == "close":
                assert await wire.rest() == b""
        assert seen[0] == seen[1]


async def test_a_request_may_come_in_pieces(served: Client) -> None:
    """Cut anywhere: the pieces are one request, and the next one is read as well."""
    async with wired(served.running) as wire, wired(served.running) as other:
        for cut in range(1, len(SENT)):
            await wire.send(SENT[:cut])
            assert (await other.ask("GET", "/health")).status == 200
            await wire.send(SENT[cut:])
            assert (await wire.answer()).status == 200
        assert (await wire.ask("POST", PATH, GOOD)).status == 200


async def test_requests_that_come_together_are_answered_in_order(served: Client) -> None:
    """Many notifications, something else, and a stream at the end, on one connection."""
    watch = request("POST", "/api/v1/watch", b'{"event_type":"ev","identifier":{}}')
    async with wired(served.running) as wire:
        before = (await wire.ask("POST", PATH, GOOD)).data["sequence"]
        await wire.send(SENT * 50 + request("GET", "/health") + SENT + watch)
        sequences = [(await wire.answer()).data["sequence"] for _ in range(50)]
        assert sequences == list(range(before + 1, before + 51))
        assert (await wire.answer()).status == 200
        assert (await wire.answer()).data["sequence"] == before + 51
        async with asyncio.timeout(PATIENCE_S):
            assert b"text/event-stream" in await wire.reader.readuntil(b"\r\n\r\n")


class _Holding(MemoryBackend):
    """Stores when it is told to, as a store does that has to be asked over a network."""

    def __init__(self) -> None:
        super().__init__(MemoryLimits(), now_ns=lambda: NOON_NS)
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.left = asyncio.Event()

    async def append(self, notification: Notification, *, key: str) -> Receipt:
        """Wait, then store."""
        self.asked.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.left.set()
            raise
        return await super().append(notification, key=key)


@pytest.mark.parametrize("kind", ["in_memory", "jetstream"])
async def test_what_comes_while_a_request_is_waited_for_comes_after_it(kind: str) -> None:
    """It is held, and the client has to wait: more than one read is not taken from it."""
    backend = _Holding()
    backend.kind = kind
    async with edge(settings(), Parts(backend)) as slow, wired(slow.running) as wire:
        await wire.send(SENT)
        await _within(backend.asked.wait())
        sending = asyncio.create_task(wire.send(SENT * 20 + b"x" * 13_000_000))
        async with wired(slow.running) as other:
            for _ in range(3):
                assert (await other.ask("GET", "/health")).status == 200
        assert not sending.done()
        backend.go.set()
        assert [(await wire.answer()).data["sequence"] for _ in range(20)] == list(range(1, 21))
        sending.cancel()


@pytest.mark.parametrize("kind", ["in_memory", "jetstream"])
async def test_a_client_that_goes_is_not_waited_for(kind: str) -> None:
    """As on the long way, what is done for it is cancelled."""
    backend = _Holding()
    backend.kind = kind
    async with edge(settings(), Parts(backend)) as slow:
        async with wired(slow.running) as wire:
            await wire.send(SENT)
            await _within(backend.asked.wait())
        await _within(backend.left.wait())


async def test_a_shutdown_lets_a_request_end_and_says_so() -> None:
    """The answer still comes, with the word that there is no other."""
    backend = _Holding()
    async with edge(settings(), Parts(backend)) as slow, wired(slow.running) as wire:
        await wire.send(SENT)
        await _within(backend.asked.wait())
        slow.running.stop.request()
        backend.go.set()
        answer = await wire.answer()
        assert (answer.status, answer.header("connection")) == (200, "close")
        assert await wire.rest() == b""


async def test_what_begins_at_once_may_wait_and_be_cancelled() -> None:
    """A coroutine runs up to its first wait; the rest is a task like any other."""
    steps: list[str] = []

    async def work(door: asyncio.Event) -> None:
        steps.append("begun")
        try:
            await door.wait()
            await asyncio.sleep(0)
            steps.append("ended")
        except asyncio.CancelledError:
            steps.append("cancelled")
            raise

    opened = asyncio.Event()
    opened.set()
    for door, end in ((opened, "ended"), (asyncio.Event(), "cancelled")):
        task = begin(work(door))
        assert steps == ["begun"]
        assert task is not None
        if end == "cancelled":
            task.cancel()
        await asyncio.wait([task])
        assert steps == ["begun", end]
        steps.clear()


async def _within(waiting: Any) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await waiting
