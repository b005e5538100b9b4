"""Storing messages: sent, acknowledged, sent again if that is safe (docs/storage.md#publishing).

Every message carries an id, so the server drops a second copy within the duplicate window. That
is what makes sending again after a lost acknowledgement harmless. It also makes batches safe: of a
batch that was refused, or about which nothing is known, every message is sent again alone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import TypeVar

import structlog

from aviso_server.backends.backend import Outcome, Receipt
from aviso_server.backends.jetstream.batches import (
    INCOMPLETE,
    NO_BATCHES,
    REPEATED,
    TOO_LARGE,
    TOO_MANY,
    Batches,
)
from aviso_server.backends.jetstream.connection import (
    Connection,
    NoAnswer,
    NoResponder,
    Refused,
    Unavailable,
    read_answer,
)
from aviso_server.backends.jetstream.lanes import TOGETHER, Lane
from aviso_server.backends.jetstream.messages import Message, encode
from aviso_server.backends.jetstream.options import JetStreamOptions
from aviso_server.backends.jetstream.stores import Stores
from aviso_server.backends.jetstream.streams import Streams
from aviso_server.core.errors import (
    AvisoError,
    NoBatches,
    SetupFailed,
    StorageFailed,
    Unacknowledged,
)
from aviso_server.core.notification import Notification
from aviso_server.core.schema import Schema

NOT_SENT = "Failed to publish notification message to JetStream"
NOT_ACKNOWLEDGED = "Failed to receive publish acknowledgment from JetStream"

TRANSIENT = frozenset({10008, 10039, 10076, 10118, 10158})
"""Refusals that pass: no leader, JetStream starting up, stream offline, or the same id is being
stored at this moment. All others (limits, sizes) are final."""

PASSING = frozenset({INCOMPLETE, TOO_MANY})
"""The same of a batch: the leader changed on the way, or too many are under way."""

_HEADER_ROOM = 1024
"""Allowance for what the server, the client and batches add to our headers."""

_MOST_LANES = 1000
"""Clients may invent event types; lanes without traffic are forgotten then."""


_T = TypeVar("_T")


class Publisher:
    """Stores messages; any number at a time."""

    def __init__(
        self,
        connection: Connection,
        streams: Streams,
        options: JetStreamOptions,
        *,
        stores: Stores,
    ) -> None:
        self._connection = connection
        self._streams = streams
        self._stores = stores
        self._options = options
        self._lanes: dict[str, Lane] = {}
        self.batches = Batches(connection, streams, timeout_s=options.pace.ack_s)

    async def publish(self, schema: Schema, notification: Notification, key: str) -> Receipt:
        """Store a notification, or StorageFailed after a bounded time."""
        message = self._message(schema, notification, key)
        lane = self._lane(schema)
        outcome = await (self._single(schema, message) if lane is None else lane.store(message))
        if isinstance(outcome, AvisoError):
            raise outcome
        return outcome

    async def publish_many(
        self, schema: Schema, items: Sequence[tuple[Notification, str]]
    ) -> list[Outcome]:
        """Store notifications and their keys in their order; the outcome of each."""
        outcomes: list[Outcome | Message] = []
        for notification, key in items:
            try:
                outcomes.append(self._message(schema, notification, key))
            except StorageFailed as error:
                outcomes.append(error)
        messages = [item for item in outcomes if isinstance(item, Message)]
        lane = self._lane(schema)
        if lane is None:
            stored = await asyncio.gather(*(self._single(schema, item) for item in messages))
        else:
            stored = await lane.store_all(messages)
        following = iter(stored)
        return [next(following) if isinstance(item, Message) else item for item in outcomes]

    async def publish_together(
        self, schema: Schema, items: Sequence[tuple[Notification, str]]
    ) -> Sequence[Receipt | None]:
        """Store all or none: see ``Backend.append_together``."""
        messages = [self._message(schema, notification, key) for notification, key in items]
        attempt = partial(self._attempt_together, schema, messages)
        try:
            return await self._repeat(schema.stream, attempt, TRANSIENT | PASSING)
        except _GivenUp as end:
            if end.unknown:
                raise Unacknowledged(str(end)) from end
            raise StorageFailed(NOT_SENT, details=str(end)) from end

    async def _attempt_together(
        self, schema: Schema, messages: Sequence[Message]
    ) -> Sequence[Receipt | None]:
        await self._streams.ensure(schema)
        if not self._streams.takes_batches(schema):
            raise NoBatches("NATS is older than 2.12.1, or the stream lacks allow_atomic")
        try:
            return await self._send(schema, messages)
        except NoResponder:
            self._streams.forget(schema)
            raise
        except Refused as error:
            if error.code == REPEATED:
                return await self.batches.known(messages)
            if error.code in {NO_BATCHES, TOO_LARGE}:
                raise NoBatches(str(error)) from error
            raise

    async def close(self) -> None:
        """Give up what is under way."""
        for lane in tuple(self._lanes.values()):
            await lane.end()

    def _lane(self, schema: Schema) -> Lane | None:
        """The way to others that are stored at the same time; None if each must go alone."""
        if not self._streams.takes_batches(schema) or self._stores.on_trial(schema.stream):
            return None
        lane = self._lanes.get(schema.stream)
        if lane is None:
            if len(self._lanes) >= _MOST_LANES:
                self._lanes = {name: lane for name, lane in self._lanes.items() if not lane.idle}
            lane = Lane(partial(self._commit, schema), partial(self._single, schema))
            self._lanes[schema.stream] = lane
        return lane

    async def _commit(
        self, schema: Schema, messages: Sequence[Message]
    ) -> Sequence[Outcome | None] | None:
        """Store messages together; None if each must be sent alone to know what becomes of it."""
        try:
            try:
                outcomes = await self._send(schema, messages)
            except Refused as error:
                if error.code != REPEATED:
                    raise
                outcomes = await self._send_new(schema, messages)
        except (Unavailable, Refused) as error:
            self._note_refusal(schema, error)
            fault = await self._stores.failed(schema.stream, error, final=False)
            if fault is None:
                return None
            return [StorageFailed(NOT_ACKNOWLEDGED, details=fault.message) for _ in messages]
        self._stores.succeeded(schema.stream)
        return outcomes

    async def _send_new(
        self, schema: Schema, messages: Sequence[Message]
    ) -> Sequence[Receipt | None]:
        """Store together those whose ids are new, if they are enough to; None for others."""
        known = await self.batches.known(messages)
        new = [item for item, receipt in zip(messages, known, strict=True) if receipt is None]
        if not TOGETHER <= len(new) < len(messages):
            return known
        stored = iter(await self._send(schema, new))
        return [receipt or next(stored) for receipt in known]

    async def _send(self, schema: Schema, messages: Sequence[Message]) -> Sequence[Receipt | None]:
        """Store a batch, at consecutive sequences."""
        end = await self.batches.send(schema, messages) + 1
        return [Receipt(sequence) for sequence in range(end - len(messages), end)]

    def _note_refusal(self, schema: Schema, error: Unavailable | Refused) -> None:
        structlog.get_logger().debug(
            "Batch failed, its notifications are sent one by one",
            event_name="backend.jetstream.publish.batch.failed",
            stream_name=schema.stream,
            error=str(error),
        )
        if isinstance(error, NoResponder):
            self._streams.forget(schema)
        elif isinstance(error, Refused) and error.code == NO_BATCHES:
            self._streams.refuse_batches(schema)
        elif isinstance(error, Refused) and error.code == TOO_LARGE:
            self._lanes[schema.stream].most //= 2

    async def _single(self, schema: Schema, message: Message) -> Outcome:
        try:
            return await self._repeat(
                schema.stream, partial(self._attempt, schema, message), TRANSIENT
            )
        except AvisoError as error:
            return error
        except _GivenUp as end:
            said = isinstance(end.last, NoAnswer | Refused)
            return StorageFailed(NOT_ACKNOWLEDGED if said else NOT_SENT, details=str(end))

    async def _repeat(
        self, stream: str, attempt: Callable[[], Awaitable[_T]], passing: AbstractSet[int]
    ) -> _T:
        """What an attempt gave that succeeded, or _GivenUp after a bounded time."""
        if (fault := self._stores.refusal(stream)) is not None:
            raise _GivenUp(fault.message)
        attempts = 1 if self._stores.on_trial(stream) else self._options.publish_retry_attempts
        number, unknown = 0, False
        while True:
            number += 1
            try:
                result = await attempt()
            except NoBatches as error:
                if unknown:
                    raise _GivenUp(error.message, unknown=True) from error
                raise
            except SetupFailed as error:
                raise _GivenUp(error.message, unknown=unknown) from error
            except (Unavailable, Refused) as error:
                unknown = unknown or isinstance(error, NoAnswer)
                final = isinstance(error, Refused) and error.code not in passing
                final = final or number >= attempts
                fault = await self._stores.failed(stream, error, final=final)
                if final or fault is not None:
                    details = str(error) if fault is None else fault.message
                    raise _GivenUp(details, error, unknown=unknown) from error
                await self._wait(number, error)
            else:
                self._stores.succeeded(stream)
                return result

    async def _attempt(self, schema: Schema, message: Message) -> Receipt:
        await self._streams.ensure(schema)
        try:
            answer = await self._connection.request(
                message.subject,
                message.body,
                head=message.head,
                timeout_s=self._options.pace.ack_s,
            )
        except NoResponder:
            # No stream takes the subject: it was removed, or has no leader.
            self._streams.forget(schema)
            raise
        ack = read_answer(answer.body)
        sequence = ack.get("seq")
        if not isinstance(sequence, int):
            raise Unavailable("the acknowledgement has no sequence")
        self._streams.note(schema, sequence)
        # Met while sending again it is most likely our own first copy, but not surely: the key may
        # have been used before for something else. The caller compares.
        return Receipt(sequence, repeated=ack.get("duplicate") is True)

    async def _wait(self, attempt: int, error: Exception) -> None:
        delay_s = self._options.publish_retry_base_delay_s * 2 ** (attempt - 1)
        structlog.get_logger().warning(
            "Publishing failed, trying again",
            event_name="backend.jetstream.publish.retry.channel_closed",
            attempt=attempt,
            max_attempts=self._options.publish_retry_attempts,
            backoff_ms=int(delay_s * 1000),
            error=str(error),
        )
        await asyncio.sleep(delay_s)

    def _message(self, schema: Schema, notification: Notification, key: str) -> Message:
        """The message that stores a notification; StorageFailed if it is too large.

        The server would answer an oversized message by cutting the connection for everyone.
        """
        message = encode(schema, notification, key)
        if message.size + _HEADER_ROOM > self._connection.max_payload:
            raise StorageFailed(
                NOT_SENT,
                details=f"notification of {message.size} bytes exceeds the limit of the NATS "
                f"server ({self._connection.max_payload} bytes)",
            )
        return message


class _GivenUp(Exception):
    """Why nothing more is attempted."""

    def __init__(self, why: str, last: Exception | None = None, *, unknown: bool = False) -> None:
        super().__init__(why)
        self.last = last
        """What the last attempt failed with, if it got that far."""
        self.unknown = unknown
        """Whether one of the attempts may have stored something."""
