"""A seeded simulation of publishers, watchers that come and stall, and deletions."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from support.storm import FILTERS, Weather

STORED = 240
"""Notifications of one simulation."""


class Simulation:
    """Plays one script, drawn from a seed."""

    def __init__(
        self, seed: int, storm: Weather, harm: Callable[[], Awaitable[object]] | None = None
    ) -> None:
        self.chance = random.Random(seed)
        self.storm = storm
        self.harm = harm
        """Something that goes wrong behind the server's back."""

    async def play(self) -> None:
        """Publish everything while the rest happens at drawn moments."""
        steps: list[Callable[[], Awaitable[object]]] = [
            *[self.watch] * 14,
            *[self.stall] * 6,
            *[self.delete] * 5,
        ]
        if self.harm is not None:
            steps += [self.harm] * 3
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
