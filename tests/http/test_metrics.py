"""The metrics listener, and what requests and streams move."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace

import aiohttp
import pytest
from backends.jetstream.conftest import eventually
from support.faults import FaultyBackend
from support.metrics import Page, Sample, counting, moved, page_url, parsed, scrape, shown
from support.raw import UUID4, wired
from support.relay import Relay, relay
from support.server import Client, connected

from aviso_server.core.errors import HistoryFailed
from aviso_server.core.json import Json
from aviso_server.server.build import StartFailed
from aviso_server.server.serve import serving
from aviso_server.telemetry.cells import Cells
from aviso_server.telemetry.metrics import Metrics
from aviso_server.telemetry.series import SERIES

WATCH = {"route": "/api/v1/watch", "event_type": "ev"}
REPLAY = {"route": "/api/v1/replay", "event_type": "ev"}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A server that counts."""
    async with connected(counting({"watch_endpoint": {"max_historical_notifications": 3}})) as made:
        yield made


async def post(client: Client, path: str, body: "Json | bytes") -> int:
    """The status of a POST."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with client.session.post(f"{client.running.url}{path}", data=data) as response:
        await response.read()
        return response.status


async def changed(client: Client, before: Page, *, prefix: str) -> dict[Sample, float]:
    """What moved since, of the series with a prefix."""
    now = (await scrape(page_url(client.running))).since(before)
    return {key: value for key, value in now.items() if key[0].startswith(prefix)}


# The listener


async def test_the_page(client: Client) -> None:
    """Every series from the start, with the exact content type and a request id."""
    async with client.session.get(page_url(client.running)) as response:
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4"
        assert UUID4.fullmatch(response.headers["X-Request-ID"])
        assert "Server" not in response.headers
        page = parsed(await response.text())
    assert {item.name for item in SERIES} < set(page.types)
    assert page.value("aviso_backend_connected", backend="in_memory") == 1
    assert page.value("process_open_fds") > 0
    assert "_created" not in page.text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("HEAD", "/metrics", 200),
        ("POST", "/metrics", 405),
        ("DELETE", "/metrics", 405),
        ("GET", "/", 404),
        ("GET", "/metrics/", 404),
        ("GET", "/health", 404),
        ("POST", "/api/v1/notification", 404),
    ],
)
async def test_nothing_else_is_there(client: Client, method: str, path: str, status: int) -> None:
    """Other paths are 404 and other methods 405, empty, with a request id."""
    url = page_url(client.running).removesuffix("/metrics") + path
    async with client.session.request(method, url) as response:
        assert response.status == status
        assert await response.read() == b""
        assert UUID4.fullmatch(response.headers["X-Request-ID"])
        assert response.headers.get("Allow") == ("GET, HEAD" if status == 405 else None)


async def test_the_main_port_has_no_metrics(client: Client) -> None:
    """The page is on its own port only, and looking at it counts nothing."""
    async with client.session.get(f"{client.running.url}/metrics") as response:
        assert response.status == 404
    before = await scrape(page_url(client.running))
    assert await changed(client, before, prefix="aviso_") == {}


async def test_a_port_that_is_taken() -> None:
    """The start fails and says which setting to change."""
    async with connected(counting()) as client:
        chosen = counting()
        port = chosen.metrics.model_copy(update={"port": client.running.metrics_port})
        with pytest.raises(StartFailed, match=r"cannot listen .* Choose another metrics\.port\."):
            async with serving(replace(chosen, metrics=port)):
                pass


async def test_it_stops_last() -> None:
    """While requests finish at shutdown the numbers can still be read."""
    async with AsyncExitStack() as stack:
        wires = await stack.enter_async_context(AsyncExitStack())
        running = await stack.enter_async_context(serving(counting()))
        wire = await wires.enter_async_context(wired(running))
        await wire.send(
            b"POST /api/v1/notification HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"
        )
        await eventually(lambda: _in_flight(page_url(running), 1))
        closing = asyncio.create_task(stack.aclose())
        await eventually(lambda: _refused(running.port))
        assert (await scrape(page_url(running))).total("aviso_http_requests_in_flight") == 1
        await wire.send(b"}}}}}}}}")
        await closing
        with pytest.raises(aiohttp.ClientError):
            await scrape(page_url(running))


async def _in_flight(url: str, count: int) -> bool:
    page = await scrape(url)
    return page.named("aviso_http_requests_in_flight") == {frozenset({("method", "POST")}): count}


async def _refused(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return True
    writer.close()
    return False


# Requests


@pytest.mark.parametrize(
    ("method", "path", "route", "status"),
    [
        ("GET", "/health", "/health", 200),
        ("HEAD", "/health", "/health", 200),
        ("GET", "/api/v1/schema/ev", "/api/v1/schema/{event_type}", 200),
        ("GET", "/api/v1/schema/none", "/api/v1/schema/{event_type}", 404),
        ("POST", "/health", "/health", 405),
        ("DELETE", "/api/v1/schema/ev", "/api/v1/schema/{event_type}", 405),
        ("GET", "/nowhere", "unmatched", 404),
        ("PROPFIND", "/health", "/health", 405),
    ],
)
async def test_requests_are_counted(
    client: Client, method: str, path: str, route: str, status: int
) -> None:
    """By the pattern that the path matches, whatever the method; unknown methods are one."""
    before = await scrape(page_url(client.running))
    async with client.session.request(method, f"{client.running.url}{path}") as response:
        assert response.status == status
    shown = method if method != "PROPFIND" else "other"
    assert await changed(client, before, prefix="aviso_http_") == (
        moved("aviso_http_requests_total", route=route, method=shown, status_code=str(status))
        | moved("aviso_http_request_duration_seconds_count", route=route, method=shown)
    )


async def test_a_refused_expectation_is_counted(client: Client) -> None:
    """What is refused before any handler is a request too; it was never in flight."""
    before = await scrape(page_url(client.running))
    async with wired(client.running) as wire:
        await wire.send(
            b"POST /api/v1/notification HTTP/1.1\r\nHost: x\r\nExpect: x\r\n"
            b"Content-Length: 2\r\n\r\n{}"
        )
        answer = await wire.answer()
    labels = {"route": "/api/v1/notification", "method": "POST"}
    assert await changed(client, before, prefix="aviso_http_requests") == moved(
        "aviso_http_requests_total", **labels, status_code=str(answer.status)
    )


async def test_a_request_is_in_flight_until_its_client_is_gone(client: Client) -> None:
    """A body that never comes is in flight; a client that leaves takes it away, uncounted."""
    url = page_url(client.running)
    before = await scrape(url)
    async with wired(client.running) as wire:
        await wire.send(
            b"POST /api/v1/notification HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"
        )
        await eventually(lambda: _in_flight(url, 1))
    await eventually(lambda: _in_flight(url, 0))
    assert await changed(client, before, prefix="aviso_http_requests_in_flight") == {}


# Notifications


@pytest.mark.parametrize(
    ("body", "event_type", "status"),
    [
        ({"event_type": "ev", "identifier": {"region": "n"}}, "ev", "success"),
        (b"{", "unknown", "error"),
        (b'{"event_type":"ev","identifier":{},"who":1}', "unknown", "error"),
        (b"[" + b" " * 300_000 + b"]", "unknown", "error"),
        ({"event_type": "nobody", "identifier": {}}, "unknown", "rejected"),
        ({"event_type": "ev", "identifier": {"who": "1"}}, "ev", "error"),
    ],
)
async def test_a_notification_counts_once(
    client: Client, body: "Json | bytes", event_type: str, status: str
) -> None:
    """By event type and status; what was never an event type of ours is ``unknown``."""
    before = await scrape(page_url(client.running))
    await post(client, "/api/v1/notification", body)
    assert await changed(client, before, prefix="aviso_notifications") == moved(
        "aviso_notifications_total", event_type=event_type, status=status
    )


async def test_a_repeat_is_a_success(client: Client) -> None:
    """A key sent twice stores once and succeeds twice."""
    before = await scrape(page_url(client.running))
    for _ in range(2):
        async with client.session.post(
            f"{client.running.url}/api/v1/notification",
            json={"event_type": "ev", "identifier": {"region": "n"}},
            headers={"Idempotency-Key": "k"},
        ) as response:
            assert response.status == 200
    assert await changed(client, before, prefix="aviso_notifications") == moved(
        "aviso_notifications_total", 2, event_type="ev", status="success"
    )


async def test_event_types_without_schema_share_a_name() -> None:
    """Names that clients make up never become labels."""
    async with connected(counting({"notification_schema_strict": False})) as client:
        before = await scrape(page_url(client.running))
        for name in ("mine", "yours"):
            await client.notify(name, {"a": "b"})
        assert (
            await post(client, "/api/v1/notification", {"event_type": "!", "identifier": {}}) == 400
        )
        async with client.replay("mine", {}, from_id="1") as stream:
            await stream.rest()
        page = await scrape(page_url(client.running))
        now = page.since(before)
        assert (
            now.items()
            >= (
                moved("aviso_notifications_total", 2, event_type="generic", status="success")
                | moved("aviso_notifications_total", event_type="unknown", status="error")
                | moved("aviso_sse_events_sent_total", route="/api/v1/replay", event_type="generic")
            ).items()
        )
        assert "mine" not in page.text


async def test_each_notification_of_a_batch_counts(client: Client) -> None:
    """As if each had come alone; a batch that cannot be read is one that failed."""
    before = await scrape(page_url(client.running))
    good: Json = {"event_type": "ev", "identifier": {"region": "n"}}
    items: list[Json] = [
        good,
        good,
        {"event_type": "nobody", "identifier": {}},
        {"event_type": "ev", "identifier": {"who": "1"}},
        {"event_type": 5},
    ]
    assert await post(client, "/api/v1/notifications", items) == 200
    assert await post(client, "/api/v1/notifications", b"[") == 400
    assert await changed(client, before, prefix="aviso_notifications") == (
        moved("aviso_notifications_total", 2, event_type="ev", status="success")
        | moved("aviso_notifications_total", 1, event_type="ev", status="error")
        | moved("aviso_notifications_total", 1, event_type="unknown", status="rejected")
        | moved("aviso_notifications_total", 2, event_type="unknown", status="error")
    )


# Streams


async def test_a_watch(client: Client) -> None:
    """Counted when asked for, active while open, notifications as they are written."""
    before = await scrape(page_url(client.running))
    await client.notify("ev", {"region": "n"})
    async with client.watch("ev", {}, from_id="1") as stream:
        await stream.until("replay_completed")
        for _ in range(3):
            await client.notify("ev", {"region": "n"})
            await stream.until("live-notification")
        opened = await changed(client, before, prefix="aviso_sse_")
        assert opened == (
            moved("aviso_sse_connections_total", **WATCH)
            | moved("aviso_sse_connections_active", **WATCH)
            | moved("aviso_sse_events_sent_total", 4, **WATCH)
            | moved("aviso_sse_replay_duration_seconds_count", **WATCH)
        )
    ended = (opened.keys() - moved("aviso_sse_connections_active", **WATCH).keys()) | moved(
        "aviso_sse_connection_duration_seconds_count", route="/api/v1/watch"
    ).keys()
    await eventually(lambda: _changed_are(client, before, ended))


async def _changed_are(client: Client, before: Page, expected: set[Sample]) -> bool:
    return (await changed(client, before, prefix="aviso_sse_")).keys() == expected


async def test_a_stream_is_a_request_that_took_its_set_up(client: Client) -> None:
    """A watch is counted when its headers are ready, not when it ends; then it is not in flight."""
    before = await scrape(page_url(client.running))
    async with client.watch("ev", {}) as stream:
        await stream.until("connection_established")
        labels = {"route": "/api/v1/watch", "method": "POST"}
        assert await changed(client, before, prefix="aviso_http_") == (
            moved("aviso_http_requests_total", **labels, status_code="200")
            | moved("aviso_http_request_duration_seconds_count", **labels)
        )


async def test_a_replay_that_is_cut(client: Client) -> None:
    """The cap is counted, with the notifications up to it."""
    for _ in range(5):
        await client.notify("ev", {"region": "n"})
    before = await scrape(page_url(client.running))
    async with client.replay("ev", {}, from_id="1") as stream:
        await stream.rest()
    moves = await changed(client, before, prefix="aviso_sse_")
    assert (
        moves.items()
        >= (
            moved("aviso_sse_replay_limited_total", **REPLAY)
            | moved("aviso_sse_events_sent_total", 3, **REPLAY)
        ).items()
    )


async def test_history_that_is_gone(client: Client) -> None:
    """The gap signal is counted."""
    for _ in range(3):
        await client.notify("ev", {"region": "n"})
    for sequence in (1, 2):
        assert await client.delete(f"ev@{sequence}") == 200
    before = await scrape(page_url(client.running))
    async with client.replay("ev", {}, from_id="1") as stream:
        await stream.until("history_gap")
        await stream.rest()
    moves = await changed(client, before, prefix="aviso_sse_history")
    assert moves == moved("aviso_sse_history_gaps_total", **REPLAY)


async def test_a_refused_stream_is_none(client: Client) -> None:
    """A request that is refused before it is set up opened nothing."""
    before = await scrape(page_url(client.running))
    assert (
        await post(client, "/api/v1/watch", {"event_type": "ev", "identifier": {"who": 1}}) == 400
    )
    assert await changed(client, before, prefix="aviso_sse_") == {}


# Feeds, whose reader the test holds in its hand


def counted(made: Relay) -> Metrics:
    """Let the feeds of a relay count."""
    metrics = Metrics(Cells.private(), version="1", backend="in_memory")
    made.sources = replace(made.sources, metrics=metrics)
    return metrics


async def test_a_slow_reader() -> None:
    """Its queue is seen while it fills; its switch to history is counted, nothing twice."""
    async with relay(queue_size=5) as made:
        metrics = counted(made)
        reader = await made.watch(stalled=True)
        await made.settle()
        for _ in range(4):
            await made.publish()
            await made.settle()
        metrics.queues_seen(made.sources.hub.depths())
        assert shown(metrics).value("aviso_sse_queue_depth_max") > 0
        for _ in range(16):
            await made.publish()
            await made.settle()
        reader.open.set()
        await reader.until_count(20)
        await made.settle()
        page = shown(metrics)
        assert page.value("aviso_sse_reader_switches_total", **WATCH) == 1
        assert page.value("aviso_sse_events_sent_total", **WATCH) == 20
        assert reader.sequences == list(range(1, 21))


async def test_a_stream_that_fails() -> None:
    """Its error frame is counted."""
    async with relay(FaultyBackend({"read": HistoryFailed("broken")})) as made:
        metrics = counted(made)
        await made.publish()
        reader = await made.replay(from_id="1")
        await reader.end()
        assert "error" in [event.name for event in reader.events]
        page = shown(metrics)
        assert page.value("aviso_sse_stream_errors_total", **REPLAY) == 1
        assert page.value("aviso_sse_events_sent_total", **REPLAY) == 0
        assert page.value("aviso_sse_replay_duration_seconds_count", **REPLAY) == 0
