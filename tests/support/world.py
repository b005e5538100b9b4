"""Servers, NATS, a lake, producers and watchers as real processes and connections, to be harmed.

A world runs until it is told to settle. Then everything is mended, and everything that anybody saw
or stored is handed to the checker (support/checker.py) as plain facts.
"""

import asyncio
import contextlib
import json
import os
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from backends.jetstream.conftest import eventually
from deltalake import DeltaTable
from support.cable import Cable, cable
from support.checker import Facts, Reader, Seen, violations
from support.cluster import free_port
from support.config import document, on_jetstream
from support.microbatch import Checkpoint, archive
from support.nats import NatsServer
from support.process import ServerProcess
from support.sse import Stream
from support.storm import PATIENCE_S, Wanted, Watcher, Weather, weather

from aviso_server.core.json import Json
from aviso_server.lake.layout import Place
from aviso_server.pipeline.source.failure import Unreached

ARCHIVED_S = 300
"""For all that is left to archive, in small batches and to an object store at the slowest."""

NOTE = "\u00a0Straße, \u201cno.rth\u201d*>%41\u3000"
"""Odd at both ends and in the middle."""

SCHEMA: dict[str, Any] = {
    "topic": {"base": "storm", "key_order": ["region", "note"]},
    "identifier": {
        "region": {"type": "EnumHandler", "required": False, "values": ["north", "south"]},
        "note": {"type": "StringHandler", "required": True},
        "severity": {"type": "IntHandler", "required": False, "range": [1, 7]},
        "polygon": {"type": "PolygonHandler", "required": True},
    },
}
"""Required fields, one outside the topic, and an area."""

AREA = [[50.5, 6.5], [51.5, 6.5], [51, 7.5], [50.5, 6.5]]
ALL = Wanted(
    {"note": NOTE, "polygon": [[50, 6], [52, 6], [52, 8], [50, 8], [50, 6]]}, lambda _: True
)


def identifier(draw: random.Random) -> dict[str, Any]:
    """What a notification is about."""
    region = draw.choice(["north", "South"])
    return {"region": region, "note": NOTE, "severity": draw.randint(1, 7), "polygon": AREA}


@dataclass
class World:
    """Everything there is, and what may be done to it."""

    folder: Path
    storm: Weather
    nats: list[NatsServer]
    cables: list[Cable]
    draw: random.Random
    port: int
    workers: int = 1
    server: ServerProcess | None = None
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    place: Place | None = None
    """Where the lake is; below the folder unless said."""
    archived_to: Place | None = None
    """The same as the archive reaches it, if otherwise."""
    gone: set[int] = field(default_factory=set)
    _busy: list[asyncio.Task[None]] = field(default_factory=list)
    _enough: asyncio.Event = field(default_factory=asyncio.Event)
    _going: asyncio.Event = field(default_factory=asyncio.Event)
    _sending: int = 0

    @property
    def lake(self) -> Place:
        """The lake."""
        return self.place or Place(str(self.folder / "lake"))

    @property
    def log(self) -> str:
        """Where the log is, for jobs."""
        return ",".join(server.url for server in self.nats)

    def configuration(self) -> dict[str, Json]:
        """The configuration of the server; it reaches NATS over the cables."""
        addresses = ",".join(f"nats://127.0.0.1:{item.port}" for item in self.cables)
        replicas: dict[str, Json] = {"replicas": 3} if len(self.nats) == 3 else {}
        lake: dict[str, Json] = {"path": self.lake.path}
        if self.lake.options:
            lake["storage_options"] = dict(self.lake.options)
        return document(
            {
                **on_jetstream(addresses or self.log, **replicas),
                "lake": lake,
                "watch_endpoint": {
                    "sse_heartbeat_interval_sec": 1,
                    "max_historical_notifications": 1_000_000,
                },
            },
            schemas={"storm": SCHEMA},
        )

    async def serve(self) -> None:
        """Start the server, again on the same port."""
        config = self.folder / "config.yaml"
        config.write_text(yaml.safe_dump(self.configuration()))
        arguments = ["--port", str(self.port)]
        if self.workers > 1:
            arguments += ["--workers", str(self.workers)]
        self.server = await asyncio.to_thread(ServerProcess, config, *arguments)

    async def kill_server(self) -> None:
        """End the server without notice."""
        assert self.server is not None
        await asyncio.to_thread(self.server.kill)

    def signal_server(self, number: signal.Signals) -> None:
        """Send a signal to the server."""
        assert self.server is not None
        self.server.signal(number)

    def children(self) -> list[int]:
        """The processes that the server started."""
        assert self.server is not None
        pid = self.server.process.pid
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(child) for child in found]

    def signal_child(self, number: signal.Signals) -> int:
        """Send a signal to one worker; which."""
        for worker in self.draw.sample(found := self.children(), len(found)):
            # One that was killed a moment ago may still be listed.
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, number)
                return worker
        raise AssertionError("there is no worker")

    async def archive(self) -> None:
        """Archive what the log has, as the job does it, without Spark."""
        to = self.archived_to or self.lake
        await archive(to, {"servers": self.log}, self.checkpoint, most=200, once=True)

    def begin(self, producers: int = 4, watchers: int = 3) -> None:
        """Let producers produce and watchers watch."""
        self.go()
        for number in range(producers):
            self._run(self._produce(number, keyed=number % 4 != 3))
        self._run(self._produce_batches())
        for number in range(watchers):
            watcher = Watcher(self.storm.book, self.storm.url, ALL, None if number == 0 else 1)
            watcher.faithful = True
            self.storm.watchers.append(watcher)
            self._run(watcher.begin())

    async def quiet(self) -> None:
        """Let producers wait for their answers and send nothing more, until ``go``."""
        self._going.clear()
        await eventually(lambda: self._sending == 0)

    def go(self) -> None:
        """Let producers send."""
        self._going.set()

    async def stored(self, more: int) -> None:
        """Wait until that many more were acknowledged."""
        await self.storm.book.until(len(self.storm.book.sent) + more)

    async def settle(self) -> Facts:
        """Stop producing, wait until every watcher has everything; what is known then."""
        self._enough.set()
        self.go()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*self._busy)
        last = await self.storm.publisher().publish(identifier(self.draw), "the last one")
        for watcher in self.storm.watchers:
            await watcher.until_sequence(last)
        async with asyncio.timeout(ARCHIVED_S):
            while not await self._archives():  # noqa: ASYNC110 - nobody announces it
                await asyncio.sleep(0.1)
        return await self.facts()

    async def _archives(self) -> bool:
        """Archive, as often as it takes: the job tries again, too, while NATS does not answer."""
        try:
            await self.archive()
        except Unreached:
            return False
        return True

    async def facts(self) -> Facts:
        """Everything that is known now."""
        book = self.storm.book
        history = await self.replay()
        table = await asyncio.to_thread(rows, self.lake)
        mark = await asyncio.to_thread(mark_of, self.lake)
        readers = [
            Reader(
                f"watcher {number}",
                list(zip(watcher.received, watcher.payloads, strict=True)),
                first=watcher.start,
                through=history[-1][0] if history else 0,
            )
            for number, watcher in enumerate(self.storm.watchers)
        ]
        middle = self.draw.randint(1, max(1, len(history)))
        parts = [await self.replay(middle), await self.replay(1, middle)]
        readers += [Reader("replay of the end", parts[0], first=middle)]
        readers += [Reader("replay of the beginning", parts[1], first=1, through=middle)]
        return Facts(
            acknowledged=dict(book.contents),
            unknown=list(book.unclear),
            producers=list(book.given.values()),
            history=history,
            readers=readers,
            table=table,
            mark=mark,
            gone=frozenset(self.gone),
        )

    async def replay(self, first: int = 1, last: int | None = None) -> list[Seen]:
        """What a replay shows; it must say that it is complete."""
        body: dict[str, Any] = {"event_type": "storm", "identifier": dict(ALL.identifier)}
        body |= {"from_id": str(first)} | ({} if last is None else {"to_id": str(last)})
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self.storm.url}/api/v1/replay", json=body) as response,
        ):
            assert response.status == 200, await response.text()
            events = await Stream(response).rest()
        kinds = [event.kind for event in events]
        assert kinds[-2:] == ["replay_completed", "end_of_stream"], kinds[-3:]
        found = [event.data for event in events if event.kind == "replay"]
        assert all(item["data"]["identifier"]["note"] == NOTE for item in found)
        return [(item["sequence"], item["data"]["payload"]) for item in found]

    async def check(self) -> int:
        """Settle, and let the checker judge; how many were acknowledged."""
        facts = await self.settle()
        found = violations(facts)
        assert not found, "\n".join([f"{len(found)} violations, such as", *found[:12]])
        return len(facts.acknowledged)

    async def end(self) -> None:
        """Stop everything that this world started."""
        self._enough.set()
        for task in self._busy:
            task.cancel()
        await asyncio.gather(*self._busy, return_exceptions=True)
        if self.server is not None:
            await self.kill_server()

    def _run(self, work: Awaitable[None]) -> None:
        self._busy.append(asyncio.ensure_future(work))

    async def _produce(self, number: int, *, keyed: bool) -> None:
        publisher = self.storm.publisher()
        draw = random.Random(self.draw.random())
        count = 0
        while not self._enough.is_set():
            count += 1
            content = f"producer {number}, notification {count}: \u2028é"
            await self._going.wait()
            self._sending += 1
            if keyed:
                await publisher.publish(identifier(draw), content)
            else:
                await publisher.try_once(identifier(draw), content)
            self._sending -= 1
            await asyncio.sleep(0.002 if keyed else 0.02)

    async def _produce_batches(self) -> None:
        """Large enough to be stored together; every second one must be."""
        publisher = self.storm.publisher()
        draw = random.Random(self.draw.random())
        count = 0
        while not self._enough.is_set():
            count += 1
            bodies = [
                {
                    "event_type": "storm",
                    "identifier": identifier(draw),
                    "payload": f"batch {count}, notification {number}",
                }
                for number in range(20)
            ]
            await self._going.wait()
            self._sending += 1
            await publisher.publish_many(bodies, atomic=count % 2 == 0)
            self._sending -= 1
            await asyncio.sleep(0.1)


@asynccontextmanager
async def world(
    folder: Path,
    nats: list[NatsServer],
    seed: int,
    *,
    cabled: bool = False,
    workers: int = 1,
    place: Place | None = None,
) -> AsyncIterator[World]:
    """A world that produces and watches; it is ended with the block."""
    port = free_port()
    async with AsyncExitStack() as stack:
        cables = []
        if cabled:
            cables = [await stack.enter_async_context(cable(item.port)) for item in nats]
        storm = await stack.enter_async_context(weather(f"http://127.0.0.1:{port}"))
        made = World(folder, storm, nats, cables, random.Random(seed), port, workers, place=place)
        stack.push_async_callback(made.end)
        await made.serve()
        made.begin()
        yield made


def rows(place: Place) -> list[Seen]:
    """The rows of the table, read by deltalake alone."""
    table = DeltaTable(place.table("notifications"), storage_options=dict(place.options))
    found = table.to_pyarrow_table(columns=["sequence", "payload"]).to_pylist()
    return [(row["sequence"], json.loads(row["payload"])) for row in found]


def mark_of(place: Place) -> int:
    """The mark of the table, read by deltalake alone."""
    table = DeltaTable(place.table("notifications"), storage_options=dict(place.options))
    return table.transaction_version("aviso:storm") or 0


Harm = Callable[[World], Awaitable[None]]
"""Something that goes wrong while a world runs, and is mended before it returns."""
