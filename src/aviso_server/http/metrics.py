"""Metrics at the edge: every request counted, and the listener that shows the numbers.

The listener is a separate application on its own port, so that the API is not reachable there, nor
the metrics on the main port.
"""

import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from aviso_server.auth.refusal import Forbidden, Unauthorized
from aviso_server.core.errors import (
    AvisoError,
    BodyTooLarge,
    MalformedBody,
    UnknownEventType,
    UnknownMember,
    WrongShape,
)
from aviso_server.core.schema import Catalogue
from aviso_server.http.middleware import finish_headers, identify
from aviso_server.http.site import Site
from aviso_server.telemetry.metrics import UNKNOWN, Metrics, Number, Timing

PATH = "/metrics"
CONTENT_TYPE = "text/plain; version=0.0.4"

_METHODS = frozenset(
    ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "TRACE")
)
_OTHER = "other"
_UNMATCHED = "unmatched"
_FAILED = "error"
_FAREWELL_S = 1.0
"""How long a scrape in progress gets at the end."""

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _Progress:
    """A request on its way to its headers."""

    __slots__ = ("answered", "begun", "in_flight")

    def __init__(self, in_flight: Number) -> None:
        self.in_flight = in_flight
        self.begun = time.perf_counter()
        self.answered = False


_PROGRESS: web.RequestKey[_Progress] = web.RequestKey("progress", _Progress)


class RequestMeter:
    """Counts requests, from their entry until their headers are ready.

    On the way of every notification, so it keeps what it counts with at hand: asking ``Metrics``
    each time took twice as long.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._in_flight: dict[str, Number] = {}
        self._known: dict[tuple[web.AbstractResource, str, int], tuple[Number, Timing]] = {}
        """By what was matched; as many as there are routes and statuses."""

    def attach(self, app: web.Application) -> None:
        """Count the requests of an application; to be done after its own middlewares are set."""
        app.middlewares.insert(0, self.entered)
        app.on_response_prepare.append(self.answered)

    @web.middleware
    async def entered(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Count a request as in flight until it is answered, fails outright or is cancelled."""
        in_flight = self._in_flight.get(request.method)
        if in_flight is None:
            method = _method(request)
            in_flight = self._in_flight[method] = self._metrics.in_flight(method)
        in_flight.add()
        request[_PROGRESS] = progress = _Progress(in_flight)
        try:
            return await handler(request)
        except BaseException as error:
            if not progress.answered:
                progress.answered = True
                in_flight.add(-1)
                if isinstance(error, Exception):
                    _count(self._metrics.requests(_FAILED, _method(request), 500), progress.begun)
            raise

    async def answered(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """The headers are ready."""
        if not isinstance(request, web.Request):
            return  # pragma: no cover - only requests of an application get here
        progress = request[_PROGRESS]
        progress.answered = True
        progress.in_flight.add(-1)
        resource = request.match_info.route.resource
        if resource is None:
            route, method = await _refused_route(request), _method(request)
            _count(self._metrics.requests(route, method, response.status), progress.begun)
            return
        self.served(resource, request.method, response.status, progress.begun)

    def served(
        self, resource: web.AbstractResource, method: str, status: int, begun: float
    ) -> None:
        """Count an answer; ``begun`` is when its request came, by ``time.perf_counter``."""
        key = resource, method, status
        known = self._known.get(key)
        if known is None:
            shown = method if method in _METHODS else _OTHER
            known = self._known[key] = self._metrics.requests(resource.canonical, shown, status)
        _count(known, begun)


def _count(counters: tuple[Number, Timing], begun: float) -> None:
    number, timing = counters
    number.add()
    timing.observe(time.perf_counter() - begun)


def _method(request: web.Request) -> str:
    return request.method if request.method in _METHODS else _OTHER


async def _refused_route(request: web.Request) -> str:
    """The pattern that the path of a request without handler matches, whatever the method."""
    if getattr(request.match_info.http_exception, "status", None) == 405:
        for resource in request.app.router.resources():
            if (await resource.resolve(request))[1]:
                return resource.canonical
    return _UNMATCHED


def count_refused(
    metrics: Metrics, catalogue: Catalogue, error: AvisoError | None, event_type: str | None
) -> None:
    """Count a notification that was not stored; no error means that it was unforeseen."""
    match error:
        case UnknownEventType():
            metrics.notified(UNKNOWN, "rejected")
        case Unauthorized() | Forbidden():
            metrics.notified(_label(catalogue, event_type), "rejected")
        case MalformedBody() | UnknownMember() | WrongShape() | BodyTooLarge():
            metrics.notified(UNKNOWN, "error")
        case _:
            metrics.notified(_label(catalogue, event_type), "error")


def _label(catalogue: Catalogue, event_type: str | None) -> str:
    return UNKNOWN if event_type is None else catalogue.label(event_type)


@asynccontextmanager
async def serve_metrics(
    listener: socket.socket, render: Callable[[], Awaitable[bytes]]
) -> AsyncIterator[None]:
    """Serve the metrics page on its own socket."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(body=await render(), headers={"Content-Type": CONTENT_TYPE})

    app = web.Application(middlewares=[identify])
    app.on_response_prepare.append(finish_headers)
    app.router.add_get(PATH, page, allow_head=True)
    runner = web.AppRunner(
        app, handle_signals=False, handler_cancellation=True, shutdown_timeout=_FAREWELL_S
    )
    await runner.setup()
    try:
        await Site(runner, listener).start()
        yield
    finally:
        await runner.cleanup()
