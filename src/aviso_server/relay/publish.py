"""Publishing: a checked request becomes a stored notification."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aviso_server.backends.backend import Backend, Receipt
from aviso_server.core.announcement import notification_of, refuse_misplaced
from aviso_server.core.batch import Item
from aviso_server.core.errors import AvisoError, KeyReused, RequestError, StorageFailed
from aviso_server.core.notification import Notification, Record
from aviso_server.core.schema import Catalogue, Schema
from aviso_server.core.wire import NotificationRequest

IN_FLIGHT = 256
"""Notifications of one batch that wait for the store at the same time."""


@dataclass(frozen=True, slots=True)
class Published:
    """A notification and where it was stored."""

    notification: Notification
    receipt: Receipt

    @property
    def id(self) -> str:
        """The identity that consumers will see."""
        return f"{self.notification.event_type}@{self.receipt.sequence}"


async def publish(
    backend: Backend, schema: Schema, request: NotificationRequest, *, key: str, owner: str
) -> Published:
    """Validate and store; returns only once the backend has it (http.md 4.1 steps 12 to 14).

    Keys are told apart by their ``owner`` (D35), whose name must not hold a slash.
    """
    notification = notification_of(schema, request)
    try:
        receipt = await backend.append(notification, key=f"{owner}/{key}")
        if receipt.repeated:
            await _compare(backend, notification, receipt, key)
    except (RequestError, StorageFailed):
        raise
    except Exception as error:
        raise StorageFailed("Failed to store notification", details=str(error)) from error
    return Published(notification, receipt)


async def publish_many(
    backend: Backend,
    catalogue: Catalogue,
    items: Sequence[Item],
    *,
    key: str,
    owner: str,
    admit: Callable[[Schema], None] = lambda _: None,
) -> list[Published | AvisoError]:
    """Publish what can be published; one result per item, in order.

    Items are handed to the store in their order, many at a time. ``key`` makes a key for each
    item that brings none, so that a batch sent twice is stored once. ``admit`` raises for an
    event type that the caller may not write to.
    """
    gate = asyncio.Semaphore(IN_FLIGHT)

    async def one(number: int, item: Item) -> Published | AvisoError:
        if isinstance(item, RequestError):
            return item
        request, own_key = item
        async with gate:
            try:
                schema = catalogue.find(request.event_type)
                refuse_misplaced(request)
                admit(schema)
                return await publish(
                    backend, schema, request, key=own_key or f"{key}#{number}", owner=owner
                )
            except AvisoError as error:
                return error

    return await asyncio.gather(*(one(number, item) for number, item in enumerate(items)))


async def _compare(
    backend: Backend, notification: Notification, receipt: Receipt, key: str
) -> None:
    """Refuse a key that stands for another notification; what is gone cannot be compared.

    A repeat may also be our own: sent again after a lost acknowledgement. Then both are equal.
    """
    event_type, sequence = notification.event_type, receipt.sequence
    batch = await backend.read(event_type, sequence, sequence, limit=1)
    for entry in batch.entries:
        if isinstance(entry, Record) and entry.notification != notification:
            raise KeyReused(key)
