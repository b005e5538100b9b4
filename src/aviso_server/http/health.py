"""``GET /health`` and ``GET /ready``: liveness, and the ability to store."""

import msgspec
from aiohttp import web
from msgspec import UNSET

from aviso_server.http.answers import FaultView, HealthResponse, ReadyResponse
from aviso_server.http.errors import JSON_TYPE
from aviso_server.http.services import SERVICES

DETAILS = "details"
"""The only query parameter that is read: ``GET /ready?details``."""

_ALIVE = msgspec.json.encode(HealthResponse(status="ok"))


async def health(_: web.Request) -> web.Response:
    """The process serves, whatever its backend does."""
    return web.Response(body=_ALIVE, headers=JSON_TYPE)


async def ready(request: web.Request) -> web.Response:
    """Whether notifications can be stored and the server is not shutting down."""
    services = request.app[SERVICES]
    connected, fault = services.backend.connected, services.backend.fault
    fit = connected and fault is None and not services.sources.stop.requested
    answer = ReadyResponse(status="ready" if fit else "not_ready", backend_connected=connected)
    # The body without details is the protocol's, byte for byte; the archive never decides.
    if _has_details(request):
        archive = services.archive()
        answer = msgspec.structs.replace(
            answer,
            fault=None if fault is None else FaultView(reason=fault.reason, message=fault.message),
            archive=UNSET if archive is None else archive,
        )
    return web.Response(
        status=200 if fit else 503, body=msgspec.json.encode(answer), headers=JSON_TYPE
    )


def _has_details(request: web.Request) -> bool:
    # Splitting a whole query of 128 KiB would take long; no client hides it behind 16 others.
    parameters = request.rel_url.raw_query_string.split("&", 16)
    return any(parameter.partition("=")[0] == DETAILS for parameter in parameters)
