"""What one request can cost, at worst: CPU time by size, of input made to be slow; in-process.

Every line is a curve in one run: what is linear doubles with the size, whatever the machine does.
Rings are measured against GEOS, which is nearly but not always exact and refuses rings that cross
themselves (docs/decisions/0004).
"""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from time import thread_time

import msgspec
import shapely
from bench.figures import Value
from bench.served import CONFIG
from bench.wire import fields

from aviso_server.backends.jetstream.answers import read_fields
from aviso_server.backends.jetstream.messages import Stored, decode, encode
from aviso_server.core.announcement import notification_of
from aviso_server.core.cloudevent import Renderer
from aviso_server.core.errors import MalformedBody
from aviso_server.core.fields.place import parse_polygon
from aviso_server.core.frame import LIVE, notification_frame
from aviso_server.core.geometry import Area, Cloud, Points
from aviso_server.core.json import Json, parse
from aviso_server.core.notification import Record
from aviso_server.core.spatial import Intersects
from aviso_server.core.wire import parse_request
from aviso_server.http.gzip import Gzip
from aviso_server.settings import load
from aviso_server.telemetry.redaction import redact_text

BODY_KB = (32, 64, 128, 256)
TEXT_KB = (2, 16, 128)
MESSAGES = 1000
_APART = 2.0**-46
"""Degrees between rings that run along each other: doubles cannot tell on which side they are."""


def request_cost(
    points: tuple[int, ...], runs: int, progress: Callable[[str], None]
) -> Iterator[Value]:
    """Milliseconds of CPU time for each kind of work that grows with what a client sends."""
    for name, size, act in _cases(points):
        progress(f"{name}, {size}")
        act()
        yield Value(f"{name}, {size}", "ms CPU", tuple(_cpu_ms(act) for _ in range(runs)))


def log_cost(runs: int, progress: Callable[[str], None]) -> Iterator[Value]:
    """Microseconds of CPU time to write a notification as a message of the log, and to read it."""
    progress("messages of the log")
    loaded = load(config_file=CONFIG, environ={}, cwd=Path.cwd(), home=None)
    schema = loaded.catalogue.find("mars")
    asked = [parse_request(msgspec.json.encode(each)) for each in islice(fields(), MESSAGES)]
    made = [notification_of(schema, each) for each in asked]
    sent = [encode(schema, each, "key") for each in made]
    stored = [
        Stored(sequence, sequence, each.subject, read_fields(each.head), each.body)
        for sequence, each in enumerate(sent, 1)
    ]
    for name, act in (
        ("encode", lambda: [encode(schema, each, "key") for each in made]),
        ("decode", lambda: [decode(schema, each) for each in stored]),
    ):
        taken = tuple(_cpu_ms(act) * 1000 / MESSAGES for _ in range(runs + 1))
        yield Value(f"{name} a message of the log", "us CPU", taken[1:])
    renderer = Renderer("http://localhost:8000")
    frames = [notification_frame(LIVE, renderer.render(Record(1, 1, each))) for each in made]
    for together in (1, 10, MESSAGES):
        chunks = [b"".join(frames[at : at + together]) for at in range(0, MESSAGES, together)]
        size = sum(len(Gzip().own(each)) for each in chunks) / MESSAGES
        taken = tuple(
            _cpu_ms(lambda pieces=chunks: [Gzip().own(each) for each in pieces]) * 1000 / MESSAGES  # type: ignore[misc]
            for _ in range(runs)
        )
        name = f"compress a frame of {len(frames[0])} bytes, {together} together"
        yield Value(name, "us CPU", taken)
        yield Value(f"{name}: size", "bytes", (size,))


def _cpu_ms(act: Callable[[], object]) -> float:
    begun = thread_time()
    act()
    return (thread_time() - begun) * 1000


def _cases(points: tuple[int, ...]) -> Iterator[tuple[str, str, Callable[[], object]]]:
    for kb in BODY_KB:
        for name, start, pump in (
            ("refuse JSON, nested and not ended", b"[" * 1200 + b'"', rb"\""),
            ("refuse JSON, number out of range", b'[1e999,"', rb"\""),
            ("read JSON, for comparison", b"[0", b',"ab"'),
        ):
            body = start + pump * (kb * 1024 // len(pump)) + b"]" * (start == b"[0")
            yield name, f"{kb} KB", partial(_read, body)
    for kb in TEXT_KB:
        text = "@ " + ",:" * (kb * 512)
        yield "redact a text of commas", f"{kb} KB", partial(redact_text, text)
    for count in points:
        pairs: Json = [list(point) for point in _blob(count, 0.0, 1)]
        size = f"{count} points"
        yield "read a polygon", size, partial(parse_polygon, "polygon", pairs)
        around, cloud = _blob(count, 0.0, 1), _cloud()
        for name, test in (("cloud of 6000 points", _ours), ("the same, GEOS", _geos)):
            yield f"ring and {name}", size, partial(test, around, cloud)
        for name, one, other in _rings(count):
            yield f"rings {name}", size, partial(_ours, one, other)
            yield f"rings {name}, GEOS", size, partial(_geos, one, other)


def _read(body: bytes) -> None:
    with suppress(MalformedBody):
        parse(body)


def _ours(one: Points, other: Points | Cloud) -> bool:
    geometry = other if isinstance(other, Cloud) else Area(other, "")
    return Intersects(Area(one, "")).matches(geometry)


def _geos(one: Points, other: Points | Cloud) -> bool:
    shape = shapely.MultiPoint(other.points) if isinstance(other, Cloud) else shapely.Polygon(other)
    return bool(shapely.intersects(shapely.Polygon(one), shape))


def _cloud() -> Cloud:
    """Points north and south of a ring, at its longitudes."""
    random = Random(3)
    ends = ((12.0, -12.0)[i % 2] for i in range(6000))
    return Cloud(tuple((end + random.uniform(-2, 2), random.uniform(-9, 9)) for end in ends))


def _rings(count: int) -> Iterator[tuple[str, Points, Points]]:
    yield "side by side", _blob(count, 0.0, 1), _blob(count, 14.5, 2)
    yield (
        "in each other",
        _blob(count, 0.0, 1),
        tuple((a / 2, b / 2) for a, b in _blob(count, 0, 2)),
    )
    yield "along each other", _zigzag(count, 0.0), _zigzag(count, _APART)
    yield "of shuffled teeth", _comb(count, 0), _comb(count, 1)


def _blob(count: int, at: float, seed: int) -> Points:
    random = Random(seed)
    turns = sorted(random.uniform(0, 2 * math.pi) for _ in range(count))
    radii = [random.uniform(9, 10) for _ in turns]
    ring = [
        (at + radius * math.sin(turn), at + radius * math.cos(turn))
        for turn, radius in zip(turns, radii, strict=True)
    ]
    return (*ring, ring[0])


def _zigzag(count: int, apart: float) -> Points:
    ends = ((1.0, 50.0)[i % 2] + i / count for i in range(count))
    ring = [(end + apart, end) for end in ends]
    return (*ring, ring[0])


def _comb(count: int, number: int) -> Points:
    """Long teeth, those of one ring between those of the other, in an order that helps nobody."""
    teeth = list(range(count // 3))
    Random(number).shuffle(teeth)
    root, tip = ((1.0, 50.0), (60.0, 2.0))[number]
    ring = []
    for tooth in teeth:
        off = (2 * tooth + number) * _APART / 2
        ring += [(root + off, root), (tip + off, tip), (root + off, root)]
    return (*ring, ring[0])
