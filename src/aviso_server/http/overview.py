"""``GET /api/v1/overview``: what the server holds, as far as the caller may read it.

An event type that the caller may not read is a name and nothing more. One that is delivered by
destination is counted only for administrators: the others may read at most a part of it.
"""

from collections.abc import Callable

import msgspec
from aiohttp import web
from msgspec import UNSET

from aviso_server.auth.refusal import Refusal
from aviso_server.backends.backend import Backend
from aviso_server.backends.metered import usage_of
from aviso_server.core.moment import rfc3339, seconds
from aviso_server.core.operation import Operation
from aviso_server.core.schema import Schema
from aviso_server.http.access import IDENTITY, admission
from aviso_server.http.answers import (
    BackendView,
    EventTypeView,
    FaultView,
    OverviewResponse,
    RatesView,
    RetentionView,
    StoreView,
    TierView,
)
from aviso_server.http.errors import JSON_TYPE
from aviso_server.http.services import REQUEST_ID, SERVICES
from aviso_server.relay.overview import Seen
from aviso_server.relay.totals import TierBounds, Totals


async def overview(request: web.Request) -> web.Response:
    """Everything the caller may know, in one answer; 200 even if the backend is unavailable."""
    services = request.app[SERVICES]
    look = await services.overview.look(services.catalogue)
    views = [_event_type(request, seen) for seen in look.event_types]
    backend = _backend(services.backend)
    fit = backend.connected and backend.fault is UNSET
    answer = OverviewResponse(
        status="success",
        version=services.version,
        backend=backend,
        ready=fit and not services.sources.stop.requested,
        auth_enabled=services.gate is not None,
        metrics_port=services.metrics_port,
        time=seconds(look.at_ns),
        archive=services.archive(),
        lake=services.overview.lake,
        # Configured names are public (the schema routes); the others are for their readers.
        event_types=[view for view in views if view.configured or view.readable],
        omitted=look.omitted,
        request_id=request[REQUEST_ID],
    )
    return web.Response(body=msgspec.json.encode(answer), headers=JSON_TYPE)


def _backend(backend: Backend) -> BackendView:
    fault, usage = backend.fault, usage_of(backend)
    return BackendView(
        kind=backend.kind,
        connected=backend.connected,
        fault=UNSET if fault is None else FaultView(reason=fault.reason, message=fault.message),
        store=UNSET
        if usage is None
        else StoreView(
            stored_bytes=usage.stored_bytes,
            limit_bytes=usage.limit_bytes,
            free_bytes=usage.free_bytes,
        ),
    )


def _event_type(request: web.Request, seen: Seen) -> EventTypeView:
    schema = seen.schema
    readable = _may(admission(request, Operation.WATCH), schema)
    view = EventTypeView(
        event_type=schema.event_type,
        configured=not schema.generic,
        readable=readable,
        writable=_may(admission(request, Operation.NOTIFY), schema),
        key_order=UNSET if schema.token_fields is None else list(schema.token_fields),
    )
    asked = seen.totals is not None or seen.error is not None
    if not asked or not readable or not _countable(request, schema):
        return view
    limit = schema.history_cap or request.app[SERVICES].sources.rules.history_cap
    view = msgspec.structs.replace(
        view,
        retention=msgspec.convert(seen.retention, RetentionView, from_attributes=True),
        history_limit=limit,
        error=UNSET if seen.error is None else seen.error,
    )
    return view if seen.totals is None else _with_numbers(view, seen.totals)


def _with_numbers(view: EventTypeView, totals: Totals) -> EventTypeView:
    minute, five_minutes, hour = totals.rates
    newest_ns = totals.newest_ns
    return msgspec.structs.replace(
        view,
        stored=totals.stored,
        first_sequence=totals.first,
        last_sequence=totals.last,
        last_time=None if newest_ns is None else rfc3339(newest_ns),
        rates=RatesView(per_second_1m=minute, per_second_5m=five_minutes, per_second_1h=hour),
        tiers=[_tier(item) for item in totals.tiers],
    )


def _may(admit: Callable[[Schema], None], schema: Schema) -> bool:
    try:
        admit(schema)
    except Refusal:
        return False
    return True


def _countable(request: web.Request, schema: Schema) -> bool:
    """Whether the caller may read all of it, which a plugin decides by destination."""
    gate, identity = request.app[SERVICES].gate, request.get(IDENTITY)
    if gate is None or schema.access is None or not schema.access.plugins:
        return True
    return identity is not None and gate.rules.administers(identity)


def _tier(span: TierBounds) -> TierView:
    lag = UNSET if span.lag is None else span.lag
    return TierView(tier=span.tier, first=span.first, last=span.last, lag=lag)
