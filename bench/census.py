"""What a server holds: memory, files, tasks and consumers; and whether it let go of it again."""

import asyncio
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic

from bench.served import Served
from nats.js import JetStreamContext

SETTLE_S = 60.0
"""How long a server may take to let go: heartbeats, timeouts of heads, the life of a consumer."""
LOOK_S = 0.5
MEBIBYTE = 1024 * 1024
SLACK_BYTES = 12 * MEBIBYTE
"""Heaps have holes: memory may end this much, and a tenth, above where it began."""


@dataclass(frozen=True, slots=True)
class Census:
    """What a server holds at one moment."""

    memory_bytes: int
    descriptors: int
    tasks: int
    consumers: int
    """Of all streams in NATS."""

    def beyond(self, before: "Census") -> Iterator[str]:
        """What is left over compared with the beginning, in words."""
        most = before.memory_bytes * 11 // 10 + SLACK_BYTES
        if self.memory_bytes > most:
            began, ended = (round(each / MEBIBYTE) for each in (most, self.memory_bytes))
            yield f"memory ends at {ended} MiB, at most {began} expected"
        for name in ("descriptors", "tasks", "consumers"):
            began, ended = getattr(before, name), getattr(self, name)
            if ended > began:
                yield f"{name} end at {ended}, began at {began}"


async def take(server: Served, api: JetStreamContext) -> Census:
    """Count now."""
    streams = await api.streams_info()
    tasks = await asyncio.to_thread(server.tasks)
    consumers = sum(stream.state.consumer_count for stream in streams)
    return Census(server.rss_bytes(), server.descriptors(), tasks, consumers)


async def settle(server: Served, api: JetStreamContext, before: Census | None = None) -> Census:
    """Count when the server has let go of everything, or had the time to.

    Without a beginning to compare with, this is when two looks see the same.
    """
    end = monotonic() + SETTLE_S
    last = await take(server, api)
    while monotonic() < end:
        await asyncio.sleep(LOOK_S)
        now = await take(server, api)
        if before is None:
            steady = abs(now.memory_bytes - last.memory_bytes) < MEBIBYTE
            if steady and now.descriptors == last.descriptors and now.tasks == last.tasks:
                return now
        elif not list(now.beyond(before)):
            return now
        last = now
    return last


def raise_file_limit() -> int:
    """Let this process, and the server it starts, open as many files as they may; how many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
