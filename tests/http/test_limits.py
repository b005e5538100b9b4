"""Limits: open streams, rate of notifications, slow bodies; 429 and 408 with the error object."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.access import PROTECTED, READ_ONLY, bearer, proxy_auth, token
from support.clock import Clock
from support.config import settings
from support.edge import Parts, edge
from support.raw import Answer, request, wired
from support.server import Client, connected

from aviso_server.core import footprint
from aviso_server.core.filter import Filter
from aviso_server.core.json import Json
from aviso_server.http.connection import ConnectionRules
from aviso_server.http.limits import MAX_BUCKETS, Allowance, Caller, Limiter, TooManyRequests
from aviso_server.server.build import limit_bounds

ALICE = Caller("10.0.0.1", "r/alice")
EV: dict[str, Any] = {"event_type": "ev", "identifier": {"region": "n"}}
BODY = json.dumps(EV).encode()


def limited(**bounds: int) -> tuple[Limiter, Clock]:
    """Limits on a clock of their own."""
    clock = Clock()
    return Limiter(Allowance(**bounds), clock), clock


@contextmanager
def opening(limits: Limiter, *callers: Caller) -> Iterator[None]:
    """Streams of these callers, all open."""
    with ExitStack() as stack:
        for caller in callers:
            stack.enter_context(limits.stream(caller))
        yield


# Streams


@pytest.mark.parametrize(
    ("bounds", "present", "refused", "allowed"),
    [
        ({"streams": 2}, [ALICE, Caller("b")], Caller("c"), None),
        ({"streams_per_user": 1}, [ALICE], Caller("other", "r/alice"), Caller("10.0.0.1", "r/bob")),
        ({"streams_per_address": 1}, [Caller("a")], Caller("a", "r/alice"), Caller("b")),
        ({"streams_per_user": 1}, [Caller("a")], None, Caller("a")),
        ({}, [ALICE] * 50, None, ALICE),
    ],
)
def test_each_bound_counts_what_it_is_for(
    bounds: dict[str, int], present: list[Caller], refused: Caller | None, allowed: Caller | None
) -> None:
    """All together, by user whatever the address, by address whoever it is; 0 is no limit."""
    limits, _ = limited(**bounds)
    with opening(limits, *present):
        if allowed is not None:
            with limits.stream(allowed):
                pass
        if refused is not None:
            with (
                pytest.raises(TooManyRequests, match="Too many open streams"),
                opening(limits, refused),
            ):
                pass
    with opening(limits, *[item for item in (refused, allowed) if item]):
        pass  # those that ended made room


def test_what_streams_take_together_is_bounded() -> None:
    """A stream with a large filter may be one too many where one with a small filter is not."""
    limits, _ = limited(stream_bytes=100_000)
    with opening(limits, ALICE), limits.stream(ALICE, 90_000):
        with (
            pytest.raises(TooManyRequests, match="what they take together is 100000 bytes"),
            limits.stream(ALICE, 10_001),
        ):
            pass
        with limits.stream(ALICE, 10_000):
            pass
    with limits.stream(ALICE, 100_000):
        pass  # those that ended made room


def test_a_suite_may_open_thousands_of_streams_from_one_host() -> None:
    """By default one user may follow thousands of events from one address, but not take all."""
    limits = Limiter(limit_bounds(settings()), Clock())
    plain = footprint.of_stream(Filter((("region", "n"),)))
    with ExitStack() as stack:
        for _ in range(5000):
            stack.enter_context(limits.stream(ALICE, plain))
        with pytest.raises(TooManyRequests, match="per user is 5000"), limits.stream(ALICE, plain):
            pass
        neighbour = Caller(ALICE.address)
        with (
            pytest.raises(TooManyRequests, match="per address is 5000"),
            limits.stream(neighbour, plain),
        ):
            pass
        for number in range(15_000):
            stack.enter_context(limits.stream(Caller(f"10.1.{number % 256}.1"), plain))
        assert limits.open_streams == 20_000, "and what plain filters take is no narrower limit"


@given(st.lists(st.sampled_from([ALICE, Caller("a"), Caller("b", "r/bob")]), max_size=12))
def test_nothing_is_kept_of_streams_that_ended(callers: list[Caller]) -> None:
    """Whatever was open or refused, in the end all counts are gone."""
    limits, _ = limited(streams=6, streams_per_user=2, streams_per_address=3)
    with ExitStack() as stack:
        for caller in callers:
            try:
                stack.enter_context(limits.stream(caller, 100))
            except TooManyRequests:
                continue
        assert limits.open_streams <= 6
    assert (limits.open_streams, limits._by_user, limits._by_address) == (0, {}, {})
    assert limits._bytes == 0


# Rate


@given(
    st.integers(1, 50),
    st.integers(1, 100),
    st.lists(st.tuples(st.floats(0, 5), st.integers(1, 300)), max_size=40),
)
def test_the_rate_holds_in_the_long_run(
    rate: int, burst: int, attempts: list[tuple[float, int]]
) -> None:
    """No more passes than the burst, the rate over the time, and one batch that began in time."""
    limits, clock = limited(notify_rate=rate, notify_burst=burst)
    begun, passed, largest = clock.now, 0, 0
    for pause, count in attempts:
        clock.now += pause
        try:
            limits.notify(ALICE, count)
        except TooManyRequests:
            continue
        passed += count
        largest = max(largest, count)
    assert passed <= burst + rate * (clock.now - begun) + largest + 1e-6


@given(st.integers(1, 50), st.integers(1, 100), st.lists(st.integers(1, 300), min_size=1))
def test_retry_after_is_enough(rate: int, burst: int, counts: list[int]) -> None:
    """Who waits the seconds it was told gets through."""
    limits, clock = limited(notify_rate=rate, notify_burst=burst)
    for count in counts:
        try:
            limits.notify(ALICE, count)
        except TooManyRequests as error:
            clock.now += error.retry_after_s
            limits.notify(ALICE, count)


def test_callers_do_not_share_a_bucket() -> None:
    """Users by name, anonymous ones by address; an address never is a user."""
    limits, _ = limited(notify_rate=1, notify_burst=1)
    for caller in (ALICE, Caller("a", "r/bob"), Caller("a"), Caller("b"), Caller("x", "a")):
        limits.notify(caller)
        with pytest.raises(TooManyRequests, match="the limit is 1 per second"):
            limits.notify(caller)
    with pytest.raises(TooManyRequests):
        limits.notify(Caller("elsewhere", "r/alice"))


def test_memory_of_callers_is_bounded() -> None:
    """However many there are; those who still owe something are remembered longest."""
    limits, clock = limited(notify_rate=1, notify_burst=10)
    limits.notify(ALICE, 500)
    for number in range(3 * MAX_BUCKETS):
        clock.now += 0.001
        limits.notify(Caller(str(number)), 1)
    assert len(limits._buckets) <= MAX_BUCKETS


# On the wire


def refused(answer: Answer, message: str) -> None:
    """A 429 with the error object and a time to wait."""
    assert answer.status == 429
    assert answer.header("content-type") == "application/json"
    assert int(answer.header("retry-after") or 0) >= 1
    assert list(answer.data) == ["code", "details", "error", "message", "request_id"]
    assert answer.data["code"] == "TOO_MANY_REQUESTS"
    assert answer.data["error"] == "Too Many Requests"
    assert answer.data["details"] == answer.data["message"] == message
    assert answer.data["request_id"] == answer.request_id


async def _ask(client: Client, path: str, body: bytes) -> Answer:
    async with wired(client.running) as wire:
        return await wire.ask("POST", f"/api/v1/{path}", body)


@pytest.mark.parametrize("endpoint", ["watch", "replay"])
async def test_streams_over_the_limit_are_429(endpoint: str) -> None:
    """Watch and replay count together; one that ends makes room."""
    body = {**EV, "from_id": "1"} if endpoint == "replay" else EV
    message = "Too many open streams: the limit per address is 1"
    limits: dict[str, Json] = {"limits": {"max_streams_per_address": 1}}
    async with connected(settings(limits)) as client:
        async with client.watch("ev", {}) as stream:
            await stream.until("connection_established")
            refused(await _ask(client, endpoint, json.dumps(body).encode()), message)
        async with asyncio.timeout(20):
            while (status := await _status(client, endpoint, body)) == 429:
                pass  # the server has yet to notice that the first one is gone
        assert status == 200


async def _status(client: Client, endpoint: str, body: dict[str, Any]) -> int:
    async with client.session.post(f"{client.running.url}/api/v1/{endpoint}", json=body) as answer:
        return answer.status


async def test_a_bad_request_is_told_what_is_wrong_with_it_first() -> None:
    """A stream that can never be opened is not asked to wait."""
    async with (
        connected(settings({"limits": {"max_streams": 1}})) as client,
        client.watch("ev", {}) as stream,
    ):
        await stream.until("connection_established")
        answer = await _ask(client, "watch", b'{"event_type":"no","identifier":{}}')
        assert answer.data["code"] == "UNKNOWN_EVENT_TYPE"


async def test_notifications_over_the_rate_are_429() -> None:
    """Nothing is stored of them."""
    limits: dict[str, Json] = {"limits": {"notify_rate_per_user": 1, "notify_burst_per_user": 2}}
    async with connected(settings(limits)) as client:
        answers = [await _ask(client, "notification", BODY) for _ in range(8)]
        refused(answers[2], "Too many notifications: the limit is 1 per second")
        stored = [answer.data["sequence"] for answer in answers if answer.status == 200]
        assert stored == list(range(1, len(stored) + 1))


async def test_a_batch_counts_its_items() -> None:
    """A batch larger than the burst passes once, and is waited off."""
    limits: dict[str, Json] = {"limits": {"notify_rate_per_user": 1, "notify_burst_per_user": 2}}
    batch = json.dumps([EV] * 10).encode()
    async with connected(settings(limits)) as client:
        assert (await _ask(client, "notifications", batch)).data["accepted"] == 10
        answer = await _ask(client, "notifications", batch)
        refused(answer, "Too many notifications: the limit is 1 per second")
        assert int(answer.header("retry-after") or 0) >= 8


@pytest.mark.parametrize("sent", [b"", BODY[:10]])
async def test_a_body_that_does_not_arrive_is_408(sent: bytes) -> None:
    """The connection is not held for a client that stopped in its body."""
    brisk = settings({"application": {"body_timeout_seconds": 1}})
    async with (
        edge(brisk, Parts(connections=ConnectionRules(linger_s=0.1))) as served,
        wired(served.running) as wire,
    ):
        head = f"POST /api/v1/notification HTTP/1.1\r\nHost: x\r\nContent-Length: {len(BODY)}"
        await wire.send(f"{head}\r\n\r\n".encode() + sent)
        answer = await wire.answer()
        assert answer.status == 408
        assert answer.data["code"] == "REQUEST_TIMEOUT"
        assert answer.data["error"] == "Request Timeout"
        assert answer.data["message"] == "Request body did not arrive within 1 seconds"
        assert answer.header("connection") == "close"
        assert await wire.rest() == b""


async def test_users_are_counted_by_realm_and_name() -> None:
    """Two connections of one user are one user; the same name elsewhere is another."""
    chosen = settings(
        {"auth": proxy_auth(), "limits": {"max_streams_per_user": 1}}, schemas=PROTECTED
    )
    watch = json.dumps({"event_type": "members", "identifier": {}}).encode()
    async with connected(chosen) as client:
        one = [bearer(token(READ_ONLY))]
        other = [bearer(token(("reader", "partner", ())))]
        async with wired(client.running) as first, wired(client.running) as second:
            await first.send(request("POST", "/api/v1/watch", watch, one))
            assert (await first._head()).status == 200
            message = "Too many open streams: the limit per user is 1"
            refused(await second.ask("POST", "/api/v1/watch", watch, one), message)
            await second.send(request("POST", "/api/v1/watch", watch, other))
            assert (await second._head()).status == 200


async def test_an_idle_connection_is_closed() -> None:
    """After the configured time, with nothing sent and with half a head."""
    async with (
        connected(settings({"application": {"idle_timeout_seconds": 1}})) as client,
        wired(client.running) as silent,
        wired(client.running) as half,
    ):
        await half.send(b"GET /health HTTP/1.1\r\nHo")
        assert await silent.rest() == await half.rest() == b""
