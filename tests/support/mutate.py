"""Requests as bytes, and random changes to them: what a byte-level fuzzer sends."""

import re
from random import Random

from support.raw import chunked, request

NOTIFY, BATCH = "/api/v1/notification", "/api/v1/notifications"
WATCH, REPLAY = "/api/v1/watch", "/api/v1/replay"
JSON = [("Content-Type", "application/json")]

AREA = (
    b'{"event_type":"test_polygon","identifier":{"date":"2025-07-06","time":"12:00",'
    b'"polygon":[[52.5,13.4],[52.6,13.5],[52.5,13.6],[52.5,13.4]]},"payload":{"note":"\\u00e9"}}'
)
LEVELS = (
    b'{"event_type":"extreme","identifier":{"region":"north","run_time":"06","severity":4,'
    b'"anomaly":1.5},"payload":null}'
)
CLOUD = (
    b'{"event_type":"observations","identifier":{"date":"20250706",'
    b'"point_cloud":[[1,2],[3.5,-4e1]]}}'
)
ASKED = (
    b'{"event_type":"extreme","identifier":{"severity":{"between":[1,7]},"region":{"in":["north"]},'
    b'"anomaly":{"gte":0.5}},"from_id":"1","to_date":"2030-01-01T00:00:00.5+01:00"}'
)
AROUND = (
    b'{"event_type":"area","identifier":{"polygon":"52,13,53,13,53,14,52,13"},'
    b'"from_date":1740509903}'
)
LIVE = b'{"event_type":"area","identifier":{"point":"52.5,13.5"}}'

BODIES = {NOTIFY: (AREA, LEVELS, CLOUD), REPLAY: (ASKED, AROUND), WATCH: (LIVE, ASKED)}
BATCHES = (b"[" + AREA + b"," + LEVELS + b"]", AREA + b"\n" + LEVELS + b"\n\n" + CLOUD)

SEEDS = [
    *(request("POST", path, body, JSON) for path, bodies in BODIES.items() for body in bodies),
    *(request("POST", BATCH, body, [*JSON, ("Idempotency-Key", "k-1")]) for body in BATCHES),
    request(
        "POST", NOTIFY, LEVELS, [("Expect", "100-continue"), ("Authorization", "Bearer a.b.c")]
    ),
    request("POST", NOTIFY, headers=[("Transfer-Encoding", "chunked")]).replace(
        b"Content-Length: 0\r\n", b""
    )
    + chunked([LEVELS[:50], LEVELS[50:]]),
    request(
        "POST",
        BATCH,
        bytes.fromhex("1f8b08000000000002ff8baeae8d050018f9a2b304000000"),
        [("Content-Encoding", "gzip")],
    ),
    request("GET", "/api/v1/schema/test_polygon?x=1#y", headers=[("Accept-Encoding", "gzip, br")]),
    request("GET", "/api/v1/overview", headers=[("Origin", "http://a.example")]),
    request("OPTIONS", NOTIFY, headers=[("Access-Control-Request-Method", "POST")]),
    request("HEAD", "/ready?details") + request("GET", "/health"),
    request(
        "GET", "/static/console/main.js", headers=[("Range", "bytes=0-9"), ("If-None-Match", "x")]
    ),
    request("GET", "/swagger-ui/index.html", headers=[("Cookie", "a=b")]),
    request("DELETE", "/api/v1/admin/notification/extreme@1"),
    request("DELETE", "/api/v1/admin/wipe/stream", b'{"stream_name":"extreme"}', JSON),
]
"""One request of every kind, two at once among them."""

_ODD = rb'\ \u0000 \ud800 %00 %ff %2F // /../ ? # : ; , " [ ] { } null true -0 1e999 1e-999 NaN -1'
SCRAPS = [
    *_ODD.split(),
    *(b"\r\n", b"\n", b"\r", b" ", b"\t", b"\x00", b"\xff", b"\xed\xa0\x80"),
    *(b"99999999999999999999", b"HTTP/2.0", b"HTTP/1.0"),
    b"Content-Length: 5\r\n",
    b"Content-Length: 99999999999999999999\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
    b"Content-Encoding: deflate\r\n",
    b"Connection: close, upgrade\r\nUpgrade: websocket\r\n",
    b"Host: \xff\r\n",
    b"Expect: \xed\xa0\x80\r\n",
    b"ffffffffffffffff\r\n",
    b"0\r\n\r\n",
    b"\r\n\r\n",
    b'"from_id":',
    b'"to_id":"-1",',
    b'{"in":[]}',
    b"[" * 200,
    "²".encode(),
    "\u2028".encode(),
]
"""What parsers have stumbled over."""

_LENGTH = re.compile(rb"(?<=Content-Length: )[0-9]+")


def mutated(rng: Random, text: bytes, others: list[bytes], *, longest: int) -> bytes:
    """The text with one to six changes, each of another kind, no longer than ``longest``."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        text = _changed(rng, text, others)[:longest]
    return text


def _changed(rng: Random, text: bytes, others: list[bytes]) -> bytes:
    at = rng.randrange(len(text) + 1)
    end = min(len(text), at + rng.choice((1, 2, 8, 64)))
    match rng.randrange(7):
        case 0:
            return text[:at] + bytes([rng.randrange(256)]) + text[at + 1 :]
        case 1:
            return text[:at] + text[end:]
        case 2:
            return text[:at] + rng.choice(SCRAPS) + text[at:]
        case 3:
            return text[:at] + rng.choice(SCRAPS) + text[end:]
        case 4:
            # The same again and again is what makes a quadratic algorithm slow.
            return text[:at] + text[at:end] * rng.choice((2, 3, 50, 500)) + text[end:]
        case 5:
            return text[:at] + bytes(rng.randrange(256) for _ in range(8)) + text[at:]
        case _:
            other = rng.choice(others)
            return text[:at] + other[rng.randrange(len(other) + 1) :]


def with_true_length(text: bytes) -> bytes:
    """The request with the length that its body has: damage is then found by who reads bodies."""
    head, blank, body = text.partition(b"\r\n\r\n")
    return _LENGTH.sub(b"%d" % len(body), head, count=1) + blank + body
