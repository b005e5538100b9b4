"""Access control at the edge: the policy of the matched route, and every refusal's answer.

``guard`` runs after routing. It checks the route that aiohttp matched, never the path's text, so a
spelling that reaches a handler has been checked as that handler's route. A route without a policy
is for administrators. Unknown paths and wrong methods are answered before any credential is read.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from types import MappingProxyType

import msgspec
import structlog
from aiohttp import web
from structlog.typing import FilteringBoundLogger

from aviso_server.auth.access import Policy
from aviso_server.auth.gate import Gate
from aviso_server.auth.identity import Identity
from aviso_server.auth.refusal import Refusal, Unauthorized
from aviso_server.core.moment import seconds
from aviso_server.core.operation import Operation
from aviso_server.core.schema import Schema
from aviso_server.http.answers import AuthCheckResponse
from aviso_server.http.errors import JSON_TYPE, error_answer, row_of
from aviso_server.http.limits import Caller
from aviso_server.http.services import REQUEST_ID, SERVICES
from aviso_server.http.tracing import TRACE
from aviso_server.relay.query import Query

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_NEVER_NS = 253_402_300_799 * 1_000_000_000
"""The end of the year 9999, beyond which no expiry is shown."""

_ANYBODY: Mapping[str, str] = MappingProxyType({"username": "anonymous", "auth_realm": "none"})
"""A caller without identity, as log records show it."""
_ANYBODYS_KEYS = "anonymous"
"""Whom the idempotency keys of such callers belong to."""

IDENTITY: web.RequestKey[Identity] = web.RequestKey("identity", Identity)
POLICIES: web.AppKey[dict[web.AbstractRoute, Policy]] = web.AppKey("policies", dict)


@web.middleware
async def guard(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Let a request through to its handler if the route's policy allows; answer refusals."""
    services = request.app[SERVICES]
    gate = services.gate
    matched = request.match_info
    if gate is None or matched.http_exception is not None:
        return await handler(request)
    policy = policy_of(request.app, matched.route)
    try:
        identity = await gate.identify(policy, request.headers.get("Authorization"))
        if identity is not None:
            request[IDENTITY] = identity
            log_resolved(services.journal, identity, request[REQUEST_ID], request.path)
        return await handler(request)
    except Refusal as refusal:
        _log_denied(request, refusal)
        return _refusal(gate, refusal, request[REQUEST_ID])


def policy_of(app: web.Application, route: web.AbstractRoute) -> Policy:
    """Who may use a route."""
    return app[POLICIES].get(route, Policy.ADMIN)


def actor(request: web.Request) -> Mapping[str, str]:
    """The caller, as log records show it."""
    return {**actor_of(request.get(IDENTITY)), **(request.get(TRACE) or {})}


def actor_of(identity: Identity | None) -> Mapping[str, str]:
    """A caller, as log records show it."""
    if identity is None:
        return _ANYBODY
    return {"username": identity.username, "auth_realm": identity.realm or "none"}


def caller(request: web.Request) -> Caller:
    """The caller; the same name in two realms is two users."""
    identity = request.get(IDENTITY)
    address = request.remote or ""
    if identity is None:
        return Caller(address)
    return Caller(address, f"{identity.realm or ''}/{identity.username}")


def key_owner(request: web.Request) -> str:
    """Whom the idempotency keys of a request belong to."""
    return owner_of(request.get(IDENTITY))


def owner_of(identity: Identity | None) -> str:
    """Whom idempotency keys belong to: user and realm, or all anonymous callers together.

    A digest, because names may hold anything and the key is stored; the same on every node.
    """
    return _ANYBODYS_KEYS if identity is None else _digest(identity.realm, identity.username)


@lru_cache(maxsize=1024)
def _digest(*name: str | None) -> str:
    return hashlib.sha256(msgspec.json.encode(name)).hexdigest()[:32]


def admission(request: web.Request, operation: Operation) -> Callable[[Schema], None]:
    """A check that raises a Refusal unless the caller may do this to an event type."""
    return admission_of(request.app[SERVICES].gate, request.get(IDENTITY), operation)


def admission_of(
    gate: Gate | None, identity: Identity | None, operation: Operation
) -> Callable[[Schema], None]:
    """The same of a caller who is known."""
    if gate is None:
        return _open
    return lambda schema: gate.admit(operation, schema, identity)


def _open(_: Schema) -> None:
    """Without authentication every stream is open; start-up refuses schemas with access rules."""


async def entitle(request: web.Request, query: Query) -> None:
    """Ask the plugins of the event type."""
    gate = request.app[SERVICES].gate
    if gate is not None:
        await gate.entitle(query.schema, request.get(IDENTITY), query.filter)


def expiry_ns(request: web.Request) -> int | None:
    """When the caller's token ends, and with it the stream."""
    identity = request.get(IDENTITY)
    return None if identity is None else identity.expires_at_ns


async def auth_check(request: web.Request) -> web.Response:
    """``GET /api/v1/auth/check``: who the caller is, without any effect."""
    gate = request.app[SERVICES].gate
    identity = request.get(IDENTITY) or Identity("anonymous")
    until = identity.expires_at_ns
    answer = AuthCheckResponse(
        status="success",
        auth_enabled=gate is not None,
        username=identity.username,
        realm=identity.realm,
        roles=list(identity.roles),
        admin=gate is None or gate.rules.administers(identity),
        expires_at=None if until is None else seconds(min(until, _NEVER_NS)),
        request_id=request[REQUEST_ID],
    )
    return web.Response(body=msgspec.json.encode(answer), headers=JSON_TYPE)


def _refusal(gate: Gate, refusal: Refusal, request_id: str) -> web.Response:
    answer = error_answer(refusal, Operation.NOTIFY, request_id)
    if isinstance(refusal, Unauthorized):
        for challenge in gate.authenticator.challenges:
            answer.headers.add("WWW-Authenticate", challenge)
    return answer


def _log_denied(request: web.Request, refusal: Refusal) -> None:
    identity = request.get(IDENTITY)
    structlog.get_logger().warning(
        "Request denied",
        event_name="auth.middleware.request.denied",
        request_id=request[REQUEST_ID],
        outcome=refusal.outcome,
        status_code=row_of(refusal, Operation.NOTIFY).status,
        reason=refusal.message,
        details=refusal.details,
        username=refusal.username or (identity.username if identity else "-"),
        path=request.path,
    )


def log_resolved(
    journal: FilteringBoundLogger, identity: Identity, request_id: str, path: str
) -> None:
    """Note whom a credential named."""
    journal.debug(
        "Caller identified",
        event_name="auth.middleware.user.resolved",
        request_id=request_id,
        username=identity.username,
        path=path,
    )
