"""Notifications with a place, and a producer that sends many in a request, in time."""

import json
import math
import random
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection

CORNERS = 8
PATH = "/api/v1/notifications"
TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Sent:
    """One request that was answered."""

    at_ms: float
    """When it was sent, in milliseconds of the epoch."""
    last: int
    """The last sequence in it."""


def areas(number: int, seed: int = 1) -> Iterator[dict[str, object]]:
    """Areas with eight corners all over the world, of some hundred kilometres each."""
    draw = random.Random(seed)
    for place in range(number):
        lat, lon = draw.uniform(-75, 75), draw.uniform(-170, 170)
        ring = [_corner(lat, lon, draw.uniform(2, 7), turn) for turn in range(CORNERS)]
        identifier = {"date": "20250701", "time": "1200", "polygon": [*ring, ring[0]]}
        payload = {"location": f"file:///data/{place}.grib2", "bytes": 1234567}
        yield {"event_type": "test_polygon", "identifier": identifier, "payload": payload}


def clouds(number: int, points: int, seed: int = 1) -> Iterator[dict[str, object]]:
    """Stations, strewn around a middle."""
    draw = random.Random(seed)
    for _ in range(number):
        lat, lon = draw.uniform(-50, 50), draw.uniform(-120, 120)
        strewn = [
            [round(lat + draw.uniform(-30, 30), 1), round(lon + draw.uniform(-50, 50), 1)]
            for _ in range(points)
        ]
        yield {
            "event_type": "observations",
            "identifier": {"date": "20250701", "point_cloud": strewn},
            "payload": None,
        }


def _corner(lat: float, lon: float, size: float, turn: int) -> list[float]:
    angle = 2 * math.pi * turn / CORNERS
    return [round(lat + size * math.sin(angle), 3), round(lon + size * math.cos(angle), 3)]


@dataclass
class Producer:
    """Sends notifications over one keep-alive connection."""

    port: int
    sent: list[Sent] = field(default_factory=list)

    def send(self, items: Sequence[object], *, batch: int, every_s: float = 0) -> None:
        """So many in each request, and a request every so often."""
        bodies = [
            json.dumps(items[begin : begin + batch]).encode()
            for begin in range(0, len(items), batch)
        ]
        connection = HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        begun, never = time.monotonic(), threading.Event()
        for turn, body in enumerate(bodies):
            never.wait(max(0, begun + turn * every_s - time.monotonic()))
            self.sent.append(_post(connection, body))
        connection.close()


def _post(connection: HTTPConnection, body: bytes) -> Sent:
    at_ms = time.time() * 1000
    connection.request("POST", PATH, body, {"Content-Type": "application/json"})
    answer = json.load(connection.getresponse())
    if answer.get("status") != "success":
        raise SystemExit(f"the server did not take a batch: {json.dumps(answer)[:500]}")
    return Sent(at_ms, int(answer["results"][-1]["sequence"]))
