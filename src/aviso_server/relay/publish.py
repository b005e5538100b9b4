"""Publishing: a checked request becomes a stored notification."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TypeAlias

import msgspec

from aviso_server.backends.backend import Backend, Outcome, Prompt, Receipt
from aviso_server.core.announcement import notification_of
from aviso_server.core.batch import Item, parse_items
from aviso_server.core.errors import (
    AvisoError,
    InvalidRequest,
    KeyReused,
    NoBatches,
    NotTogether,
    RequestError,
    StorageFailed,
    Unacknowledged,
)
from aviso_server.core.notification import Notification, Record
from aviso_server.core.schema import Catalogue, Schema
from aviso_server.relay.turns import aside, turns_of

TOGETHER = 500
"""Notifications of a batch that are handed to the store at once, while the next are read."""

READ_ACROSS = 32
"""Sequences that are read in vain rather than asked for separately."""


class Published(msgspec.Struct, frozen=True, gc=False):
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


_Announced: TypeAlias = tuple[Notification, str]
"""With its owner and its key, joined by a slash."""


async def publish(
    backend: Backend, notification: Notification, *, key: str, owner: str
) -> Published:
    """Store a notification; returns only once the backend has it.

    Keys are distinguished by their ``owner``, whose name must not contain a slash.
    """
    outcome: Outcome
    try:
        outcome = await backend.append(notification, key=f"{owner}/{key}")
        if outcome.repeated:
            [outcome] = await _compare(backend, [(notification, f"{owner}/{key}")], [outcome])
    except (RequestError, StorageFailed):
        raise
    except Exception as error:
        raise _failed(error) from error
    if isinstance(outcome, AvisoError):
        raise outcome
    return Published(notification, outcome)


def publish_now(
    backend: Prompt, notification: Notification, *, key: str, owner: str
) -> Published | None:
    """The same in a store that never waits; None if the key was used before.

    Then nothing was stored, and ``publish`` finds out whether it was used for the same.
    """
    receipt = backend.append_now(notification, key=f"{owner}/{key}")
    return None if receipt.repeated else Published(notification, receipt)


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

        They are read in turns, and handed to the store in their order, many at a time.
        """
        results: list[Published | Declined] = []
        storing: asyncio.Task[list[Published | Declined]] | None = None
        async with asyncio.TaskGroup() as work:
            async for found in self._read(texts):
                results += [] if storing is None else await storing
                storing = work.create_task(self._store(found))
        return results if storing is None else results + storing.result()

    async def publish_together(
        self, texts: Iterable[bytes | RequestError]
    ) -> list[Published | Declined]:
        """Publish all or none; one result per text, in order.

        Raises RequestError for a batch that cannot be stored as one; StorageFailed or NoBatches,
        and then nothing was stored; Unacknowledged.
        """
        found = [item async for some in self._read(texts) for item in some]
        announced = [item for item in found if not isinstance(item, Declined)]
        if len(announced) < len(found):
            return [item if isinstance(item, Declined) else _left_out(item) for item in found]
        _check_together(announced)
        try:
            receipts = await self.backend.append_together(announced)
            stored = [receipt for receipt in receipts if receipt is not None]
            if len(stored) < len(receipts):
                return [_left_out(*pair) for pair in zip(announced, receipts, strict=True)]
            outcomes = await _compare(self.backend, announced, stored)
        except (RequestError, StorageFailed, Unacknowledged, NoBatches):
            raise
        except Exception as error:
            raise Unacknowledged(str(error)) from error
        if any(isinstance(outcome, AvisoError) for outcome in outcomes):
            return [
                Declined(outcome, item[0].event_type)
                if isinstance(outcome, AvisoError)
                else _left_out(item, outcome)
                for item, outcome in zip(announced, outcomes, strict=True)
            ]
        return list(map(_result, announced, outcomes))

    async def _read(
        self, texts: Iterable[bytes | RequestError]
    ) -> AsyncIterator[list[_Announced | Declined]]:
        """What the items announce, and their keys; about as many as are stored together."""
        found, number = list[_Announced | Declined](), 0
        for some in turns_of(texts, _size):
            found += await aside(sum(map(_size, some)), partial(self._announce_all, number, some))
            number += len(some)
            if len(found) >= TOGETHER:
                yield found
                found = []
            await asyncio.sleep(0)
        if found:
            yield found

    def _announce_all(
        self, number: int, texts: Sequence[bytes | RequestError]
    ) -> list[_Announced | Declined]:
        return list(map(self._announce, count(number), parse_items(texts)))

    def _announce(self, number: int, item: Item) -> _Announced | Declined:
        if isinstance(item, RequestError):
            return Declined(item)
        request, own_key = item
        event_type: str | None = None
        try:
            schema = self.catalogue.find(request.event_type)
            event_type = schema.event_type
            notification = notification_of(schema, request, self.admit)
        except AvisoError as error:
            return Declined(error, event_type)
        return notification, f"{self.owner}/{own_key or f'{self.key}#{number}'}"

    async def _store(self, found: Sequence[_Announced | Declined]) -> list[Published | Declined]:
        """Store what was announced; the result of each."""
        announced = [item for item in found if not isinstance(item, Declined)]
        outcomes: Sequence[Outcome] = ()
        try:
            outcomes = await self.backend.append_many(announced)
            outcomes = await _compare(self.backend, announced, outcomes)
        except Exception as error:  # noqa: BLE001 - as of a notification that comes alone
            # Of those that were stored now nothing had to be compared.
            outcomes = [
                item if isinstance(item, AvisoError) or not item.repeated else _failed(error)
                for item in outcomes
            ] or [_failed(error) for _ in announced]
        results = map(_result, announced, outcomes)
        return [item if isinstance(item, Declined) else next(results) for item in found]


def _result(announced: _Announced, outcome: Outcome) -> Published | Declined:
    notification, _ = announced
    if isinstance(outcome, AvisoError):
        return Declined(outcome, notification.event_type)
    return Published(notification, outcome)


def _left_out(announced: _Announced, receipt: Receipt | None = None) -> Declined:
    """An item of an atomic batch that was not stored because of others."""
    event_type = announced[0].event_type
    if receipt is None:
        return Declined(
            NotTogether("Not stored: another of the atomic batch was refused"), event_type
        )
    before = f"stored before, as {event_type}@{receipt.sequence}, but not all of the atomic batch"
    return Declined(NotTogether(f"Not stored: its key was used and it was {before}"), event_type)


def _check_together(announced: Sequence[_Announced]) -> None:
    """Refuse what cannot be stored as one."""
    if len({notification.event_type for notification, _ in announced}) > 1:
        raise InvalidRequest(
            "All notifications of an atomic batch must have the same event type", field="event_type"
        )
    if len({key for _, key in announced}) < len(announced):
        raise InvalidRequest(
            "Two notifications of an atomic batch have the same idempotency key",
            field="idempotency_key",
        )


def _size(text: bytes | RequestError) -> int:
    return len(text) if isinstance(text, bytes) else 0


def _failed(error: Exception) -> StorageFailed:
    return StorageFailed("Failed to store notification", details=str(error))


async def _compare(
    backend: Backend, announced: Sequence[_Announced], outcomes: Sequence[Outcome]
) -> list[Outcome]:
    """The outcomes, but KeyReused where a key was used before for another notification.

    A repeat may also be our own: sent again after a lost acknowledgement. Then both are equal. One
    that is gone cannot be compared.
    """
    compared = list(outcomes)
    repeats: dict[str, list[tuple[int, int]]] = {}
    for place, outcome in enumerate(outcomes):
        if isinstance(outcome, Receipt) and outcome.repeated:
            event_type = announced[place][0].event_type
            repeats.setdefault(event_type, []).append((outcome.sequence, place))
    for event_type, places in repeats.items():
        stored = await _stored(backend, event_type, sorted({sequence for sequence, _ in places}))
        for sequence, place in places:
            notification, key = announced[place]
            if stored.get(sequence, notification) != notification:
                compared[place] = KeyReused(key.partition("/")[2])
    return compared


async def _stored(
    backend: Backend, event_type: str, sequences: Sequence[int]
) -> dict[int, Notification]:
    """What is stored at some sequences, if it is still there."""
    found: dict[int, Notification] = {}
    for first, last in _runs(sequences):
        following = first
        while following <= last:
            batch = await backend.read(event_type, following, last, limit=TOGETHER)
            following = batch.following
            for entry in batch.entries:
                if isinstance(entry, Record):
                    found[entry.sequence] = entry.notification
    return found


def _runs(sequences: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ranges that cover ascending sequences and not much more."""
    first = last = sequences[0]
    for sequence in sequences[1:]:
        if sequence - last > READ_ACROSS:
            yield first, last
            first = sequence
        last = sequence
    yield first, last
