"""Connections below routing: bad heads, broken bodies, time limits, disconnects."""

import asyncio
from collections.abc import AsyncIterator
from typing import NoReturn

import pytest
from support.config import settings
from support.edge import NOON_NS, Edge, Parts, edge
from support.faults import FaultyBackend
from support.journal import recorded
from support.raw import PATIENCE_S, Wire, chunked, request, wired

from aviso_server.backends.memory.backend import MemoryBackend, MemoryLimits
from aviso_server.http.connection import ConnectionRules

CHUNKED = (
    b"POST /api/v1/notification HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
)
GOOD = b'{"event_type":"ev","identifier":{"region":"n"}}'


@pytest.fixture(scope="module")
async def served() -> AsyncIterator[Edge]:
    """An edge with short time limits."""
    async with edge(
        settings(), Parts(connections=ConnectionRules(head_s=0.3, idle_s=0.3, linger_s=0.3))
    ) as started:
        yield started


@pytest.mark.parametrize(
    "head",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"BREW /health HTTP/1.1\r\nHost: x\r\n\r\n",
        b"get /health HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n",
        b"GET /health HTTP/0.9\r\nHost: x\r\n\r\n",
        b"GET /health HTTP/1.2\r\nHost: x\r\n\r\n",
        b"GET /health HTTP/2.0\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /api/v1/watch HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n",
        b"POST /api/v1/watch HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/v1/watch HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
    ],
)
async def test_bad_heads_are_400_without_an_id(served: Edge, head: bytes) -> None:
    """What is not HTTP is refused, not echoed, and the connection ends."""
    async with wired(served.running) as wire:
        await wire.send(head)
        answer = await wire.answer()
        assert (answer.status, answer.body) == (400, b"")
        assert answer.version == "HTTP/1.1"
        assert answer.header("connection") == "close"
        assert answer.header("x-request-id") is None
        assert answer.header("server") is None
        assert await wire.rest() == b""


LARGE = ConnectionRules().max_head_bytes
HEAD = b"GET /health HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    "head",
    [
        HEAD + b"Authorization: Bearer " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET /health?" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        HEAD + b"".join(b"A%d: %b\r\n" % (n, b"a" * 1000) for n in range(120)) + b"\r\n",
        HEAD + b"A: ".ljust(LARGE - len(HEAD) - 4, b"a") + b"\r\n\r\n",
    ],
    ids=["field", "query", "fields", "exactly"],
)
@pytest.mark.parametrize("cut", [0, 30_000], ids=["at once", "in pieces"])
async def test_heads_up_to_the_limit_are_read(served: Edge, head: bytes, cut: int) -> None:
    """A token with hundreds of roles is larger than the 8190 bytes that aiohttp allows."""
    async with wired(served.running) as wire:
        await wire.send(head[:cut])
        if cut:
            await _accepted(served)
        await wire.send(head[cut:])
        assert (await wire.answer()).status == 200
        assert (await wire.ask("GET", "/health")).status == 200  # nothing is left over


@pytest.mark.parametrize(
    "head",
    [
        HEAD + b"A: ".ljust(LARGE - len(HEAD) - 3, b"a") + b"\r\n\r\n",
        HEAD + b"A: " + b"a" * 1_000_000 + b"\r\n\r\n",
        b"GET /" + b"a" * LARGE + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        HEAD + b"".join(b"A%d: %b\r\n" % (n, b"a" * 2000) for n in range(120)) + b"\r\n",
        HEAD + b"A: a\r\n" * 200 + b"\r\n",
    ],
    ids=["one byte", "field", "path", "fields", "many fields"],
)
@pytest.mark.parametrize("cut", [0, 500], ids=["at once", "in pieces"])
async def test_heads_over_the_limit_are_431(served: Edge, head: bytes, cut: int) -> None:
    """In the usual shape, with an id that the log has; the connection ends."""
    with recorded() as kept:
        async with wired(served.running) as wire:
            await wire.send(head[:cut])
            if cut:
                await _accepted(served)
            await wire.send(head[cut:])
            answer = await wire.answer()
            assert (answer.status, answer.data["code"]) == (431, "REQUEST_HEAD_TOO_LARGE")
            assert answer.data["message"] == answer.data["details"]
            assert answer.data["request_id"] == answer.request_id
            assert answer.header("connection") == "close"
            assert answer.header("server") is None
            assert await wire.rest() == b""
    (record,) = kept.all("api.request.limit.reached")
    assert record["request_id"] == answer.request_id


@pytest.mark.parametrize("broken", [b"zz\r\n", b"3\r\nabcd\r\n", b"-1\r\n", b"f" * 20 + b"\r\n"])
async def test_broken_chunks_are_a_400(served: Edge, broken: bytes) -> None:
    """A body that breaks off on the way is refused at once; it does not wait for ever."""
    async with wired(served.running) as wire:
        await wire.send(CHUNKED + b"%x\r\n%b\r\n" % (len(GOOD), GOOD))
        await _accepted(served)
        await wire.send(broken)
        answer = await wire.answer()
        assert answer.status == 400
        assert answer.data["code"] == "INVALID_JSON"
        assert answer.data["message"] == "JSON parsing failed: broken transfer encoding"
        assert answer.data["request_id"] == answer.request_id
        assert answer.header("connection") == "close"
        assert await wire.rest() == b""


async def test_broken_chunks_after_the_answer_end_the_connection(served: Edge) -> None:
    """A body nobody reads may be as broken as it likes."""
    async with wired(served.running) as wire:
        await wire.send(CHUNKED.replace(b"notification", b"nothing"))
        assert (await wire.answer()).status == 404
        await wire.send(b"zz\r\n")
        assert await wire.rest() == b""


@pytest.mark.parametrize("first", [request("GET", "/health"), request("GET", "/health") * 40])
async def test_garbage_behind_a_request_does_not_disturb_it(served: Edge, first: bytes) -> None:
    """Requests are answered first, then the garbage that came together with them."""
    async with wired(served.running) as wire:
        await wire.send(first + b"nonsense\r\n\r\n")
        for _ in range(first.count(b"GET")):
            assert (await wire.answer()).status == 200
        assert (await wire.answer()).status == 400
        assert await wire.rest() == b""


async def test_requests_that_come_together_are_answered_in_order(served: Edge) -> None:
    """Also when the end of a body and the next request arrive in one piece."""
    notify, health = request("POST", "/api/v1/notification", GOOD), request("GET", "/health")
    async with wired(served.running) as wire:
        await wire.send(notify[:-5])
        await _accepted(served)
        await wire.send(notify[-5:] + health + notify + health)
        answers = [await wire.answer() for _ in range(4)]
        assert [answer.status for answer in answers] == [200] * 4
        assert ["sequence" in answer.data for answer in answers] == [True, False] * 2


async def _accepted(served: Edge) -> None:
    """Wait until the server has taken everything sent so far: another exchange takes longer."""
    async with wired(served.running) as other:
        assert (await other.ask("GET", "/health")).status == 200


@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nHost: x\r\nA: "])
async def test_a_head_must_be_complete_in_time(served: Edge, sent: bytes) -> None:
    """A connection that never sends a whole head is closed without an answer."""
    async with wired(served.running) as wire:
        await wire.send(sent)
        assert await wire.rest() == b""


async def test_an_idle_connection_is_closed(served: Edge) -> None:
    """After an answer the next request must come within the keep-alive time."""
    async with wired(served.running) as wire:
        assert (await wire.ask("GET", "/health")).status == 200
        assert await wire.rest() == b""


async def test_an_idle_connection_is_kept_longer_than_a_head_may_take() -> None:
    """Pools of clients keep connections for a while, and must not meet the close."""
    rules = ConnectionRules(head_s=0.2, idle_s=60)
    async with (
        edge(settings(), Parts(connections=rules)) as patient,
        wired(patient.running) as kept,
        wired(patient.running) as silent,
    ):
        assert (await kept.ask("GET", "/health")).status == 200
        assert await silent.rest() == b""  # by the server's own clock
        assert (await kept.ask("GET", "/health")).status == 200
        await kept.send(b"GET /health HTTP/1.1\r\nHost: ")
        assert await kept.rest() == b""


async def test_a_head_that_stops_half_way_does_not_end_the_request_before_it() -> None:
    """What follows a request that is in progress is waited for as long as that takes."""
    rules = ConnectionRules(head_s=0.2)
    body = b'{"event_type":"ev","identifier":{}}'
    async with (
        edge(settings(), Parts(connections=rules)) as patient,
        wired(patient.running) as wire,
    ):
        await wire.send(request("POST", "/api/v1/watch", body))
        while b"heartbeat" not in await wire.reader.readuntil(b"\n\n\r\n"):
            pass
        await wire.send(b"GET /hea")
        for _ in range(2):
            async with wired(patient.running) as silent:
                assert await silent.rest() == b""
        await patient.notify("ev", {"region": "n"})
        assert b"ev@1" in await wire.reader.readuntil(b"\n\n\r\n")


async def test_a_slow_body_is_waited_for(served: Edge) -> None:
    """The time limit is for the head: a body may take longer than the keep-alive time."""
    async with wired(served.running) as slow, wired(served.running) as idle:
        await slow.send(request("POST", "/api/v1/notification", GOOD)[:-1])
        assert await idle.rest() == b""  # the server's own clock: one idle time has passed
        await slow.send(GOOD[-1:])
        assert (await slow.answer()).status == 200


async def test_an_upload_that_is_never_sent_is_not_waited_for(served: Edge) -> None:
    """413 comes at once on the declared length, and the connection ends soon after."""
    async with wired(served.running) as wire:
        await wire.send(
            b"POST /api/v1/notification HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n{"
        )
        answer = await wire.answer()
        assert (answer.status, answer.header("connection")) == (413, "close")
        assert await wire.rest() == b""


async def test_an_endless_upload_is_not_read_for_ever(served: Edge) -> None:
    """A client that goes on sending after its 413 is cut off."""
    async with wired(served.running) as wire:
        await wire.send(CHUNKED)
        piece = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(ConnectionError):
                await _send_for_ever(wire, piece)


async def _send_for_ever(wire: Wire, piece: bytes) -> NoReturn:
    while True:
        await wire.send(piece)


@pytest.mark.parametrize("start", [{}, {"from_id": "0"}])
async def test_a_disconnect_frees_the_stream(served: Edge, start: dict[str, str]) -> None:
    """When a watcher goes, its place in the hub goes with it."""
    async with served.watch("diss2", {"destination": "FOO"}, **start) as stream:
        await stream.next()
        assert "diss2" in served.hub._streams
    async with asyncio.timeout(PATIENCE_S):
        while served.hub._streams:
            await _accepted(served)


async def test_a_disconnect_inside_a_body_is_harmless(served: Edge) -> None:
    """The next client does not notice."""
    async with wired(served.running) as wire:
        await wire.send(CHUNKED + b"5\r\n{")
    await _accepted(served)


async def test_a_stream_that_breaks_is_cut_short() -> None:
    """After the headers no second answer may appear in the body; its end is simply missing."""
    # A clock that stops after the opening frame stands for a fault nobody foresaw.
    times = iter([NOON_NS])
    parts = Parts(MemoryBackend(MemoryLimits(), now_ns=lambda: NOON_NS), lambda: next(times))
    async with edge(settings(), parts) as broken, wired(broken.running) as wire:
        body = b'{"event_type":"ev","identifier":{},"from_id":"1"}'
        await wire.send(request("POST", "/api/v1/replay", body))
        seen = await wire.rest()
        assert seen.startswith(b"HTTP/1.1 200 OK\r\n")
        assert seen.count(b"HTTP/1.1") == 1
        assert b"replay_started" in seen
        assert not seen.endswith(b"0\r\n\r\n")


class _Unreachable(FaultyBackend):
    """Cannot even say whether it is there."""

    @property
    def connected(self) -> bool:  # type: ignore[override]
        raise RuntimeError("secret")


async def test_a_fault_before_the_headers_is_a_500() -> None:
    """An unexpected exception has a fixed answer that reveals nothing else."""
    parts = Parts(_Unreachable({}))
    async with edge(settings(), parts) as broken, wired(broken.running) as wire:
        with recorded() as kept:
            answer = await wire.ask("GET", "/ready")
        (record,) = kept.all("api.request.processing.failed")
        assert (record["outcome"], record["error_type"]) == ("error", "internal_error")
        assert record["error_chain"] == ["RuntimeError: secret"]
        assert answer.status == 500
        assert answer.body == (
            b'{"code":"INTERNAL_ERROR","error":"internal_error","message":"Internal server error",'
            b'"request_id":"%b"}' % answer.request_id.encode()
        )
        assert (await wire.ask("GET", "/health")).status == 200


@pytest.mark.parametrize(
    ("expect", "length", "continues", "status"),
    [
        ("100-continue", len(GOOD), True, 200),
        ("100-Continue", len(GOOD), True, 200),
        ("100-continue", 262145, False, 413),
        ("something-else", len(GOOD), False, 200),
    ],
)
async def test_bodies_held_back_are_asked_for(
    served: Edge, expect: str, length: int, continues: bool, status: int
) -> None:
    """100 Continue comes unless the declared size is refused anyway; the rest is ignored."""
    async with wired(served.running) as wire:
        head = f"POST /api/v1/notification HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n"
        await wire.send(f"{head}Expect: {expect}\r\n\r\n".encode())
        if continues:
            assert await wire.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        if status == 200:
            await wire.send(GOOD)
        answer = await wire.answer()
        assert answer.status == status
        assert answer.request_id


@pytest.mark.parametrize("expect", ["else", "\xed\xa0\x80", "\xff"])
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", "/nothing", 404), ("PUT", "/health", 405), ("GET", "/health", 200)],
)
async def test_unknown_expectations_are_ignored_everywhere(
    served: Edge, expect: str, method: str, path: str, status: int
) -> None:
    """Whatever bytes they are made of, and whether there is such a route or not."""
    async with wired(served.running) as wire:
        answer = await wire.ask(method, path, headers=[("Expect", expect)])
        assert answer.status == status
        assert answer.request_id
        assert answer.header("server") is None


async def test_chunked_bodies_need_no_length(served: Edge) -> None:
    """Pieces of any size make one body."""
    async with wired(served.running) as wire:
        await wire.send(CHUNKED + chunked([GOOD[i : i + 1] for i in range(len(GOOD))]))
        assert (await wire.answer()).status == 200
