"""The requests of the load, built before the clock starts."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, islice

DAYS = tuple(f"202507{day:02}" for day in range(1, 29))
STEPS = tuple(str(step) for step in range(0, 246, 6))
DISTINCT = 1000
"""Different notify requests, sent in turn."""


def post(path: str, body: Mapping[str, object] | Sequence[object]) -> bytes:
    """A keep-alive POST as bytes."""
    data = json.dumps(body, separators=(",", ":")).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


def notify_requests() -> list[bytes]:
    """Fields arriving in an archive: seven identifier values and a small payload."""
    return [post("/api/v1/notification", each) for each in islice(_fields(), DISTINCT)]


def batch_requests(size: int) -> list[bytes]:
    """The same fields, so many in a request."""
    fields, requests = _fields(), max(1, DISTINCT // size)
    return [post("/api/v1/notifications", list(islice(fields, size))) for _ in range(requests)]


def watch_request(step: str | None = None) -> bytes:
    """A watch that every notification of the load matches, or those of one step only."""
    wanted = {"class": "od"} if step is None else {"class": "od", "step": step}
    return post("/api/v1/watch", {"event_type": "mars", "identifier": wanted})


def replay_request() -> bytes:
    """A replay of everything the load has stored."""
    body = {"event_type": "mars", "identifier": {"class": "od"}, "from_id": "0"}
    return post("/api/v1/replay", body)


def _fields() -> Iterator[dict[str, object]]:
    for day, step in zip(cycle(DAYS), cycle(STEPS), strict=False):
        yield _field(day, step)


def _field(day: str, step: str) -> dict[str, object]:
    return {
        "event_type": "mars",
        "identifier": {
            "class": "od",
            "expver": "0001",
            "domain": "g",
            "date": day,
            "time": "1200",
            "stream": "oper",
            "step": step,
        },
        "payload": {"location": f"file:///data/{day}/12/oper/{step}.grib2", "bytes": 1234567},
    }
