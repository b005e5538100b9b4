"""``POST /api/v1/notifications``: many notifications in one request, validated individually.

The body may be megabytes of anything, so everything is done in turns, and the number of
items is known before anything is made of them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec
import structlog
from aiohttp import web
from msgspec import UNSET

from aviso_server.backends.backend import MOST_TOGETHER
from aviso_server.core.batch import Span, check_element, is_array, split, unwrap
from aviso_server.core.errors import (
    AvisoError,
    BodyTooLarge,
    NoBatches,
    RequestError,
    StorageFailed,
    Unacknowledged,
)
from aviso_server.core.moment import seconds
from aviso_server.core.operation import Operation
from aviso_server.http.access import actor, admission, caller, key_owner
from aviso_server.http.answers import BatchResponse, ItemAccepted, ItemRefused
from aviso_server.http.body import read_body
from aviso_server.http.errors import JSON_TYPE, error_answer, row_of
from aviso_server.http.journal import log_refused
from aviso_server.http.metrics import count_refused
from aviso_server.http.notify import idempotency_key
from aviso_server.http.services import REQUEST_ID, SERVICES, Services
from aviso_server.relay.publish import BatchPublisher, Declined, Published
from aviso_server.relay.turns import TURN_BYTES, Turns


async def notify_many(request: web.Request) -> web.Response:
    """Store every notification that is acceptable; per-item results in the order sent."""
    with request.app[SERVICES].limits.batch() as hold:
        return await _notify_many(request, hold)


async def _notify_many(request: web.Request, hold: Callable[[int], None]) -> web.Response:
    services = request.app[SERVICES]
    request_id = request[REQUEST_ID]
    try:
        body = await read_body(request, services.max_batch_bytes, hold)
        items = await _items(body, services)
        key = idempotency_key(request) or request_id
        services.limits.notify(caller(request), len(items.spans))
    except RequestError as error:
        return _refused(request, error)
    batch = BatchPublisher(
        backend=services.backend,
        catalogue=services.catalogue,
        key=key,
        owner=key_owner(request),
        admit=admission(request, Operation.NOTIFY),
    )
    storing = batch.publish_together if items.atomic else batch.publish
    try:
        outcomes = await storing(items.texts())
    except (RequestError, StorageFailed, Unacknowledged, NoBatches) as error:
        return _refused(request, error)
    results = await _results(services, outcomes)
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


def _refused(request: web.Request, error: AvisoError) -> web.Response:
    """The answer for a batch of which nothing was stored, or all as far as is known."""
    services = request.app[SERVICES]
    count_refused(services.sources.metrics, services.catalogue, error, None)
    log_refused(error, Operation.NOTIFY, request)
    return error_answer(error, Operation.NOTIFY, request[REQUEST_ID])


@dataclass(frozen=True, slots=True)
class _Items:
    """Where the items of a body are."""

    body: bytes
    atomic: bool
    """Whether all or none are stored."""
    spans: list[Span]
    max_bytes: int
    """Of one item: what could not be sent alone cannot be sent with others."""

    def texts(self) -> Iterator[bytes | RequestError]:
        """The items, each made when it is asked for."""
        for start, end in self.spans:
            fits = end - start <= self.max_bytes
            yield self.body[start:end] if fits else BodyTooLarge(self.max_bytes)


async def _items(body: bytes, services: Services) -> _Items:
    """Take a body apart; a RequestError if that cannot be done."""
    turns = Turns()
    spans: list[Span] = []
    body, atomic = unwrap(body)
    most = min(services.max_batch_items, MOST_TOGETHER) if atomic else services.max_batch_items
    for found in split(body, max_items=most):
        spans += found
        await turns.spend(TURN_BYTES)
    if is_array(body):
        # Nothing of an array is stored unless all of it is JSON.
        for span in spans:
            size = span[1] - span[0]
            if size <= services.max_body_bytes:
                check_element(body, span)
                await turns.spend(size // 8)  # only scanned, which is far faster
    return _Items(body, atomic, spans, services.max_body_bytes)


async def _results(
    services: Services, outcomes: list[Published | Declined]
) -> list[ItemAccepted | ItemRefused]:
    """The result of each, as answered; each counts once, as if it had come alone."""
    metrics, catalogue, turns = services.sources.metrics, services.catalogue, Turns()
    results: list[ItemAccepted | ItemRefused] = []
    for outcome in outcomes:
        if isinstance(outcome, Published):
            metrics.notified(catalogue.label(outcome.notification.event_type), "success")
        else:
            count_refused(metrics, catalogue, outcome.error, outcome.event_type)
        results.append(_result(outcome))
        await turns.spend(0)
    return results


def _answer(
    results: list[ItemAccepted | ItemRefused], request_id: str, processed_at: str
) -> BatchResponse:
    accepted = sum(isinstance(result, ItemAccepted) for result in results)
    rejected = len(results) - accepted
    return BatchResponse(
        status="partial" if accepted and rejected else "success" if accepted else "error",
        request_id=request_id,
        processed_at=processed_at,
        accepted=accepted,
        rejected=rejected,
        results=results,
    )


def _result(outcome: Published | Declined) -> ItemAccepted | ItemRefused:
    if isinstance(outcome, Published):
        return ItemAccepted(
            id=outcome.id, sequence=outcome.receipt.sequence, topic=outcome.notification.topic
        )
    error = outcome.error
    row = row_of(error, Operation.NOTIFY)
    return ItemRefused(
        code=str(row.code),
        error=str(row.error),
        message=error.message,
        details=error.details,
        field=UNSET if error.field is None else error.field,
    )
