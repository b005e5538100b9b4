"""``POST /api/v1/notifications``: many notifications in one request, each judged for itself."""

from collections.abc import Sequence

import msgspec
import structlog
from aiohttp import web

from aviso_server.core.batch import Item, parse_batch
from aviso_server.core.errors import AvisoError, RequestError
from aviso_server.core.moment import seconds
from aviso_server.core.operation import Operation
from aviso_server.core.schema import Catalogue
from aviso_server.http.access import actor, admission
from aviso_server.http.answers import BatchResponse, ItemAccepted, ItemRefused
from aviso_server.http.body import read_body
from aviso_server.http.caller import caller, key_owner
from aviso_server.http.errors import JSON_TYPE, error_answer, row_of
from aviso_server.http.journal import log_refused
from aviso_server.http.metrics import count_refused
from aviso_server.http.notify import idempotency_key
from aviso_server.http.services import REQUEST_ID, SERVICES, Services
from aviso_server.relay.publish import Published, publish_many


async def notify_many(request: web.Request) -> web.Response:
    """Store every notification that is acceptable; per-item results in the order sent."""
    services = request.app[SERVICES]
    request_id = request[REQUEST_ID]
    try:
        body = await read_body(request, services.max_batch_bytes)
        items = parse_batch(body, max_items=services.max_batch_items)
        key = idempotency_key(request) or request_id
        services.limits.notify(caller(request), len(items))
    except RequestError as error:
        count_refused(services.sources.metrics, services.catalogue, error, None)
        log_refused(error, Operation.NOTIFY, request)
        return error_answer(error, Operation.NOTIFY, request_id)
    admit = admission(request, Operation.NOTIFY)
    results = await publish_many(
        services.backend,
        services.catalogue,
        items,
        key=key,
        owner=key_owner(request),
        admit=admit,
    )
    _count(services, items, results)
    answer = _answer(results, request_id, seconds(services.now_ns()))
    structlog.get_logger().info(
        "Batch processed",
        event_name="api.notifications.processed",
        request_id=request_id,
        **actor(request),
        outcome=answer.status,
        accepted=answer.accepted,
        rejected=answer.rejected,
    )
    return web.Response(body=msgspec.json.encode(answer), headers=JSON_TYPE)


def _count(
    services: Services, items: Sequence[Item], results: Sequence[Published | AvisoError]
) -> None:
    """Each notification counts once, as if it had come alone."""
    metrics, catalogue = services.sources.metrics, services.catalogue
    for item, result in zip(items, results, strict=True):
        if isinstance(result, Published):
            metrics.notified(catalogue.label(result.notification.event_type), "success")
        else:
            count_refused(metrics, catalogue, result, _event_type(catalogue, item))


def _event_type(catalogue: Catalogue, item: Item) -> str | None:
    """The event type of an item, if it has one that can be."""
    try:
        return (
            None
            if isinstance(item, RequestError)
            else catalogue.find(item[0].event_type).event_type
        )
    except RequestError:
        return None


def _answer(
    results: list[Published | AvisoError], request_id: str, processed_at: str
) -> BatchResponse:
    shown = [_result(result) for result in results]
    accepted = sum(isinstance(result, ItemAccepted) for result in shown)
    rejected = len(shown) - accepted
    return BatchResponse(
        status="partial" if accepted and rejected else "success" if accepted else "error",
        request_id=request_id,
        processed_at=processed_at,
        accepted=accepted,
        rejected=rejected,
        results=shown,
    )


def _result(result: Published | AvisoError) -> ItemAccepted | ItemRefused:
    if isinstance(result, Published):
        return ItemAccepted(
            id=result.id, sequence=result.receipt.sequence, topic=result.notification.topic
        )
    row = row_of(result, Operation.NOTIFY)
    return ItemRefused(
        code=str(row.code), error=str(row.error), message=result.message, details=result.details
    )
