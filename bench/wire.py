"""What the load says to a server, built before the clock starts."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import cycle, islice

from bench.tally import LIVE

DAYS = tuple(f"202507{day:02}" for day in range(1, 29))
STEPS = tuple(str(step) for step in range(0, 246, 6))
DISTINCT = 1000
"""Different notify requests, sent in turn."""
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Speech:
    """How a kind of server is spoken to: published to, subscribed to, and what is counted."""

    publish: tuple[bytes, ...]
    """Requests, sent in turn."""
    accepted: bytes
    """What the answer to one matches."""
    watch: bytes
    opened: bytes
    """What is in a stream once it misses nothing any more."""
    delivered: bytes
    """What is in it once for every notification."""
    batch: int = 1
    """Notifications in a request."""
    replay: bytes = b""
    """A request for what was published; nothing if there is none."""

    def bearing(self, credential: str | None) -> "Speech":
        """The same, published with a credential."""
        if credential is None:
            return self
        lines = f"\r\nAuthorization: {credential}\r\n".encode()
        publish = tuple(each.replace(b"\r\n", lines, 1) for each in self.publish)
        return replace(self, publish=publish)


@cache
def aviso(batch: int = 1, expver: str = "0001") -> Speech:
    """This server, and every other that understands ``notify``, ``watch`` and ``replay``."""
    publish = batch_requests(batch) if batch > 1 else notify_requests(expver)
    return Speech(
        publish=tuple(publish),
        accepted=rb'HTTP/1.1 200 (?s:.)*"status":"success"',
        watch=watch_request(),
        opened=LIVE,
        delivered=LIVE,
        batch=batch,
        replay=replay_request(expver),
    )


def post(path: str, body: Mapping[str, object] | Sequence[object]) -> bytes:
    """A keep-alive POST of JSON."""
    return post_bytes(path, json.dumps(body, separators=(",", ":")).encode())


def post_bytes(path: str, body: bytes, headers: Mapping[str, str] = JSON) -> bytes:
    """A keep-alive POST of anything."""
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    begin = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}"
    return f"{begin}Content-Length: {len(body)}\r\n\r\n".encode() + body


def notify_requests(expver: str = "0001") -> list[bytes]:
    """Fields arriving in an archive: seven identifier values and a small payload."""
    return [post("/api/v1/notification", each) for each in islice(fields(expver), DISTINCT)]


def batch_requests(size: int) -> list[bytes]:
    """The same fields, so many in a request."""
    some, requests = fields(), max(1, DISTINCT // size)
    return [post("/api/v1/notifications", list(islice(some, size))) for _ in range(requests)]


def watch_request(step: str | None = None) -> bytes:
    """A watch that every notification of the load matches, or those of one step only."""
    wanted = {"class": "od"} if step is None else {"class": "od", "step": step}
    return post("/api/v1/watch", {"event_type": "mars", "identifier": wanted})


def replay_request(expver: str = "0001") -> bytes:
    """A replay of everything the load has stored."""
    wanted = {"class": "od", "expver": expver}
    body = {"event_type": "mars", "identifier": wanted, "from_id": "1"}
    return post("/api/v1/replay", body)


def fields(expver: str = "0001") -> Iterator[dict[str, object]]:
    """Notifications without end."""
    for day, step in zip(cycle(DAYS), cycle(STEPS), strict=False):
        yield _field(expver, day, step)


def _field(expver: str, day: str, step: str) -> dict[str, object]:
    return {
        "event_type": "mars",
        "identifier": {
            "class": "od",
            "expver": expver,
            "domain": "g",
            "date": day,
            "time": "1200",
            "stream": "oper",
            "step": step,
        },
        "payload": {"location": f"file:///data/{day}/12/oper/{step}.grib2", "bytes": 1234567},
    }
