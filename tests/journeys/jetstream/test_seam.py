"""The seam between history and live on JetStream, over real sockets (D4, D8, D10).

A seeded simulation: publishers, watchers that come at any time with any start and filter, readers
that stall, deletions, and consumers that disappear on the NATS side. Queues, batches and the
memory tail are small, so that every switch between the tiers happens many times.
"""

import asyncio
import random

import pytest
from nats.js import JetStreamContext
from support.jetstream import behind, lose_consumers, stormy
from support.nats import NatsServer
from support.storm import FILTERS, LAST, Weather

from aviso_server.core.json import Json

STORED = 240
"""Notifications of one simulation."""


class Simulation:
    """Plays one script, drawn from a seed."""

    def __init__(self, seed: int, storm: Weather, api: JetStreamContext) -> None:
        self.chance = random.Random(seed)
        self.storm = storm
        self.api = api

    async def play(self) -> None:
        """Publish everything while the rest happens at drawn moments."""
        steps = [*[self.watch] * 14, *[self.stall] * 6, *[self.delete] * 5, *[self.harm] * 3]
        self.chance.shuffle(steps)
        moments = sorted(self.chance.randrange(STORED) for _ in steps)
        async with asyncio.TaskGroup() as group:
            for number in range(4):
                group.create_task(self.publish(random.Random(number), STORED // 4))
            for moment, step in zip(moments, steps, strict=True):
                await self.storm.book.until(moment)
                await step()
        await self.storm.settle()

    async def publish(self, chance: random.Random, count: int) -> None:
        """Publish one after the other, or several at once."""
        publisher = self.storm.publisher()
        while count:
            burst = min(count, chance.choice([1, 1, 1, 8]))
            count -= burst
            async with asyncio.TaskGroup() as group:
                for _ in range(burst):
                    region = chance.choice(["north", "south", "east"])
                    sent = {"region": region, "severity": chance.randint(1, 7)}
                    group.create_task(publisher.publish(sent))

    async def watch(self) -> None:
        """Begin live, or anywhere between the first sequence and a little before the last."""
        start = self.chance.choice([None, 1, self.chance.randint(1, self.storm.book.last + 1)])
        await self.storm.watch(self.chance.choice(FILTERS), start)

    async def stall(self) -> None:
        """Stop some reader, and let others go on."""
        for watcher in self.storm.watchers:
            watcher.reading.set()
        if self.storm.watchers:
            self.chance.choice(self.storm.watchers).reading.clear()

    async def delete(self) -> None:
        """Delete one; who asks later must not get it."""
        left = [s for s in self.storm.book.sent if s not in self.storm.book.deleted]
        if left:
            await self.storm.delete(self.chance.choice(left))

    async def harm(self) -> None:
        """Delete the consumers that the server follows the stream with (D7)."""
        await lose_consumers(self.api)


@pytest.mark.parametrize("seed", range(6))
async def test_every_watcher_gets_exactly_what_it_asked_for(
    seed: int, nats: NatsServer, account: dict[str, Json]
) -> None:
    """D4: no gap, no duplicate, in order, history before live, whatever happens around."""
    chance = random.Random(seed)
    watch: dict[str, Json] = {
        "client_queue_size": chance.choice([1, 8, 100]),
        "replay_batch_size": chance.choice([3, 20]),
        "replay_batch_delay_ms": chance.choice([0, 1]),
    }
    tail = chance.choice([0, 20_000, 1 << 20])
    async with (
        stormy(nats, {"memory_tail_bytes": tail, **account}, watch=watch) as storm,
        behind(nats, account) as api,
    ):
        await storm.publisher().publish(LAST)
        await Simulation(seed, storm, api).play()
        for watcher in storm.watchers:
            watcher.check_frames()
        assert sorted(storm.book.sent) == list(range(1, STORED + 3))
