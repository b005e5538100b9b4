"""Publishers and watchers that keep book: what was acknowledged against what arrived.

Nothing here uses the server's own code. The filters are plain predicates, the book is a dict, and
a sequence counts as published only once the server said so.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from support.sse import Event, Stream

PATIENCE_S = 90
"""Far more than anything here needs: it only bounds a failing test."""

ATTEMPT_S = 30
"""How long one attempt to publish waits for an answer."""

_NOT_YET = 1 << 62

SCHEMA: dict[str, Any] = {
    "topic": {"base": "storm", "key_order": ["region", "severity"]},
    "identifier": {
        "region": {"type": "EnumHandler", "required": False, "values": ["north", "south", "east"]},
        "severity": {"type": "IntHandler", "required": False, "range": [1, 7]},
    },
}
"""The event type ``storm``."""


@dataclass(frozen=True)
class Wanted:
    """A filter twice: as it is sent, and as plain Python."""

    identifier: Mapping[str, Any]
    keeps: Callable[[Mapping[str, Any]], bool]


EVERYTHING = Wanted({}, lambda _: True)
FILTERS = (
    EVERYTHING,
    Wanted({"region": "north"}, lambda sent: sent["region"] == "north"),
    Wanted({"region": {"in": ["north", "east"]}}, lambda sent: sent["region"] in "north east"),
    Wanted({"severity": {"gte": 4}}, lambda sent: sent["severity"] >= 4),
    Wanted(
        {"region": "north", "severity": {"between": [2, 6]}},
        lambda sent: sent["region"] == "north" and 2 <= sent["severity"] <= 6,
    ),
)
LAST = {"region": "north", "severity": 5}
"""Matches every filter: who has it has everything before it."""


class Book:
    """What was published, in the order of a counter that ticks at every noteworthy moment."""

    def __init__(self) -> None:
        self._ticks = itertools.count(1)
        self._grown = asyncio.Condition()
        self.sent: dict[int, Mapping[str, Any]] = {}
        """Identifiers by acknowledged sequence."""
        self.begun: dict[int, int] = {}
        """When a notification was first sent off."""
        self.acknowledged: dict[int, int] = {}
        """When it was acknowledged."""
        self.deleted: dict[int, int] = {}
        """When its deletion was acknowledged; far in the future while it is under way."""
        self.contents: dict[int, Any] = {}
        """Payloads by acknowledged sequence."""
        self.unclear: list[Any] = []
        """Payloads that were sent once, without a key, and not acknowledged."""
        self.given: dict[str, list[int]] = {}
        """The sequences of each publisher, in the order of its sending."""
        self.refused = 0
        """Attempts that failed and were repeated with the same key."""

    def tick(self) -> int:
        """A moment after all earlier ones."""
        return next(self._ticks)

    @property
    def last(self) -> int:
        """The highest sequence acknowledged."""
        return max(self.sent, default=0)

    async def enter(self, sequence: int, identifier: Mapping[str, Any], begun: int) -> None:
        """Note an acknowledgement."""
        assert sequence not in self.sent, f"{sequence} was given twice"
        self.sent[sequence] = identifier
        self.begun[sequence] = begun
        self.acknowledged[sequence] = self.tick()
        async with self._grown:
            self._grown.notify_all()

    async def until(self, count: int) -> None:
        """Wait until so many were acknowledged."""
        async with asyncio.timeout(PATIENCE_S), self._grown:
            await self._grown.wait_for(lambda: len(self.sent) >= count)

    def matching(self, wanted: Wanted, first: int = 1) -> list[int]:
        """The sequences a filter keeps, from one on."""
        return [s for s in sorted(self.sent) if s >= first and wanted.keeps(self.sent[s])]


class Publisher:
    """Publishes until it is told that it worked, always with the same key."""

    def __init__(self, book: Book, session: aiohttp.ClientSession, url: str, name: str) -> None:
        self._book = book
        self._session = session
        self._url = f"{url}/api/v1/notification"
        self._name = name
        self._numbers = itertools.count()

    async def try_once(self, identifier: Mapping[str, Any], payload: Any) -> int | None:
        """Publish without a key, and do not try again; None if nobody knows what became of it."""
        body = {"event_type": "storm", "identifier": identifier, "payload": payload}
        begun = self._book.tick()
        sequence = await self._attempt(body)
        if sequence is None:
            self._book.unclear.append(payload)
            return None
        await self._note(sequence, body, begun)
        return sequence

    async def publish(self, identifier: Mapping[str, Any], payload: Any = None) -> int:
        """Publish once, however often it has to be sent; the sequence."""
        key = f"{self._name}-{next(self._numbers)}"
        body = {
            "event_type": "storm",
            "identifier": identifier,
            "payload": key if payload is None else payload,
        }
        begun = self._book.tick()
        async with asyncio.timeout(PATIENCE_S):
            while (sequence := await self._attempt(body, key)) is None:
                self._book.refused += 1
                await asyncio.sleep(0.02)
        await self._note(sequence, body, begun)
        return sequence

    async def publish_many(self, bodies: Sequence[Mapping[str, Any]], *, atomic: bool) -> None:
        """Publish a batch, however often it has to be sent until all of it is stored."""
        key = f"{self._name}-{next(self._numbers)}"
        batch = {"atomic": atomic, "notifications": bodies}
        begun = self._book.tick()
        async with asyncio.timeout(PATIENCE_S):
            while (answer := await self._ask(self._url + "s", batch, key)) is None or (
                answer["status"] != "success"
            ):
                self._book.refused += 1
                await asyncio.sleep(0.02)
        sequences = [result["sequence"] for result in answer["results"]]
        if atomic:
            assert sequences == list(range(sequences[0], sequences[0] + len(bodies)))
        for sequence, body in zip(sequences, bodies, strict=True):
            self._book.contents[sequence] = body["payload"]
            await self._book.enter(sequence, body["identifier"], begun)

    async def _note(self, sequence: int, body: Mapping[str, Any], begun: int) -> None:
        self._book.contents[sequence] = body["payload"]
        self._book.given.setdefault(self._name, []).append(sequence)
        await self._book.enter(sequence, body["identifier"], begun)

    async def _attempt(self, body: Mapping[str, Any], key: str | None = None) -> int | None:
        answer = await self._ask(self._url, body, key)
        return None if answer is None else int(answer["sequence"])

    async def _ask(
        self, url: str, body: Mapping[str, Any], key: str | None
    ) -> dict[str, Any] | None:
        """The answer, None if it is a failure or does not come."""
        headers = {} if key is None else {"Idempotency-Key": key}
        patience = aiohttp.ClientTimeout(total=ATTEMPT_S)
        try:
            async with self._session.post(
                url, json=body, headers=headers, timeout=patience
            ) as response:
                answer: dict[str, Any] = await response.json()
        except (aiohttp.ClientConnectionError, TimeoutError):
            return None
        if response.status >= 500:
            # Whoever is refused for now is told when to come again.
            assert "Retry-After" in response.headers, answer
            return None
        assert response.status == 200, answer
        return answer


@dataclass(eq=False)
class Watcher:
    """One client that reads a stream in a task of its own, and can be made to stop reading."""

    book: Book
    url: str
    wanted: Wanted = EVERYTHING
    start: int | None = None
    """``from_id``; None is live only."""
    faithful: bool = False
    """Comes back after the last sequence when the connection breaks, as clients do."""
    operation: str = "watch"
    events: list[Event] = field(default_factory=list)
    received: list[int] = field(default_factory=list)
    payloads: list[Any] = field(default_factory=list)
    connections: int = 0
    reading: asyncio.Event = field(default_factory=asyncio.Event)
    asked: int = 0
    """When it was asked for."""
    established: int = 0
    """When the first frame had come: what is sent off later must arrive."""
    _grown: asyncio.Condition = field(default_factory=asyncio.Condition)
    _task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Connect, and return when the opening frame is there."""
        self.reading.set()
        self.asked = self.book.tick()
        self._task = asyncio.create_task(self._run())
        await self.until(lambda: bool(self.events))

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something is true of what was received."""
        async with asyncio.timeout(PATIENCE_S), self._grown:
            await self._grown.wait_for(lambda: holds() or self._ended())
        if self._task is not None and self._task.done():
            self._task.result()
        assert holds(), [event.kind for event in self.events[-5:]]

    async def until_sequence(self, sequence: int) -> None:
        """Wait until a sequence has come, or a later one."""
        await self.until(lambda: bool(self.received) and self.received[-1] >= sequence)

    async def until_kind(self, kind: str) -> None:
        """Wait until the newest frame is of that kind."""
        await self.until(lambda: bool(self.events) and self.events[-1].kind == kind)

    def kinds(self, *without: str) -> list[str]:
        """The sorts of frames, in order, some left out."""
        return [event.kind for event in self.events if event.kind not in without]

    @property
    def beats(self) -> int:
        """Heartbeats so far."""
        return self.kinds().count("heartbeat")

    async def end(self) -> None:
        """Hang up."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _ended(self) -> bool:
        return self._task is not None and self._task.done()

    async def _run(self) -> None:
        try:
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
                await self._connect(session)
                while self.faithful:
                    await self._connect(session)
        finally:
            async with self._grown:
                self._grown.notify_all()

    async def _connect(self, session: aiohttp.ClientSession) -> None:
        body: dict[str, Any] = {"event_type": "storm", "identifier": dict(self.wanted.identifier)}
        start = self.received[-1] + 1 if self.received else self.start
        if start is not None:
            body["from_id"] = str(start)
        try:
            async with session.post(f"{self.url}/api/v1/{self.operation}", json=body) as response:
                if self.faithful and response.status >= 500:
                    assert "Retry-After" in response.headers, await response.text()
                    await asyncio.sleep(0.1)
                    return
                assert response.status == 200, await response.text()
                self.connections += 1
                await self._read(Stream(response))
        except (aiohttp.ClientError, ConnectionError):
            if not self.faithful:
                raise
            await asyncio.sleep(0.02)

    async def _read(self, stream: Stream) -> None:
        while (event := await stream.next()) is not None:
            self.events.append(event)
            self.established = self.established or self.book.tick()
            if event.kind in {"replay", "live-notification"}:
                data = event.data
                self.received.append(data["sequence"])
                self.payloads.append(data["data"]["payload"])
            async with self._grown:
                self._grown.notify_all()
            await self.reading.wait()

    def check(self) -> None:
        """No gap, no duplicate, in order, nothing that was not asked for."""
        book, got = self.book, self.received
        first = self.start
        if first is None:
            first = got[0] if got else book.last + 1
            owed = [s for s in book.matching(self.wanted) if book.begun[s] > self.established]
            early = [s for s in got if book.acknowledged[s] < self.asked]
            assert set(owed) - set(got) - set(book.deleted) == set(), "begun after the opening"
            assert early == [], "stored before the request, so not live"
        kept = [s for s in got if s not in book.deleted]
        assert kept == [s for s in book.matching(self.wanted, first) if s not in book.deleted]
        assert got == sorted(set(got))
        assert [s for s in got if book.deleted.get(s, self.asked) < self.asked] == []

    def check_frames(self) -> None:
        """One opening, history, one ``replay_completed`` where there is history, then live."""
        kinds = self.kinds("heartbeat", "history_gap")
        history = kinds.count("replay")
        live = len(self.received) - history
        opening = ["connection_established"]
        if self.start is not None:
            opening = ["replay_started", *["replay"] * history, "replay_completed"]
        assert kinds == [*opening, *["live-notification"] * live]


class Weather:
    """A book, its publishers and its watchers."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.book = Book()
        self.url = url
        self.watchers: list[Watcher] = []
        self._session = session
        self._names = itertools.count()

    def publisher(self, url: str | None = None) -> Publisher:
        """One more publisher."""
        name = f"publisher-{next(self._names)}"
        return Publisher(self.book, self._session, url or self.url, name)

    async def watch(
        self, wanted: Wanted = EVERYTHING, start: int | None = None, **rest: Any
    ) -> Watcher:
        """One more watcher, connected."""
        url = rest.pop("url", self.url)
        watcher = Watcher(self.book, url, wanted, start, **rest)
        self.watchers.append(watcher)
        await watcher.begin()
        return watcher

    async def blow(self, count: int, *, publishers: int = 4, urls: Iterable[str] = ()) -> None:
        """A storm: several publishers at once, each one notification after the other."""
        addresses = itertools.cycle(urls or [self.url])
        async with asyncio.TaskGroup() as group:
            for _, url in zip(range(publishers), addresses, strict=False):
                group.create_task(self._blow(self.publisher(url), count))

    async def settle(self) -> None:
        """Wait until every watcher has everything, and check all of them."""
        last = await self.publisher().publish(LAST)
        for watcher in self.watchers:
            watcher.reading.set()
        for watcher in self.watchers:
            await watcher.until_sequence(last)
            watcher.check()

    async def delete(self, sequence: int) -> None:
        """Delete a notification."""
        self.book.deleted[sequence] = _NOT_YET
        url = f"{self.url}/api/v1/admin/notification/storm@{sequence}"
        async with self._session.delete(url) as response:
            assert response.status == 200, await response.text()
        self.book.deleted[sequence] = self.book.tick()

    async def wipe(self, stream: str = "storm") -> None:
        """Wipe a stream."""
        url = f"{self.url}/api/v1/admin/wipe/stream"
        async with self._session.delete(url, json={"stream_name": stream}) as response:
            assert response.status == 200, await response.text()

    async def end(self) -> None:
        """Hang up everywhere."""
        for watcher in self.watchers:
            await watcher.end()

    @staticmethod
    async def _blow(publisher: Publisher, count: int) -> None:
        regions = itertools.cycle(["north", "south", "east"])
        severities = itertools.cycle(range(1, 8))
        for _ in range(count):
            await publisher.publish({"region": next(regions), "severity": next(severities)})


@asynccontextmanager
async def weather(url: str) -> AsyncIterator[Weather]:
    """Publishers and watchers of one server; the watchers hang up with the block."""
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    timeout = aiohttp.ClientTimeout(total=PATIENCE_S)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        made = Weather(session, url)
        try:
            yield made
        finally:
            await made.end()
