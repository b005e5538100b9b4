"""The seam between history and live, as a property.

Hypothesis draws an interleaving of publishing, opening feeds, stalling and releasing readers,
deletions and broken tails, with tiny queues and batches. Whatever the interleaving, each feed
delivers exactly its matching sequences, ascending, once, with ``replay_completed`` between.
"""

from dataclasses import dataclass, replace

import pytest
from backends.contract import notification
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from support.faults import FaultyBackend
from support.fuzz import examples
from support.relay import Reader, Relay, asked, relay

from aviso_server.core.filter import Filter
from aviso_server.core.geometry import Area
from aviso_server.core.json import Json
from aviso_server.core.operation import Operation
from aviso_server.core.spatial import Intersects
from aviso_server.relay.hub import Keep, Recovery

REGIONS = "nsew"
FILTERS = [None, "n", "s"]
AREAS = {
    region: Area.of(((lat, 0.0), (lat, 1.0), (lat + 1.0, 1.0), (lat, 0.0)))
    for lat, region in zip((0.0, 2.0, 4.0, 6.0), REGIONS, strict=True)
}

steps = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from(REGIONS)),
    st.tuples(st.just("burst"), st.integers(1, 8)),
    st.tuples(st.just("watch"), st.sampled_from(FILTERS)),
    st.tuples(st.just("from"), st.tuples(st.sampled_from(FILTERS), st.integers(0, 12))),
    st.tuples(st.just("replay"), st.tuples(st.sampled_from(FILTERS), st.integers(0, 12))),
    st.tuples(st.just("stall"), st.integers(0, 5)),
    st.tuples(st.just("release"), st.integers(0, 5)),
    st.tuples(st.just("settle"), st.integers(1, 6)),
    st.tuples(st.just("break"), st.just(0)),
)


@dataclass
class Opened:
    """A feed, what it asked for, and where the log ended when it was set up."""

    reader: Reader
    region: str | None
    start: int | None
    boundary: int
    live: bool


class Simulation:
    """Runs the drawn steps and keeps the log a second time, as a plain list."""

    def __init__(self, world: Relay, backend: FaultyBackend, *, places: bool) -> None:
        self.world = world
        self.backend = backend
        self.places = places
        """Whether regions are areas on the map and asked for by place."""
        self.log: list[str] = []
        self.feeds: list[Opened] = []

    async def step(self, action: str, value: object) -> None:
        """Do one drawn step."""
        match action, value:
            case "publish", str(region):
                await self.publish(region)
            case "burst", int(count):
                for number in range(count):
                    await self.publish(REGIONS[number % len(REGIONS)])
            case "watch", region:
                await self.open(region, None, live=True)
            case "from", (region, int(start)):
                await self.open(region, start, live=True)
            case "replay", (region, int(start)):
                await self.open(region, start, live=False)
            case "stall", int(index) if self.feeds:
                self.feeds[index % len(self.feeds)].reader.open.clear()
            case "release", int(index) if self.feeds:
                self.feeds[index % len(self.feeds)].reader.open.set()
            case "settle", int(turns):
                await self.world.settle(turns)
            case "break", _:
                self.backend.break_tails()

    async def publish(self, region: str) -> None:
        """Publish, and note it."""
        self.log.append(region)
        item = notification({"region": region})
        if self.places:
            item = structs.replace(item, geometry=AREAS[region])
        appended = await self.world.backend.append(item, key=f"seam-{len(self.log)}")
        assert appended.sequence == len(self.log)

    async def open(self, region: object, start: int | None, *, live: bool) -> None:
        """Open a feed, and note where the log ended."""
        identifier: dict[str, Json] = {"region": str(region)} if region else {}
        begin = {} if start is None else {"from_id": str(start)}
        query = asked(Operation.WATCH if live else Operation.REPLAY, identifier, **begin)
        if self.places and region:
            query = replace(query, filter=Filter(spatial=Intersects(AREAS[str(region)])))
        boundary = len(self.log)
        reader = await self.world.open(query)
        self.feeds.append(Opened(reader, str(region) if region else None, start, boundary, live))

    def expected(self, feed: Opened) -> tuple[list[int], list[int]]:
        """What the feed must have delivered as history and as live."""
        matching = [
            sequence for sequence, region in enumerate(self.log, 1) if feed.region in (None, region)
        ]
        start = feed.boundary + 1 if feed.start is None else feed.start
        history = [s for s in matching if start <= s <= feed.boundary]
        return history, [s for s in matching if s > feed.boundary] if feed.live else []


DRAWN = (
    st.lists(steps, max_size=40),
    st.integers(1, 6),
    st.integers(1, 5),
    st.sampled_from([None, Keep(2000), Keep(8000, frozenset({"ev"}))]),
)


@given(*DRAWN)
@settings(max_examples=examples(100))
async def test_every_feed_delivers_exactly_what_it_asked_for(
    script: list[tuple[str, object]], queue_size: int, batch_size: int, keep: Keep | None
) -> None:
    """No gap, no duplicate, in order, replay_completed exactly at H, whatever happens around."""
    await simulate(script, queue_size, batch_size, keep, places=False)


@given(*DRAWN)
@settings(max_examples=examples(50))
async def test_every_feed_delivers_exactly_the_places_it_asked_for(
    script: list[tuple[str, object]], queue_size: int, batch_size: int, keep: Keep | None
) -> None:
    """The same where every spatial test is waited for, while others join, leave and publish."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aviso_server.relay.places.LITTLE_WORK", -1)
        patch.setattr("aviso_server.relay.places.RUN_WORK", 1)
        await simulate(script, queue_size, batch_size, keep, places=True)


async def simulate(
    script: list[tuple[str, object]],
    queue_size: int,
    batch_size: int,
    keep: Keep | None,
    *,
    places: bool,
) -> None:
    """Run a script, and hold every feed against the log."""
    backend = FaultyBackend()
    recovery = Recovery(attempts=1000, delay_s=0)
    async with relay(
        backend,
        recovery=recovery,
        keep=keep,
        queue_size=queue_size,
        batch_size=batch_size,
        heartbeat_s=3600.0,
    ) as world:
        simulation = Simulation(world, backend, places=places)
        for action, value in script:
            await simulation.step(action, value)
        await simulation.publish("n")
        await simulation.publish("s")
        for feed in simulation.feeds:
            feed.reader.open.set()
            history, live = simulation.expected(feed)
            await feed.reader.until_count(len(history + live))
            if not feed.live:
                await feed.reader.end()
            kinds = [k for k in feed.reader.kinds if k != "heartbeat"]
            begun = ["connection_established"] if feed.start is None else ["replay_started"]
            between = [] if feed.start is None else ["replay_completed"]
            ended = [] if feed.live else ["end_of_stream"]
            assert feed.reader.sequences == history + live
            assert kinds == [
                *begun,
                *["replay"] * len(history),
                *between,
                *["live-notification"] * len(live),
                *ended,
            ]
