"""The HTTP application: every route with its access policy, in one table."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from aiohttp import web

from aviso_server.auth.access import Policy
from aviso_server.auth.gate import Gate
from aviso_server.http import admin, batch, files, health, notify, overview, schema, stream
from aviso_server.http.access import POLICIES, auth_check, guard
from aviso_server.http.body import answer_expectation
from aviso_server.http.direct import ShortestWay
from aviso_server.http.metrics import RequestMeter
from aviso_server.http.middleware import finish_headers, identify
from aviso_server.http.overload import Shedding
from aviso_server.http.resting import RESTING, end_resting
from aviso_server.http.services import SERVICES, Services
from aviso_server.http.shortcut import DIRECT
from aviso_server.relay.overview import Overview


class Route(NamedTuple):
    """One method on one path, and who may use it."""

    method: str
    path: str
    policy: Policy
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]]


ROUTES = (
    Route("GET", "/", Policy.PUBLIC, files.home),
    Route("GET", "/health", Policy.PUBLIC, health.health),
    Route("GET", "/ready", Policy.PUBLIC, health.ready),
    Route("GET", "/static/{path:.+}", Policy.PUBLIC, files.static),
    Route("GET", "/swagger-ui/", Policy.PUBLIC, files.swagger),
    Route("GET", "/swagger-ui/index.html", Policy.PUBLIC, files.swagger),
    Route("GET", "/swagger-ui/{asset:[^/]+}", Policy.PUBLIC, files.swagger_file),
    Route("GET", "/api-docs/openapi.json", Policy.PUBLIC, files.openapi),
    Route("POST", "/api/v1/notification", Policy.WRITE, notify.notify),
    Route("POST", "/api/v1/notifications", Policy.WRITE, batch.notify_many),
    Route("POST", "/api/v1/watch", Policy.READ, stream.watch),
    Route("POST", "/api/v1/replay", Policy.READ, stream.replay),
    Route("GET", "/api/v1/auth/check", Policy.USER, auth_check),
    Route("GET", "/api/v1/overview", Policy.READ, overview.overview),
    Route("GET", "/api/v1/schema", Policy.PUBLIC, schema.list_schemas),
    Route("GET", "/api/v1/schema/{event_type:[^/]+}", Policy.PUBLIC, schema.get_schema),
    Route("DELETE", "/api/v1/admin/wipe/stream", Policy.ADMIN, admin.wipe_stream),
    Route("DELETE", "/api/v1/admin/wipe/all", Policy.ADMIN, admin.wipe_all),
    Route(
        "DELETE",
        "/api/v1/admin/notification/{notification_id:[^/]+}",
        Policy.ADMIN,
        admin.delete_notification,
    ),
)


def build_app(services: Services) -> web.Application:
    """The application over its services."""
    # Bodies are bounded by read_body, which also gives the protocol's answer.
    app = web.Application(
        middlewares=[identify, Shedding(services).shed, guard],
        client_max_size=services.max_body_bytes,
    )
    app[SERVICES] = services
    app[DIRECT] = lambda app, resource: ShortestWay(app, resource).answer
    app[RESTING] = set()
    app.on_shutdown.append(end_resting)
    app.on_response_prepare.append(finish_headers)
    app.on_response_prepare.append(services.cors.sign)
    if services.sources.metrics.enabled:
        RequestMeter(services.sources.metrics).attach(app)
    app[POLICIES] = policies = {}
    for route in ROUTES:
        resource = app.router.add_resource(route.path)
        for method in ("HEAD", "GET") if route.method == "GET" else (route.method,):
            added = resource.add_route(method, route.handler, expect_handler=answer_expectation)
            policies[added] = route.policy
    app.on_cleanup.append(_closing(services.overview))
    if services.gate is not None:
        app.on_cleanup.append(_closing(services.gate))
    return app


def _closing(part: Gate | Overview) -> Callable[[web.Application], Awaitable[None]]:
    async def close(_: web.Application) -> None:
        await part.close()

    return close
