"""A relay without HTTP: feeds whose reader the test holds in its hand."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from backends.contract import OPEN, notification
from support.sse import Event, sequences

from aviso_server.backends.backend import Backend
from aviso_server.backends.memory.backend import MemoryBackend, MemoryLimits
from aviso_server.core.cloudevent import Renderer
from aviso_server.core.json import Json
from aviso_server.core.operation import Operation
from aviso_server.core.wire import parse_request
from aviso_server.relay.feed import Feed, Sources
from aviso_server.relay.history import Tiers
from aviso_server.relay.hub import Hub, Keep, Recovery
from aviso_server.relay.lake import LakeTier
from aviso_server.relay.pulse import Stop
from aviso_server.relay.query import Query, StreamRules, query_of
from aviso_server.relay.readers import Readers
from aviso_server.relay.subscription import Chunk

NOW_NS = 1_772_618_400_000_000_000
"""2026-03-04T10:00:00Z, the instant of the protocol's examples."""

REQUEST_ID = "0d4f6758-1ce3-4dda-a0f3-0ccf5fcb50d6"


@dataclass
class Reader:
    """One feed and what it has sent; reading can be stalled."""

    feed: Feed
    sent: list[bytes] = field(default_factory=list)
    open: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    async def send(self, frames: bytes) -> None:
        """What the HTTP edge would do: take the bytes, sometimes only later."""
        await self.open.wait()
        self.sent.append(frames)

    async def deliver(self, chunk: Chunk) -> None:
        """The same for a chunk of the hub."""
        await self.send(chunk.frames)

    def pass_on(self, chunk: Chunk) -> bool:
        """What an idle connection does."""
        if not self.open.is_set() or not chunk.same_for_all:
            return False
        self.sent.append(chunk.frames)
        return True

    @property
    def events(self) -> list[Event]:
        """The frames sent so far."""
        frames = b"".join(self.sent).split(b"\n\n")
        assert frames.pop() == b""
        return [Event(frame + b"\n\n") for frame in frames]

    @property
    def kinds(self) -> list[str]:
        """What sort of frames they are."""
        return [event.kind for event in self.events]

    @property
    def sequences(self) -> list[int]:
        """The sequences delivered."""
        return sequences(self.events)

    async def until(self, condition: Callable[["Reader"], bool]) -> None:
        """Let the loop run until something is true of the reader."""
        async with asyncio.timeout(20):
            while not condition(self):
                if self.task is not None and self.task.done():
                    self.task.result()
                    assert condition(self), self.kinds
                    return
                await asyncio.sleep(0)

    async def until_sequence(self, sequence: int) -> None:
        """Until a notification was delivered."""
        await self.until(lambda reader: sequence in reader.sequences)

    async def until_count(self, count: int) -> None:
        """Until so many notifications were delivered."""
        await self.until(lambda reader: len(reader.sequences) >= count)

    async def end(self) -> list[Event]:
        """Until the stream has ended by itself; all its frames."""
        async with asyncio.timeout(20):
            assert self.task is not None
            await self.task
        return self.events


class Relay:
    """A hub over a backend, and readers."""

    def __init__(self, sources: Sources, backend: Backend, stack: AsyncExitStack) -> None:
        self.sources = sources
        self.backend = backend
        self._stack = stack
        self._keys = 0

    async def publish(self, region: str = "n", payload: Json = None, *, count: int = 1) -> None:
        """Append notifications of event type ``ev``."""
        item = notification({"region": region}, payload)
        for _ in range(count):
            self._keys += 1
            await self.backend.append(item, key=f"relay-{self._keys}")

    async def open(self, query: Query, *, stalled: bool = False) -> Reader:
        """Set a feed up and run it."""
        feed = Feed(self.sources, query)
        self._stack.callback(feed.close)
        await feed.open()
        reader = Reader(feed)
        if not stalled:
            reader.open.set()
        reader.task = asyncio.create_task(feed.run(reader))
        self._stack.push_async_callback(_cancelled, reader.task)
        return reader

    async def watch(self, identifier: Mapping[str, Json] | None = None, /, **rest: Any) -> Reader:
        """Open a watch on ``ev``; ``stalled=True`` for a reader that does not read yet."""
        stalled = rest.pop("stalled", False)
        return await self.open(asked(Operation.WATCH, identifier, **rest), stalled=stalled)

    async def left_behind(self, count: int) -> Reader:
        """A watcher that has stopped reading since it is live, and so many later ones."""
        reader = await self.watch()
        await reader.until(lambda r: len(r.sent) == 2)
        reader.open.clear()
        for _ in range(count):
            await self.publish()
            await self.settle(2)
        return reader

    async def replay(self, identifier: Mapping[str, Json] | None = None, /, **rest: Any) -> Reader:
        """Open a replay on ``ev``."""
        return await self.open(asked(Operation.REPLAY, identifier, **rest))

    async def replayed(
        self, identifier: Mapping[str, Json] | None = None, /, **rest: Any
    ) -> Reader:
        """A replay on ``ev`` that has ended by itself."""
        reader = await self.replay(identifier, **rest)
        await reader.end()
        return reader

    async def settle(self, turns: int = 20) -> None:
        """Let everything that can move, move."""
        for _ in range(turns):
            await asyncio.sleep(0)


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def asked(
    operation: Operation, identifier: Mapping[str, Json] | None = None, /, **rest: Any
) -> Query:
    """A checked query, from the JSON a client would send."""
    event_type = rest.pop("event_type", "ev")
    expires_at_ns = rest.pop("expires_at_ns", None)
    body = {"event_type": event_type, "identifier": dict(identifier or {}), **rest}
    request = parse_request(json.dumps(body).encode())
    query = query_of(OPEN.find(str(event_type)), request, operation, request_id=REQUEST_ID)
    return replace(query, expires_at_ns=expires_at_ns)


@asynccontextmanager
async def relay(
    backend: Backend | None = None,
    *,
    recovery: Recovery | None = None,
    keep: Keep | None = None,
    renderer: Renderer | None = None,
    lake: LakeTier | None = None,
    readers: Readers | None = None,
    **rules: float,
) -> AsyncIterator[Relay]:
    """A relay over a memory backend, or the one given."""
    async with AsyncExitStack() as stack:
        kept = backend or MemoryBackend(MemoryLimits(), now_ns=lambda: NOW_NS)
        renderer = renderer or Renderer("http://localhost:8000")
        hub = await stack.enter_async_context(
            Hub(kept, renderer, recovery or Recovery(), keep=keep)
        )
        history = Tiers(kept, hub.recent, lake=lake)
        stream_rules = StreamRules(**rules)  # type: ignore[arg-type]
        sources = Sources(
            hub,
            history,
            renderer,
            stream_rules,
            Stop(),
            lambda: NOW_NS,
            readers=readers or Readers(),
        )
        yield Relay(sources, kept, stack)
