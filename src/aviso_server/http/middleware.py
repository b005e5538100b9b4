"""What every request goes through: its id, and an answer whatever happens."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from aviso_server.http.connection import ClientConnection
from aviso_server.http.errors import unexpected_answer
from aviso_server.http.journal import log_unexpected
from aviso_server.http.services import REQUEST_ID, SERVICES, new_request_id

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def identify(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Give the request a fresh id; an incoming one is ignored and never echoed."""
    request[REQUEST_ID] = new_request_id()
    try:
        return await handler(request)
    except web.HTTPMethodNotAllowed as refused:
        return _preflight(request, refused) or web.Response(
            status=405, headers={"Allow": ", ".join(sorted(refused.allowed_methods))}
        )
    except web.HTTPException as refused:
        return web.Response(status=refused.status)
    except ConnectionError:
        raise
    except Exception as error:
        log_unexpected(error, request[REQUEST_ID])
        if request.writer.output_size > 0:
            # A second head inside a stream's body would be read as part of it.
            raise
        return unexpected_answer(request[REQUEST_ID])


def _preflight(request: web.Request, refused: web.HTTPMethodNotAllowed) -> web.Response | None:
    """What a browser on an allowed origin gets instead; the metrics listener has no origins."""
    services = request.app.get(SERVICES)
    return None if services is None else services.cors.preflight(request, refused)


async def finish_headers(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """Sign every routed answer with its request id and say nothing about the software."""
    headers = response.headers
    headers.pop("Server", None)
    headers["X-Request-ID"] = request[REQUEST_ID]
    if _is_last(request):
        response.force_close()
        headers["Connection"] = "close"


def _is_last(request: web.BaseRequest) -> bool:
    """Whether the connection is closed after the answer, which must say so."""
    connection = request.protocol
    if isinstance(connection, ClientConnection) and connection.closing:
        return True
    services = request.app.get(SERVICES) if isinstance(request, web.Request) else None
    return services is not None and services.sources.stop.requested
