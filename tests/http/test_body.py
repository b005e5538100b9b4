"""Request bodies: their limit, their encodings, and what they cost."""

import gzip
import json
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from itertools import count

import pytest
from support.config import settings
from support.raw import Answer, Wire, chunked, request, wired
from support.server import Client, connected

LIMIT = 262144
ROUTES = {
    "POST /api/v1/notification": 200,
    "POST /api/v1/watch": 400,
    "POST /api/v1/replay": 400,
    "DELETE /api/v1/admin/wipe/stream": 400,
}
"""What a body that just fits is answered; only notify can be given one that is good."""

GOOD = b'{"event_type":"ev","identifier":{"region":"n"},"payload":"ok"}'
ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "GZip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "identity": bytes,
    "": bytes,
}


def sized(size: int) -> bytes:
    """A notify body of exactly this many bytes; streams would refuse its start."""
    before = b'{"event_type":"ev","from_id":"x","identifier":{"region":"n"},"payload":"'
    after = b'"}'
    return before + b"x" * (size - len(before) - len(after)) + after


def gzipped(body: bytes) -> bytes:
    """gzip without the time of day in it."""
    return gzip.compress(body, mtime=0)


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


async def notify(wire: Wire, body: bytes, encoding: str) -> Answer:
    headers = [("Content-Encoding", encoding)]
    return await wire.ask("POST", "/api/v1/notification", body, headers)


async def send_chunked(wire: Wire, route: str, pieces: list[bytes]) -> Answer:
    await wire.send(f"{route} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    await wire.send(chunked(pieces))
    return await wire.answer()


@pytest.fixture
def peak() -> Iterator[None]:
    """Fail when the test makes this process hold much more than the bodies it may read."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        yield
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most - before < 4_000_000


@pytest.mark.parametrize("route", ROUTES)
async def test_the_limit_is_exact(wire: Wire, route: str) -> None:
    """262144 bytes pass and 262145 do not, with a declared length and without."""
    method, path = route.split()
    assert (await wire.ask(method, path, sized(LIMIT))).status == ROUTES[route]
    assert (await send_chunked(wire, route, [sized(LIMIT)])).status == ROUTES[route]
    await wire.send(request(method, path, sized(LIMIT + 1)))
    await _refused(wire)


@pytest.mark.parametrize("route", ROUTES)
async def test_the_limit_holds_without_a_declared_length(wire: Wire, route: str) -> None:
    """It is counted while the body arrives."""
    method, path = route.split()
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    await wire.send(head.encode() + chunked([sized(LIMIT), b" "]))
    await _refused(wire)


async def _refused(wire: Wire) -> None:
    """The body is too large; the connection ends behind the answer, which says so."""
    answer = await wire.answer()
    assert answer.status == 413
    assert answer.data["code"] == "PAYLOAD_TOO_LARGE"
    assert answer.data["request_id"] == answer.request_id
    assert answer.header("connection") == "close"
    assert await wire.rest() == b""


async def test_the_limit_is_configurable() -> None:
    """``application.max_body_bytes`` is the limit, and the message says so."""
    small = settings({"application": {"max_body_bytes": len(GOOD)}})
    async with connected(small) as client, wired(client.running) as wire:
        assert (await wire.ask("POST", "/api/v1/notification", GOOD)).status == 200
        answer = await wire.ask("POST", "/api/v1/notification", GOOD + b" ")
        assert answer.status == 413
        assert answer.data["message"] == f"Request body exceeds the limit of {len(GOOD)} bytes"


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_encoded_bodies_are_decoded(wire: Wire, encoding: str) -> None:
    """Names are case-insensitive; what is stored is what was meant."""
    answer = await notify(wire, ENCODINGS[encoding](GOOD), encoding)
    assert answer.status == 200


async def test_deflate_may_come_without_its_wrapper(wire: Wire) -> None:
    """Some clients send the bare stream under the name of the wrapped one."""
    assert (await notify(wire, raw_deflate(GOOD), "deflate")).status == 200


@pytest.mark.parametrize(
    ("encoding", "body", "shown"),
    [
        ("br", GOOD, "br"),
        ("gzip, gzip", gzipped(gzipped(GOOD)), "gzip, gzip"),
        ("\xff\xfe", GOOD, "??"),
        ("gzip", GOOD, "gzip"),
        ("gzip", b"", "gzip"),
        ("gzip", gzipped(GOOD)[:-1], "gzip"),
        ("gzip", gzipped(GOOD) + b"x", "gzip"),
        ("gzip", gzipped(GOOD)[:-8] + bytes(8), "gzip"),
        ("GZIP", zlib.compress(GOOD), "GZIP"),
        ("deflate", gzipped(GOOD), "deflate"),
        ("deflate", b"", "deflate"),
        ("deflate", zlib.compress(GOOD)[:-1], "deflate"),
        ("deflate", raw_deflate(GOOD) + b"x", "deflate"),
    ],
    ids=count(),  # the bodies are no names, and the same in every process
)
async def test_bad_encodings_are_a_400(wire: Wire, encoding: str, body: bytes, shown: str) -> None:
    """Unknown, corrupt, cut off or followed by something: INVALID_JSON, with the name as sent."""
    answer = await notify(wire, body, encoding)
    assert answer.status == 400
    assert answer.data["code"] == "INVALID_JSON"
    assert answer.data["message"] == (
        f"JSON parsing failed: unsupported or corrupt content encoding '{shown}'"
    )


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_the_limit_counts_decoded_bytes(wire: Wire, encoding: str) -> None:
    """A small body that would become too large is too large, by one byte."""
    pack = ENCODINGS[encoding]
    assert (await notify(wire, pack(sized(LIMIT)), encoding)).status == 200
    assert (await notify(wire, pack(sized(LIMIT + 1)), encoding)).status == 413


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw"])
async def test_a_bomb_is_defused(
    wire: Wire, encoding: str, bombs: dict[str, bytes], peak: None
) -> None:
    """64 MiB of blanks in 64 KiB: refused, and never in memory."""
    name = "deflate" if encoding == "raw" else encoding
    assert (await notify(wire, bombs[encoding], name)).status == 413


@pytest.fixture(scope="module")
def bombs() -> dict[str, bytes]:
    blanks = b" " * 2**26
    packers = {"gzip": 31, "deflate": 15, "raw": -15}
    packed = {}
    for name, window in packers.items():
        packer = zlib.compressobj(wbits=window)
        packed[name] = packer.compress(blanks) + packer.flush()
    return packed


async def test_a_long_upload_costs_no_memory(wire: Wire, peak: None) -> None:
    """16 MiB without a declared length: refused early, the rest is read and forgotten."""
    await wire.send(b"POST /api/v1/notification HTTP/1.1\r\nHost: x\r\n")
    await wire.send(b"Transfer-Encoding: chunked\r\n\r\n")
    piece = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    for _ in range(256):
        await wire.send(piece)
    await wire.send(b"0\r\n\r\n")
    await _refused(wire)


async def test_a_body_may_come_byte_by_byte(client: Client) -> None:
    """What arrives in pieces is stored whole."""
    async with wired(client.running) as wire:
        await wire.send(
            b"POST /api/v1/notification HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
            % len(GOOD)
        )
        for byte in GOOD:
            await wire.send(bytes([byte]))
        assert (await wire.answer()).status == 200
    async with client.replay("ev", {}, from_id="1") as stream:
        events = await stream.until("replay")
        assert events[-1].data["data"]["payload"] == "ok"


async def test_bodies_where_none_is_expected_are_ignored(wire: Wire) -> None:
    """GET and the admin routes without a request object do not look at one, whatever its size."""
    big = b"x" * (LIMIT + 1)
    assert (await wire.ask("GET", "/health", big)).status == 200
    assert (await wire.ask("DELETE", "/api/v1/admin/wipe/all", big)).status == 200
    answer = await wire.ask("DELETE", "/api/v1/admin/notification/ev@99", big)
    assert answer.status == 404


async def test_the_largest_notification_is_delivered_whole(client: Client) -> None:
    """The body limit is also what a consumer must be ready for."""
    async with wired(client.running) as wire:
        assert (await wire.ask("POST", "/api/v1/notification", sized(LIMIT))).status == 200
    async with client.replay("ev", {}, from_id="1") as stream:
        events = await stream.until("replay")
        payload = events[-1].data["data"]["payload"]
        assert payload == json.loads(sized(LIMIT))["payload"]
