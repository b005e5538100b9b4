"""The shortest way of notifications: who may take it, what it answers, and what holds it back."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager

import pytest
from support.access import (
    ADMIN,
    PROTECTED,
    READ_ONLY,
    STRANGER,
    WRITER,
    auth_o_tron,
    basic,
    bearer,
    direct_auth,
    proxy_auth,
    token,
)
from support.config import settings
from support.metrics import counting, page_url, scrape
from support.raw import PATIENCE_S, Answer, Wire, request, wired
from support.server import Client, connected
from support.shortcut import comparable, connection_of, takes_shortcut

from aviso_server.core.json import Json

PATH = "/api/v1/notification"
ORIGIN = "https://console.example"
Headers = list[tuple[str, str]]


def announcing(event_type: str) -> bytes:
    return json.dumps({"event_type": event_type, "identifier": {"region": "n"}}).encode()


@pytest.fixture(scope="module")
async def guarded() -> AsyncIterator[Client]:
    """A server with access control, an allowed origin and metrics."""
    more: dict[str, Json] = {
        "auth": proxy_auth(),
        "application": {"cors_allowed_origins": [ORIGIN]},
    }
    async with connected(counting(more, schemas=PROTECTED)) as started:
        yield started


@contextmanager
def _noting(served: Client, here: object) -> Iterator[list[bool]]:
    """Whether each request of a connection was answered by the shortest way."""
    shortcut = connection_of(served, here)._shortcut
    assert shortcut is not None
    real, came = shortcut.answer_at_once, list[bool]()
    assert real is not None

    def noting(headers: Mapping[str, str], body: bytes) -> bytes | None:
        answer = real(headers, body)
        came.append(answer is not None)
        return answer

    shortcut.answer_at_once = noting
    try:
        yield came
    finally:
        shortcut.answer_at_once = real


async def _asked(
    served: Client, wire: Wire, body: bytes, headers: Headers
) -> tuple[Answer, list[bool]]:
    """An answer, and whether it came by the shortest way; nothing if that was not even tried."""
    with _noting(served, wire.here) as came:
        return await wire.ask("POST", PATH, body, headers), came


CALLERS: dict[str, Headers] = {
    "nobody": [],
    "reader": [bearer(token(READ_ONLY))],
    "writer of a known page": [bearer(token(WRITER)), ("Origin", ORIGIN)],
    "administrator of another page": [bearer(token(ADMIN)), ("Origin", "https://other.example")],
    "stranger with a bad key": [bearer(token(STRANGER)), ("Idempotency-Key", "\xe9")],
    "too late": [bearer(token(ADMIN, lives_s=-3600))],
    "signed by another": [bearer(token(ADMIN, key="another-secret-of-more-than-32-bytes"))],
    "cut off": [bearer(token(ADMIN)[:-1])],
    "not even text": [bearer("\xe9.\xff.x")],
    "other scheme": [("Authorization", "Basic eDp5")],
    "two credentials": [bearer(token(WRITER)), bearer(token(ADMIN))],
}


@pytest.mark.parametrize("caller", CALLERS)
async def test_callers_get_the_answers_of_the_long_way(guarded: Client, caller: str) -> None:
    """Whoever asks, also the second time when the credential is known; and each counts the same."""
    headers, page = CALLERS[caller], page_url(guarded.running)
    async with wired(guarded.running) as short, wired(guarded.running) as long:
        assert (await long.ask("GET", "/health")).status == 200  # from now on it is aiohttp's
        for event_type in PROTECTED:
            body = announcing(event_type)
            first = await short.ask("POST", PATH, body, headers)
            before = await scrape(page)
            by_short, came = await _asked(guarded, short, body, headers)
            between = await scrape(page)
            by_long = await long.ask("POST", PATH, body, headers)
            after = await scrape(page)
            assert takes_shortcut(guarded, short)
            assert comparable(first) == comparable(by_short) == comparable(by_long)
            assert between.since(before) == after.since(between)
            assert came == [by_short.status == 200 and caller != "other scheme"]


async def test_a_password_is_asked_about_once_and_then_known() -> None:
    """In direct mode what auth-o-tron said is remembered: nobody is asked on the shortest way."""
    good, body = basic("writer", "pass"), announcing("roles")
    async with AsyncExitStack() as stack:
        asked = await stack.enter_async_context(auth_o_tron({good[1]: token(WRITER)}))
        auth = settings({"auth": direct_auth(asked.url)}, schemas=PROTECTED)
        served = await stack.enter_async_context(connected(auth))
        wire = await stack.enter_async_context(wired(served.running))
        for known in (False, True):
            answer, came = await _asked(served, wire, body, [good])
            assert (answer.status, came) == (200, [known])
        answer, came = await _asked(served, wire, body, [basic("writer", "guess")])
        assert (answer.status, came) == (401, [False])
        assert len(asked.seen) == 2


async def test_too_many_at_once_are_refused_here_too() -> None:
    """While a notification is in progress, one that would be over at once gets its 503."""
    body = announcing("ev")
    limits: dict[str, Json] = {"limits": {"max_notify_in_progress": 1}}
    head, rest = request("POST", PATH, body)[:-5], body[-5:]
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(connected(settings(limits)))
        slow, quick = [await stack.enter_async_context(wired(served.running)) for _ in range(2)]
        assert (await slow.ask("GET", "/health")).status == 200  # aiohttp's: it waits for bodies
        await slow.send(head)
        while (await quick.ask("POST", PATH, body)).status == 200:
            pass  # the head is still on its way
        answer, came = await _asked(served, quick, body, [])
        assert (answer.status, answer.header("retry-after"), came) == (503, "2", [False])
        await slow.send(rest)
        assert (await slow.answer()).status == 200
        answer, came = await _asked(served, quick, body, [])
        assert (answer.status, came) == (200, [True])


async def test_a_client_that_does_not_read_is_not_read_from() -> None:
    """Its answers wait in a bounded buffer and its requests in the network; nothing is lost."""
    sent, loop = request("POST", PATH, announcing("ev")), asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(connected(settings()))
        other = await stack.enter_async_context(wired(served.running))
        client = stack.enter_context(socket.socket())
        client.settimeout(0)
        # Few answers are enough to fill all buffers on their way.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await loop.sock_connect(client, ("127.0.0.1", served.running.port))
        assert (await other.ask("GET", "/health")).status == 200
        connection = connection_of(served, client.getsockname())
        transport = connection.transport
        assert transport is not None
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        transport.set_write_buffer_limits(high=2048)
        served_here, count = stack.enter_context(_noting(served, client.getsockname())), 0
        async with asyncio.timeout(PATIENCE_S):
            while not connection._held:
                await loop.sock_sendall(client, sent)
                count += 1
                while len(served_here) < count and not connection._held:
                    assert (await other.ask("GET", "/health")).status == 200
        waiting = transport.get_write_buffer_size()
        await loop.sock_sendall(client, sent * 50)
        stored = (await other.ask("POST", PATH, announcing("ev"))).data["sequence"]
        assert stored == count  # those before the one that is held, and this one
        assert len(connection._held) == len(sent)
        assert transport.get_write_buffer_size() == waiting <= 4096
        wire = Wire(*await asyncio.open_connection(sock=client))
        sequences = [(await wire.answer()).data["sequence"] for _ in range(count + 50)]
        assert sequences == [*range(1, count), *range(count + 1, count + 52)]
        wire.writer.close()
        await wire.writer.wait_closed()
