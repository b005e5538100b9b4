"""``POST /api/v1/notification`` (docs/protocol.md#notify)."""

import logging
from collections.abc import Callable, Mapping
from functools import partial

import msgspec
from aiohttp import web
from structlog.typing import FilteringBoundLogger

from aviso_server.auth.identity import Identity
from aviso_server.auth.refusal import Refusal
from aviso_server.backends.backend import Prompt
from aviso_server.core.announcement import notification_of
from aviso_server.core.errors import RequestError, StorageFailed
from aviso_server.core.moment import seconds
from aviso_server.core.operation import Operation
from aviso_server.core.schema import Schema
from aviso_server.core.wire import check_key, parse_request
from aviso_server.http.access import actor, admission, admission_of, caller, key_owner, owner_of
from aviso_server.http.answers import NotificationResponse
from aviso_server.http.body import read_body
from aviso_server.http.errors import JSON_TYPE, error_answer
from aviso_server.http.journal import log_refused
from aviso_server.http.metrics import count_refused
from aviso_server.http.services import REQUEST_ID, SERVICES, Services
from aviso_server.relay.publish import Published, publish, publish_now
from aviso_server.relay.turns import aside


async def notify(request: web.Request) -> web.Response:
    """Store one notification; answered only once the backend has it."""
    request_id = request[REQUEST_ID]
    services = request.app[SERVICES]
    metrics = services.sources.metrics
    event_type: str | None = None
    try:
        if services.limits.rated:
            services.limits.notify(caller(request))
        body = await read_body(request, services.max_body_bytes)
        message = await aside(len(body), partial(parse_request, body))
        schema = services.catalogue.find(message.event_type)
        event_type = message.event_type
        notification = await aside(
            len(body), partial(notification_of, schema, message, partial(_admit, request))
        )
        key = request.headers.get("Idempotency-Key", request_id)
        published = await publish(services.backend, notification, key=key, owner=key_owner(request))
    except (RequestError, StorageFailed) as error:
        count_refused(metrics, services.catalogue, error, event_type)
        log_refused(error, Operation.NOTIFY, request, event_type=event_type)
        return error_answer(error, Operation.NOTIFY, request_id)
    except Exception as error:
        denied = error if isinstance(error, Refusal) else None
        count_refused(metrics, services.catalogue, denied, event_type)
        raise
    text = acknowledge(services, published, request_id, partial(actor, request))
    return web.Response(body=text, headers=JSON_TYPE)


def store_now(
    services: Services, body: bytes, *, sender: Identity | None, key: str | None, request_id: str
) -> Published | None:
    """Store a notification in a store that never waits, or raise what is wrong; None: repeated."""
    message = parse_request(body)
    schema = services.catalogue.find(message.event_type)
    admit = admission_of(services.gate, sender, Operation.NOTIFY)
    notification = notification_of(schema, message, admit)
    key = request_id if key is None else check_key(key)
    store: Prompt = services.backend  # type: ignore[assignment] # as the caller has made sure
    return publish_now(store, notification, key=key, owner=owner_of(sender))


def acknowledge(
    services: Services, published: Published, request_id: str, who: Callable[[], Mapping[str, str]]
) -> bytes:
    """Count and log a notification that was stored; the answer."""
    label = services.catalogue.label(published.notification.event_type)
    services.sources.metrics.notified(label, "success")
    if services.journal.is_enabled_for(logging.DEBUG):
        _log_stored(services.journal, published, request_id)
    if services.journal.is_enabled_for(logging.INFO):
        _log_processed(services.journal, published, request_id, who())
    answer = NotificationResponse(
        status="success",
        request_id=request_id,
        processed_at=seconds(services.now_ns()),
        id=published.id,
        sequence=published.receipt.sequence,
        topic=published.notification.topic,
    )
    return msgspec.json.encode(answer)


def _admit(request: web.Request, schema: Schema) -> None:
    admission(request, Operation.NOTIFY)(schema)
    idempotency_key(request)


def idempotency_key(request: web.Request) -> str | None:
    """The client's ``Idempotency-Key``, if it sent one."""
    key = request.headers.get("Idempotency-Key")
    return None if key is None else check_key(key)


def _log_processed(
    journal: FilteringBoundLogger, published: Published, request_id: str, who: Mapping[str, str]
) -> None:
    notification = published.notification
    geometry = notification.geometry
    journal.info(
        "Notification processed",
        event_name="api.notification.processed",
        request_id=request_id,
        event_type=notification.event_type,
        topic=notification.topic,
        **who,
        outcome="success",
        param_count=len(notification.identifier) + (geometry is not None),
        payload_kind=_kind(notification.payload),
        payload_size=len(notification.payload),
        spatial_enabled=geometry is not None,
        spatial_bbox=None if geometry is None else geometry.box.text,
    )


def _log_stored(journal: FilteringBoundLogger, published: Published, request_id: str) -> None:
    geometry = published.notification.geometry
    spatial = "" if geometry is None else ".spatial"
    journal.debug(
        "Notification stored",
        event_name=f"notification.storage{spatial}.succeeded",
        request_id=request_id,
        event_type=published.notification.event_type,
        topic=published.notification.topic,
        sequence=published.receipt.sequence,
        bounding_box=None if geometry is None else geometry.box.text,
    )


def _kind(payload: bytes) -> str:
    """What sort of JSON a payload is, from its first character."""
    kinds = {
        b"n": "null",
        b"t": "bool",
        b"f": "bool",
        b'"': "string",
        b"[": "array",
        b"{": "object",
    }
    return kinds.get(payload[:1], "number")
