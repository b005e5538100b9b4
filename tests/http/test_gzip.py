"""Compressed streams: the same bytes once they are decoded, each as soon as it is written."""

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.config import settings
from support.edge import Edge, edge
from support.raw import PATIENCE_S, Wire, request, wired
from support.sse import Event

from aviso_server.http.gzip import Gzip, accepts_gzip
from aviso_server.relay.subscription import Chunk

WATCH, REPLAY = "/api/v1/watch", "/api/v1/replay"
ASKED = [("Accept-Encoding", "gzip")]


@pytest.fixture(scope="module")
async def served() -> AsyncIterator[Edge]:
    """An edge that compresses."""
    async with edge(settings({"watch_endpoint": {"compression": True}})) as started:
        yield started


@given(
    st.lists(st.tuples(st.booleans(), st.lists(st.binary(min_size=1, max_size=300), min_size=1)))
)
def test_pieces_and_chunks_are_one_stream(writes: list[tuple[bool, list[bytes]]]) -> None:
    """Also for two that share chunks and began at different times; every write decodes at once."""
    early, late = Gzip(), Gzip()
    decoding = zlib.decompressobj(31)
    sent = [early.own(b"first"), late.own(b"other")]
    plain, seen = b"first", decoding.decompress(sent[0])
    rest = sent[1]
    for shared, frames in writes:
        joined = b"".join(frames)
        if shared:
            chunk = Chunk(list(enumerate(frames, 1)))
            wire = early.chunk(chunk)
            assert late.chunk(chunk) is wire
            body = wire.partition(b"\r\n")[2][:-2]
        else:
            body = early.own(joined)
            rest += late.own(joined)
        rest += body if shared else b""
        plain += joined
        seen += decoding.decompress(body)
        assert seen == plain
    seen += decoding.decompress(early.end())
    assert (seen, decoding.eof, decoding.unused_data) == (plain, True, b"")
    assert gzip.decompress(rest + late.end()) == b"other" + plain[5:]


@pytest.mark.parametrize(
    ("values", "asked"),
    [
        (["gzip"], True),
        (["deflate, GZip;q=0.5"], True),
        (["br", "x-gzip"], True),
        (["gzip;q=0"], False),
        (["gzip; q=0.000, br"], False),
        (["*"], False),
        (["identity"], False),
        ([""], False),
        ([], False),
    ],
)
def test_who_asks_for_it(values: list[str], asked: bool) -> None:
    """Only who names it, with a weight."""
    assert accepts_gzip(values) is asked


async def test_off_unless_configured() -> None:
    """Most clients accept gzip without having been asked."""
    async with edge(settings()) as plain, wired(plain.running) as wire:
        await wire.send(
            request("POST", REPLAY, b'{"event_type":"ev","identifier":{},"from_id":"1"}', ASKED)
        )
        answer = await wire.answer()
        assert answer.header("content-encoding") is None
        assert answer.header("vary") is None
        assert b"replay_completed" in answer.body


async def test_a_replay_is_the_same(served: Edge) -> None:
    """Compressed or not, but for the id and the time of the request."""
    for number in range(300):
        await served.notify("ev", {"region": "n"}, payload={"n": number})
    bodies = []
    for headers in ([], ASKED):
        async with wired(served.running) as wire:
            body = b'{"event_type":"ev","identifier":{},"from_id":"1"}'
            answer = await wire.ask("POST", REPLAY, body, headers)
            assert answer.header("vary") == "Accept-Encoding"
            assert answer.header("content-encoding") == ("gzip" if headers else None)
            bodies.append(gzip.decompress(answer.body) if headers else answer.body)
            assert (await wire.ask("GET", "/health")).status == 200
    plain, decoded = ([f for f in b.split(b"\n\n") if b"event: replay\n" in f] for b in bodies)
    assert len(plain) == 300
    assert decoded == plain
    assert len(bodies[0]) == len(bodies[1])


async def test_every_notification_is_seen_at_once(served: Edge) -> None:
    """Before the next one is sent; with the heartbeat of its own, and to the proper end."""
    async with wired(served.running) as wire, wired(served.running) as other:
        streams = [await _watching(wire), await _watching(other)]
        for number in range(3):
            await served.notify("diss2", {"destination": "FOO", "note": str(number)})
            for reader, decoding in streams:
                async with asyncio.timeout(PATIENCE_S):
                    seen = decoding.decompress(await reader.chunk())
                assert Event(seen).data["data"]["identifier"]["note"] == str(number)
    assert not [depth for depth in served.hub.depths() if depth]


async def test_the_end_of_a_watch_is_the_end_of_its_gzip() -> None:
    """The trailer agrees with all that was sent, by the handler and while it rested."""
    parts = settings({"watch_endpoint": {"compression": True}})
    async with edge(parts) as served, wired(served.running) as wire:
        reader, decoding = await _watching(wire)
        await served.notify("diss2", {"destination": "FOO", "note": "x"})
        served.running.stop.request()
        seen = b""
        async with asyncio.timeout(PATIENCE_S):
            while piece := await reader.chunk():
                seen += decoding.decompress(piece)
        assert decoding.eof
        assert seen.count(b"event: live-notification") == 1
        assert b"server_shutdown" in seen


async def test_curl_decodes_it(served: Edge) -> None:
    """As it comes: the notification is there while the stream is open."""
    url = f"http://{served.running.host}:{served.running.port}{WATCH}"
    body = '{"event_type":"diss2","identifier":{"destination":"FOO"}}'
    curl = await asyncio.create_subprocess_exec(
        *("curl", "-sN", "--compressed", "-X", "POST", "-d", body, url),
        stdout=asyncio.subprocess.PIPE,
    )
    assert curl.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE_S):
            await curl.stdout.readuntil(b"event: heartbeat")
            await served.notify("diss2", {"destination": "FOO", "note": "curl"})
            await curl.stdout.readuntil(b'"note":"curl"')
    finally:
        curl.kill()
        await curl.wait()


async def _watching(wire: Wire) -> tuple[Wire, "zlib._Decompress"]:
    """A compressed watch that has sent its first two frames."""
    body = b'{"event_type":"diss2","identifier":{"destination":"FOO"}}'
    await wire.send(request("POST", WATCH, body, ASKED))
    decoding = zlib.decompressobj(31)
    async with asyncio.timeout(PATIENCE_S):
        await wire.reader.readuntil(b"\r\n\r\n")
        assert b"connection_established" in decoding.decompress(await wire.chunk())
        assert b"heartbeat" in decoding.decompress(await wire.chunk())
    return wire, decoding
