"""``GET /health`` and ``GET /ready``: liveness, and fitness to take traffic (D24)."""

import msgspec
from aiohttp import web
from msgspec import UNSET

from aviso_server.http.answers import HealthResponse, ReadyResponse
from aviso_server.http.errors import JSON_TYPE
from aviso_server.http.services import SERVICES

DETAILS = "details"
"""The one query parameter that is looked at: ``GET /ready?details``."""

_ALIVE = msgspec.json.encode(HealthResponse(status="ok"))


async def health(_: web.Request) -> web.Response:
    """The process serves, whatever its backend does."""
    return web.Response(body=_ALIVE, headers=JSON_TYPE)


async def ready(request: web.Request) -> web.Response:
    """Whether the backend is there and the server is not shutting down."""
    services = request.app[SERVICES]
    connected = services.backend.connected
    fit = connected and not services.sources.stop.requested
    # The body without details is the contract's, byte for byte; the archive never decides.
    seen = services.archive() if _has_details(request) else None
    answer = ReadyResponse(
        status="ready" if fit else "not_ready",
        backend_connected=connected,
        archive=UNSET if seen is None else seen,
    )
    return web.Response(
        status=200 if fit else 503, body=msgspec.json.encode(answer), headers=JSON_TYPE
    )


def _has_details(request: web.Request) -> bool:
    # Taking a whole query of 128 KiB apart would take long; nobody hides it behind 16 others.
    parameters = request.rel_url.raw_query_string.split("&", 16)
    return any(parameter.partition("=")[0] == DETAILS for parameter in parameters)
