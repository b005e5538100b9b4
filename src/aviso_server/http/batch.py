"""``POST /api/v1/notifications``: many notifications in one request, validated individually.

The body may be megabytes of anything, so everything is done in turns, and the number of
items is known before anything is made of them.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec
import structlog
from aiohttp import web
from msgspec import UNSET

from aviso_server.backends.backend import MOST_TOGETHER
from aviso_server.core.batch import Span, check_element, elements, is_array, unwrap
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
from aviso_server.relay.turns import TURN_BYTES, Turns, load_arrays, turns_of


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
        services.limits.notify(caller(request), items.number)
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
        outcomes = await storing(items.texts)
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


class _Items(NamedTuple):
    """The items of a body."""

    number: int
    atomic: bool
    """Whether all or none are stored."""
    texts: Iterator[bytes | RequestError]
    """Each is made when it is asked for."""


async def _items(body: bytes, services: Services) -> _Items:
    """Take a body apart; a RequestError if that cannot be done."""
    body, atomic = unwrap(body)
    most = min(services.max_batch_items, MOST_TOGETHER) if atomic else services.max_batch_items
    # What could not be sent alone cannot be sent with others.
    longest = services.max_body_bytes
    found = elements(body, max_items=most)
    if found is not None:
        few = (text if len(text) <= longest else BodyTooLarge(longest) for text in found)
        return _Items(len(found), atomic, few)
    await load_arrays()
    from aviso_server.core.split import split  # noqa: PLC0415 - with numpy, now that it is needed

    turns = Turns()
    spans: list[Span] = []
    for some in split(body, max_items=most):
        spans += some
        await turns.spend(TURN_BYTES)
    if is_array(body):
        # Nothing of an array is stored unless all of it is JSON.
        for span in spans:
            size = span[1] - span[0]
            if size <= longest:
                check_element(body, span)
                await turns.spend(size // 8)  # only scanned, which is far faster
    texts = (body[a:b] if b - a <= longest else BodyTooLarge(longest) for a, b in spans)
    return _Items(len(spans), atomic, texts)


async def _results(
    services: Services, outcomes: list[Published | Declined]
) -> list[ItemAccepted | ItemRefused]:
    """The result of each, as answered; each counts once, as if it had come alone."""
    metrics, catalogue = services.sources.metrics, services.catalogue
    stored = [each.notification.event_type for each in outcomes if isinstance(each, Published)]
    for event_type, count in Counter(stored).items():
        metrics.notified(catalogue.label(event_type), "success", count)
    results: list[ItemAccepted | ItemRefused] = []
    for some in turns_of(outcomes, lambda _: 0):
        for outcome in some:
            if isinstance(outcome, Declined):
                count_refused(metrics, catalogue, outcome.error, outcome.event_type)
        results += map(_result, some)
        await asyncio.sleep(0)
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
