"""A span for every request, while export is on."""

from collections.abc import Awaitable, Callable
from functools import partial

from aiohttp import web

from aviso_server.http.held import outlast
from aviso_server.http.services import REQUEST_ID
from aviso_server.telemetry.export import Export, RequestSpan

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

TRACE: web.RequestKey[dict[str, str]] = web.RequestKey("trace", dict)
"""The ids of the request's span, as log records carry them."""


class Tracing:
    """Opens a span when a request comes and ends it with its answer, streams included."""

    def __init__(self, export: Export) -> None:
        self._export = export

    @web.middleware
    async def trace(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Let a request through, inside a span."""
        span = self._export.request(request.headers)
        request[TRACE] = span.ids
        try:
            response = await handler(request)
        except BaseException:
            _end_of(span, request, 500)()
            raise
        outlast(response, _end_of(span, request, response.status))
        return response


def _end_of(span: RequestSpan, request: web.Request, status: int) -> Callable[[], None]:
    resource = request.match_info.route.resource
    route = "unmatched" if resource is None else resource.canonical
    about: dict[str, str | int] = {
        "http.request.method": request.method,
        "http.route": route,
        "http.response.status_code": status,
        "request_id": request.get(REQUEST_ID, ""),
    }
    return partial(span.end, f"{request.method} {route}", about, failed=status >= 500)
