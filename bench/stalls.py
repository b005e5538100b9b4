"""How long one request holds the event loop, for requests made to hold it; in-process.

The server runs in this process and each request comes from another one. Two numbers for each: the
most processor time that the loop's thread spent in one turn, which does not depend on what else the
machine does, and the longest lag by the watchdog's own instrument, which does. The first is what
the server can be held to: about 20 ms.
"""

import asyncio
import gzip
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import uvloop
from bench.figures import Value
from bench.served import CONFIG, Conditions

from aviso_server.server.serve import Running, logged, serving, settle_memory
from aviso_server.settings import Settings, load
from aviso_server.telemetry.lag import LoopWatch
from aviso_server.telemetry.metrics import Timing

BATCH = "/api/v1/notifications"
NOTIFY = "/api/v1/notification"
REPLAY = "/api/v1/replay"
_MEGABYTES = 8_000_000

_SEND = """
import sys, http.client
host, port, path, encoding, file = sys.argv[1:]
connection = http.client.HTTPConnection(host, int(port), timeout=300)
headers = {"Content-Encoding": encoding} if encoding else {}
connection.request("POST", path, open(file, "rb").read(), headers)
answer = connection.getresponse()
answer.read()
print(answer.status)
"""


@dataclass(frozen=True, slots=True)
class Request:
    """One request, and what it is."""

    name: str
    path: str
    body: bytes
    encoding: str = ""


def stalls(runs: int, progress: Callable[[str], None]) -> Iterator[Value]:
    """Milliseconds for which each request holds the loop."""
    for request in _requests():
        progress(f"stall by {request.name}")
        samples = [_measure(request) for _ in range(runs)]
        turns, lags = zip(*samples, strict=True)
        yield Value(f"longest turn, {request.name}", "ms CPU", turns)
        yield Value(f"longest lag, {request.name}", "ms", lags)


def _requests() -> Iterator[Request]:
    fields = [_field(step) for step in range(5000)]
    yield Request("5000 notifications", BATCH, json.dumps(fields).encode())
    areas = [_area(100, number) for number in range(4000)]
    yield Request("4000 polygons of 100 points", BATCH, json.dumps(areas).encode())
    yield Request("one polygon of 4999 points", NOTIFY, json.dumps(_area(4999, 0)).encode())
    deep = b"[" * 127 + b"]" * 127
    count = _MEGABYTES // (len(deep) + 1)
    yield Request("8 MB of depth 127", BATCH, b"[" + b",".join([deep] * count) + b"]")
    one = b"[" + b",".join([deep] * 900) + b"]"
    yield Request("items of 230 KB of depth 128", BATCH, b"[" + b",".join([one] * 34) + b"]")
    yield Request("4M numbers", BATCH, b"[" + b"1," * (_MEGABYTES // 2 - 2) + b"1]")
    digits = b"9" * 4299
    yield Request("1900 integers of 4299 digits", BATCH, b"[" + b",".join([digits] * 1900) + b"]")
    yield Request("8M newlines", BATCH, b"\n" * _MEGABYTES)
    objects = gzip.compress(b"[" + b"{}," * 2_600_000 + b"{}]")
    yield Request("2.6M objects in some KB of gzip", BATCH, objects, "gzip")
    wanted = {"event_type": "mars", "identifier": {"step": {"in": list(range(35_000))}}}
    yield Request("filter of 35000 values", REPLAY, json.dumps({**wanted, "from_id": 1}).encode())


def _field(step: int) -> dict[str, object]:
    return {
        "event_type": "mars",
        "identifier": {
            "class": "od",
            "expver": "0001",
            "domain": "g",
            "date": "20250706",
            "time": "1200",
            "stream": "oper",
            "step": step,
        },
        "payload": {"location": f"file:///data/{step}.grib2"},
    }


def _area(points: int, number: int) -> dict[str, object]:
    """A jagged ring of that many points."""
    ring = [
        [round(50 + (n % 97) / 50, 3), round(n / points * 20 + number % 50, 3)]
        for n in range(points)
    ]
    return {
        "event_type": "test_polygon",
        "identifier": {"date": "20250706", "time": "1200", "polygon": [*ring, ring[0]]},
        "payload": None,
    }


class _Longest(Timing):
    """Keeps the longest instead of counting."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def observe(self, seconds: float, _: int = 1) -> None:
        self.seconds = max(self.seconds, seconds)


def _measure(request: Request) -> tuple[float, float]:
    """Longest turn and longest lag while a fresh server answers one request, in milliseconds."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_answered(request))


async def _answered(request: Request) -> tuple[float, float]:
    with tempfile.NamedTemporaryFile() as file, tempfile.TemporaryDirectory() as store:
        file.write(request.body)
        file.flush()
        overrides = json.dumps(Conditions(log_level="error").overrides(Path(store)))
        settings = load(
            config_file=CONFIG,
            environ={},
            cwd=Path.cwd(),
            home=None,
            overrides=json.loads(overrides),
        )
        with logged(settings):
            return await _watched(settings, request, file.name)


async def _watched(settings: Settings, request: Request, file: str) -> tuple[float, float]:
    async with serving(settings) as running:
        settle_memory()
        longest, turns = _Longest(), _Turns()
        process = await _sent(running, request, file)
        with turns, LoopWatch(longest, lambda: ()):
            status, _ = await process.communicate()
    if not status.strip().isdigit():
        raise SystemExit(f"no answer to {request.name}")
    return turns.longest_s * 1000, longest.seconds * 1000


async def _sent(running: Running, request: Request, file: str) -> asyncio.subprocess.Process:
    arguments = (running.host, str(running.port), request.path, request.encoding, file)
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", _SEND, *arguments, stdout=subprocess.PIPE
    )


class _Turns:
    """Takes part in every turn of the loop, and notes what the longest one cost."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._before = 0.0
        self._handle: asyncio.Handle | None = None

    def __enter__(self) -> None:
        self._before = time.thread_time()
        self._handle = asyncio.get_running_loop().call_soon(self._turn)

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def _turn(self) -> None:
        now = time.thread_time()
        self.longest_s = max(self.longest_s, now - self._before)
        self._before = now
        self._handle = asyncio.get_running_loop().call_soon(self._turn)
