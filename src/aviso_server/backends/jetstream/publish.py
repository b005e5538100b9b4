"""Storing messages: sent, acknowledged, sent again if that is safe (docs/storage.md#publishing).

Every message carries an id, so the server drops a second copy within the duplicate window. That
is what makes sending again after a lost acknowledgement harmless. It also makes batches safe: of a
batch that was refused, or about which nothing is known, every message is sent again alone.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

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
from aviso_server.backends.jetstream.lanes import Lane
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
        stream, unknown = schema.stream, False
        if (fault := self._stores.refusal(stream)) is not None:
            raise StorageFailed(NOT_SENT, details=fault.message)
        attempts = 1 if self._stores.on_trial(stream) else self._options.publish_retry_attempts
        for attempt in range(1, attempts + 1):
            try:
                receipts = await self._attempt_together(schema, messages)
            except (SetupFailed, NoBatches) as error:
                if unknown:
                    raise Unacknowledged(error.details) from error
                if isinstance(error, NoBatches):
                    raise
                raise StorageFailed(NOT_SENT, details=error.message) from error
            except (Unavailable, Refused) as error:
                unknown = unknown or isinstance(error, NoAnswer)
                passing = not isinstance(error, Refused) or error.code in TRANSIENT | PASSING
                final = not passing or attempt == attempts
                fault = await self._stores.failed(stream, error, final=final)
                if final or fault is not None:
                    details = str(error) if fault is None else fault.message
                    if unknown:
                        raise Unacknowledged(details) from error
                    raise StorageFailed(NOT_SENT, details=details) from error
                await self._wait(attempt, error)
            else:
                self._stores.succeeded(stream)
                return receipts
        raise StorageFailed(NOT_SENT)

    async def _attempt_together(
        self, schema: Schema, messages: Sequence[Message]
    ) -> Sequence[Receipt | None]:
        await self._streams.ensure(schema)
        if not self._streams.takes_batches(schema):
            raise NoBatches("NATS is older than 2.12.1, or the stream lacks allow_atomic")
        try:
            return _receipts(await self.batches.send(schema, messages), len(messages))
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
    ) -> Sequence[Outcome] | None:
        """Store messages together; None if each must be sent alone to know what becomes of it."""
        try:
            last = await self.batches.send(schema, messages)
        except (Unavailable, Refused) as error:
            self._note_refusal(schema, error)
            fault = await self._stores.failed(schema.stream, error, final=False)
            if fault is None:
                return None
            return [StorageFailed(NOT_ACKNOWLEDGED, details=fault.message) for _ in messages]
        self._stores.succeeded(schema.stream)
        return _receipts(last, len(messages))

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
            return await self._store(schema, message)
        except AvisoError as error:
            return error

    async def _store(self, schema: Schema, message: Message) -> Receipt:
        stream = schema.stream
        if (fault := self._stores.refusal(stream)) is not None:
            raise StorageFailed(NOT_SENT, details=fault.message)
        on_trial = self._stores.on_trial(stream)
        attempts = 1 if on_trial else self._options.publish_retry_attempts
        for attempt in range(1, attempts + 1):
            try:
                receipt = await self._attempt(schema, message)
            except SetupFailed as error:
                raise StorageFailed(NOT_SENT, details=error.message) from error
            except (Unavailable, Refused) as error:
                outer = NOT_ACKNOWLEDGED if isinstance(error, NoAnswer | Refused) else NOT_SENT
                final = isinstance(error, Refused) and error.code not in TRANSIENT
                final = final or attempt == attempts
                fault = await self._stores.failed(stream, error, final=final)
                if final or fault is not None:
                    details = str(error) if fault is None else fault.message
                    raise StorageFailed(outer, details=details) from error
                await self._wait(attempt, error)
            else:
                self._stores.succeeded(stream)
                return receipt
        raise StorageFailed(NOT_SENT)

    async def _attempt(self, schema: Schema, message: Message) -> Receipt:
        await self._streams.ensure(schema)
        try:
            answer = await self._connection.request(
                message.subject,
                message.body,
                headers=message.headers,
                timeout_s=self._options.pace.ack_s,
            )
        except NoResponder:
            # No stream takes the subject: it was removed, or has no leader.
            self._streams.forget(schema)
            raise
        ack = read_answer(answer.data)
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


def _receipts(last: int, count: int) -> list[Receipt]:
    """Of a batch: its sequences are consecutive."""
    return [Receipt(sequence) for sequence in range(last - count + 1, last + 1)]
