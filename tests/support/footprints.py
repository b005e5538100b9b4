"""What things really take: makes many of a kind in a process of its own, and looks at its size.

Run as ``python -m support.footprints KIND...``; prints a line of JSON for each: how many, and the
bytes counted and taken.
"""

import asyncio
import gc
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from backends.contract import OPEN, filter_of, notification

from aviso_server.backends.backend import Bounds
from aviso_server.backends.jetstream.answers import read_fields
from aviso_server.backends.jetstream.messages import Stored, decode, encode
from aviso_server.backends.memory.backend import MemoryBackend, MemoryLimits
from aviso_server.backends.memory.keys import Keys
from aviso_server.core import footprint
from aviso_server.core.cloudevent import Renderer
from aviso_server.core.filter import Filter
from aviso_server.core.frame import LIVE
from aviso_server.core.json import Json
from aviso_server.core.notification import Notification, Record
from aviso_server.relay.index import Index
from aviso_server.relay.recent import Recent, Room
from aviso_server.relay.render import render
from aviso_server.relay.subscription import Chunk

PLENTY = 10**12


@dataclass(frozen=True)
class Made:
    """What was made: nothing yet, then everything."""

    counted: int = 0
    """Bytes, by our own accounting."""
    made: int = 0
    """How many things."""


def resident_bytes(pid: int | None = None) -> int:
    """What a process takes now; this one unless told otherwise."""
    gc.collect()
    return int(Path(f"/proc/{pid or 'self'}/statm").read_text().split()[1]) * 4096


def minimal(number: int) -> Notification:
    """As little as a notification can be."""
    return notification({"region": "n"}, number)


def cloud(number: int) -> Notification:
    """As many points as fit into the longest cloud."""
    points: list[Json] = [[float((i + number) % 9), 2.0] for i in range(6100)]
    return notification({"date": "20250706", "point_cloud": points}, None, "observations")


def area(number: int) -> Notification:
    """An area of a hundred points."""
    ring: list[Json] = [[i * 0.5, (number + i * i) % 97 * 0.5] for i in range(100)]
    return notification({"date": "20250706", "polygon": [*ring, ring[0]]}, None, "area")


def payload(number: int) -> Notification:
    """A long payload."""
    return notification({"region": "n"}, f"{number:010}" * 1000)


def fields(number: int) -> Notification:
    """Many fields that are no topic tokens of a schema."""
    return notification({f"field{n}": f"{n} {number}" for n in range(12)}, None, "made_up")


def stored(make: Callable[[int], Notification], count: int, **limits: int) -> Iterator[Made]:
    """Notifications in the memory backend, with the keys that came with them."""
    backend = MemoryBackend(MemoryLimits(max_bytes=PLENTY, **limits), now_ns=time.time_ns)
    loop = asyncio.new_event_loop()
    yield Made()
    for number in range(count):
        key = f"anonymous/0d4f6758-1ce3-4dda-a0f3-{number:012x}"
        loop.run_until_complete(backend.append(make(number), key=key))
    yield Made(backend.total_bytes, count)
    loop.close()


def held(make: Callable[[int], Notification], count: int) -> Iterator[Made]:
    """Notifications read from JetStream and kept in the memory tail."""
    room = Room(PLENTY)
    recent = Recent(Bounds(1, 0), PLENTY, room)
    yield Made()
    for number in range(1, count + 1):
        item = make(number)
        schema = OPEN.find(item.event_type)
        message = encode(schema, item, "key")
        headers = read_fields(message.head)
        body = bytes(memoryview(message.body))
        entry = decode(schema, Stored(number, number, message.subject, headers, body))
        recent.add([entry])
    yield Made(room.total_bytes, count)


def remembered(count: int) -> Iterator[Made]:
    """Idempotency keys alone."""
    keys = Keys(PLENTY)
    item = minimal(0)
    yield Made()
    for number in range(1, count + 1):
        keys.remember(Record(number, time.time_ns(), item), f"anonymous/{number:0100}")
    yield Made(keys.total_bytes, count)


def asked(make: Callable[[int], Filter], count: int) -> Iterator[Made]:
    """Filters in the index of the hub, each in a group of its own."""
    index: Index[int] = Index()
    tried = [minimal(1), area(1), notification(_EXTREME, None, "extreme")]
    yield Made()
    counted = 0
    for number in range(count):
        wanted = make(number)
        index.add(wanted, number)
        counted += footprint.of_stream(wanted) - footprint.STREAM
    for item in tried:
        list(index.matching(item))  # some of a filter is worked out when it is first asked
    yield Made(counted, count)


_EXTREME: dict[str, Json] = {
    "region": "north",
    "run_time": "1200",
    "severity": 4,
    "anomaly": 3.5,
}


def by_text(number: int) -> Filter:
    """A filter that fixes a key."""
    return filter_of("ev", {"region": f"r{number}"})


def by_list(number: int) -> Filter:
    """A filter with a long list of values."""
    return filter_of("extreme", {"anomaly": {"in": [n / 8 + number / 1000 for n in range(1000)]}})


def by_area(number: int) -> Filter:
    """A filter with a large area."""
    ring: list[Json] = [[i * 0.05, (number + i * i) % 97 * 0.5] for i in range(1000)]
    return filter_of("area", {"polygon": [*ring, ring[0]]})


def queued(size: int, count: int) -> Iterator[Made]:
    """Chunks in the queue of a slow reader, encoded because others have sent them."""
    renderer = Renderer("http://localhost:8000")
    waiting: deque[Chunk] = deque()
    yield Made()
    counted = 0
    for number in range(1, count + 1):
        record = Record(number, number, notification({"region": "n"}, "x" * size))
        chunk = Chunk([(number, render(renderer, record, LIVE))])
        frames = chunk.frames
        chunk.encoded = b"%x\r\n%b\r\n" % (len(frames), frames)
        counted += chunk.size
        waiting.append(chunk)
    yield Made(counted, count)


KINDS: dict[str, Callable[[], Iterator[Made]]] = {
    "minimal": lambda: stored(minimal, 20_000),
    "clouds": lambda: stored(cloud, 30),
    "areas": lambda: stored(area, 1000),
    "payloads": lambda: stored(payload, 2000),
    "fields": lambda: stored(fields, 6000),
    "topics": lambda: stored(fields, 6000, max_history_per_topic=1),
    "tail of minimal": lambda: held(minimal, 30_000),
    "tail of clouds": lambda: held(cloud, 60),
    "tail of fields": lambda: held(fields, 6000),
    "keys": lambda: remembered(40_000),
    "filters": lambda: asked(by_text, 10_000),
    "lists": lambda: asked(by_list, 150),
    "large areas": lambda: asked(by_area, 150),
    "small chunks": lambda: queued(10, 12_000),
    "large chunks": lambda: queued(10_000, 1000),
}
"""How many of each are made: enough that the interpreter's own memory does not matter."""


def main(kinds: list[str]) -> None:
    """Make the things of each kind, in a child that has loaded all it needs."""
    for kind in kinds:
        if child := os.fork():
            _, status = os.waitpid(child, 0)
            if status:
                sys.exit(f"{kind}: {status}")
            continue
        made = KINDS[kind]()
        next(made)
        before = resident_bytes()
        found = next(made)
        taken = resident_bytes() - before
        os.write(1, json.dumps({"kind": kind, **asdict(found), "taken": taken}).encode() + b"\n")
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
