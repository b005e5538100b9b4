"""Publishing: a checked request becomes a stored notification."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from aviso_server.backends.backend import Backend, Receipt
from aviso_server.core.announcement import notification_of
from aviso_server.core.batch import parse_item
from aviso_server.core.errors import AvisoError, KeyReused, RequestError, StorageFailed
from aviso_server.core.notification import Notification, Record
from aviso_server.core.schema import Catalogue, Schema
from aviso_server.relay.turns import Turns, aside

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


@dataclass(frozen=True, slots=True)
class Declined:
    """Why a notification of a batch was not stored."""

    error: AvisoError
    event_type: str | None = None
    """Which it would have been, as far as that is known."""

    def __post_init__(self) -> None:
        """Drop the error's traceback: its frames hold all that was made of the item."""
        self.error.__traceback__ = self.error.__context__ = self.error.__cause__ = None


async def publish(
    backend: Backend, notification: Notification, *, key: str, owner: str
) -> Published:
    """Store a notification; returns only once the backend has it.

    Keys are distinguished by their ``owner``, whose name must not contain a slash.
    """
    try:
        receipt = await backend.append(notification, key=f"{owner}/{key}")
        if receipt.repeated:
            await _compare(backend, notification, receipt, key)
    except (RequestError, StorageFailed):
        raise
    except Exception as error:
        raise StorageFailed("Failed to store notification", details=str(error)) from error
    return Published(notification, receipt)


@dataclass(frozen=True, slots=True)
class BatchPublisher:
    """Publishes many notifications for one caller."""

    backend: Backend
    catalogue: Catalogue
    key: str
    """Makes a key for each item without one, so that a batch sent twice is stored once."""
    owner: str
    admit: Callable[[Schema], None] = lambda _: None
    """Raises for an event type that the caller may not write to."""

    async def publish(self, texts: Iterable[bytes | RequestError]) -> list[Published | Declined]:
        """Publish what can be published; one result per text, in order.

        They are handed to the store in their order, many at a time, and in turns.
        """
        gate, turns = asyncio.Semaphore(IN_FLIGHT), Turns()
        results: list[asyncio.Task[Published | Declined] | Declined] = []
        async with asyncio.TaskGroup() as storing:
            for number, text in enumerate(texts):
                size = 0 if isinstance(text, RequestError) else len(text)
                asked = await aside(size, partial(self._announce, text))
                await turns.spend(size)
                if isinstance(asked, Declined):
                    results.append(asked)
                    continue
                notification, own_key = asked
                await gate.acquire()
                task = storing.create_task(
                    self._store(notification, own_key or f"{self.key}#{number}")
                )
                task.add_done_callback(lambda _: gate.release())
                results.append(task)
        return [item if isinstance(item, Declined) else item.result() for item in results]

    def _announce(self, text: bytes | RequestError) -> tuple[Notification, str | None] | Declined:
        """What an item announces, and its key."""
        item = text if isinstance(text, RequestError) else parse_item(text)
        if isinstance(item, RequestError):
            return Declined(item)
        request, own_key = item
        event_type: str | None = None
        try:
            schema = self.catalogue.find(request.event_type)
            event_type = schema.event_type
            return notification_of(schema, request, self.admit), own_key
        except AvisoError as error:
            return Declined(error, event_type)

    async def _store(self, notification: Notification, key: str) -> Published | Declined:
        try:
            return await publish(self.backend, notification, key=key, owner=self.owner)
        except AvisoError as error:
            return Declined(error, notification.event_type)


async def _compare(
    backend: Backend, notification: Notification, receipt: Receipt, key: str
) -> None:
    """Refuse a key used for another notification; one that is gone cannot be compared.

    A repeat may also be our own: sent again after a lost acknowledgement. Then both are equal.
    """
    event_type, sequence = notification.event_type, receipt.sequence
    batch = await backend.read(event_type, sequence, sequence, limit=1)
    for entry in batch.entries:
        if isinstance(entry, Record) and entry.notification != notification:
            raise KeyReused(key)
