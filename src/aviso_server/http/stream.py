"""``POST /api/v1/watch`` and ``POST /api/v1/replay``: a feed on a chunked response."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from time import perf_counter

import structlog
from aiohttp import hdrs, web

from aviso_server.core import footprint
from aviso_server.core.cursor import FromSequence, FromTime, Start
from aviso_server.core.errors import RequestError, SetupFailed
from aviso_server.core.moment import seconds
from aviso_server.core.operation import Operation
from aviso_server.core.wire import NotificationRequest, parse_request
from aviso_server.http.access import IDENTITY, actor, admission, caller, entitle, expiry_ns
from aviso_server.http.body import read_body
from aviso_server.http.errors import error_answer
from aviso_server.http.gzip import Gzip, accepts_gzip
from aviso_server.http.held import Held, StreamAnswer
from aviso_server.http.journal import log_refused
from aviso_server.http.outlet import ChunkedOutlet
from aviso_server.http.resting import lay_to_rest
from aviso_server.http.services import REQUEST_ID, SERVICES
from aviso_server.relay.feed import Feed
from aviso_server.relay.query import Query, StreamRules, query_of
from aviso_server.relay.turns import aside, load_arrays
from aviso_server.telemetry.metrics import StreamMeter

SSE_HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
    "Access-Control-Allow-Origin": "*",
}


async def watch(request: web.Request) -> web.StreamResponse:
    """Follow notifications, optionally after their history."""
    return await _stream(request, Operation.WATCH)


async def replay(request: web.Request) -> web.StreamResponse:
    """Read history."""
    return await _stream(request, Operation.REPLAY)


async def _stream(request: web.Request, operation: Operation) -> web.StreamResponse:
    services = request.app[SERVICES]
    request_id = request[REQUEST_ID]
    begun = perf_counter()
    event_type: str | None = None
    query: Query | None = None
    try:
        body = await read_body(request, services.max_body_bytes)
        message = await aside(len(body), partial(parse_request, body))
        schema = services.catalogue.find(message.event_type)
        event_type = message.event_type
        admission(request, operation)(schema)
        if schema.spatial is not None or _constrains(message):
            await load_arrays()
        query = await aside(
            len(body),
            partial(
                query_of,
                schema,
                message,
                operation,
                request_id=request_id,
                expires_at_ns=expiry_ns(request),
            ),
        )
        await entitle(request, query)
        asking = caller(request)
        query = replace(query, caller=asking.key)
        with Held() as held:
            counted = services.limits.stream(asking, footprint.of_stream(query.filter))
            held.add(counted.end)
            meter = services.sources.metrics.stream(operation, query.schema.label)
            meter.connections.add()
            feed = Feed(services.sources, query)
            held.add(feed.close)
            await feed.open()
            _log_established(query, actor(request), perf_counter() - begun)
            _log_created(query, services.sources.rules)
            response = await _run(request, feed, meter, held)
            if response.held is not None:
                counted.shrink(footprint.STREAM - footprint.RESTING)
            return response
    except (RequestError, SetupFailed) as error:
        topic = query.topic if query else None
        log_refused(error, operation, request, event_type=event_type, topic=topic)
        return error_answer(error, operation, request_id, topic=topic)


def _constrains(message: NotificationRequest) -> bool:
    """Whether a request asks for more than texts: many such are compared in arrays."""
    return any(isinstance(value, dict) for value in message.identifier.values())


async def _run(request: web.Request, feed: Feed, meter: StreamMeter, held: Held) -> StreamAnswer:
    response = StreamAnswer(headers=SSE_HEADERS)
    if request.app[SERVICES].compress_streams:
        response.headers.add(hdrs.VARY, hdrs.ACCEPT_ENCODING)
        if accepts_gzip(request.headers.getall(hdrs.ACCEPT_ENCODING, ())):
            response.headers[hdrs.CONTENT_ENCODING] = "gzip"
            response.gzip = Gzip()
    writer = await response.prepare(request)
    if writer is None:  # pragma: no cover - only when prepared before
        raise ConnectionResetError("the response has ended")
    identity = request.get(IDENTITY)
    held.add(meter.alive(None if identity is None else identity.username).end)
    outlet = ChunkedOutlet(request, response, writer)
    if not await feed.begin(outlet):
        if lay_to_rest(request, feed, held, response):
            return response
        await feed.run(outlet, begun=True)
    await response.write_eof()
    return response


def _log_established(query: Query, who: Mapping[str, str], setup_s: float) -> None:
    mode = "replay_only"
    if query.operation is Operation.WATCH:
        mode = "live_only" if query.window.start is None else "historical_then_live"
    structlog.get_logger().info(
        "Stream established",
        event_name=f"api.{query.operation.value}.stream.established",
        request_id=query.request_id,
        event_type=query.event_type,
        topic=query.topic,
        **who,
        start_at=_start_text(query.window.start),
        stream_mode=mode,
        setup_duration_ms=round(setup_s * 1000, 3),
    )


def _log_created(query: Query, rules: StreamRules) -> None:
    """What the stream will do: wait, read history and wait, or read history."""
    start = query.window.start
    kind = "replay"
    if query.operation is Operation.WATCH:
        kind = "watch.live" if start is None else "watch.replay_live"
    structlog.get_logger().info(
        "Stream created",
        event_name=f"stream.{kind}.created",
        request_id=query.request_id,
        event_type=query.event_type,
        topic=query.topic,
        timeout_seconds=rules.max_duration_s if start is None else None,
        from_sequence=start.sequence if isinstance(start, FromSequence) else None,
        from_date=seconds(start.ns) if isinstance(start, FromTime) else None,
        batch_size=None if start is None else rules.batch_size,
    )


def _start_text(start: Start | None) -> str:
    match start:
        case FromSequence(sequence):
            return str(sequence)
        case FromTime(ns):
            return seconds(ns)
        case None:
            return "live"
