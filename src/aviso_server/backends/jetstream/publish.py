"""Storing a message: sent, acknowledged, sent again if that is safe (docs/storage.md#publishing).

Every message carries an id, so the server drops a second copy within the duplicate window. That
is what makes sending again after a lost acknowledgement harmless.
"""

import asyncio

import structlog

from aviso_server.backends.backend import Receipt
from aviso_server.backends.jetstream.connection import (
    Connection,
    NoAnswer,
    NoResponder,
    Refused,
    Unavailable,
    read_answer,
)
from aviso_server.backends.jetstream.messages import Message, encode
from aviso_server.backends.jetstream.options import JetStreamOptions
from aviso_server.backends.jetstream.stores import Stores
from aviso_server.backends.jetstream.streams import Streams
from aviso_server.core.errors import SetupFailed, StorageFailed
from aviso_server.core.notification import Notification
from aviso_server.core.schema import Schema

NOT_SENT = "Failed to publish notification message to JetStream"
NOT_ACKNOWLEDGED = "Failed to receive publish acknowledgment from JetStream"

TRANSIENT = frozenset({10008, 10039, 10076, 10118, 10158})
"""Refusals that pass: no leader, JetStream starting up, stream offline, or the same id is being
stored at this moment. All others (limits, sizes) are final."""

_HEADER_ROOM = 1024
"""Allowance for what the server and the client add to our headers."""


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

    async def publish(self, schema: Schema, notification: Notification, key: str) -> Receipt:
        """Store a notification, or StorageFailed after a bounded time."""
        message = encode(schema, notification, key)
        self._check_size(message)
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

    def _check_size(self, message: Message) -> None:
        """The server would answer an oversized message by cutting the connection for everyone."""
        size = len(message.body) + sum(len(k) + len(v) + 4 for k, v in message.headers.items())
        if size + _HEADER_ROOM > self._connection.max_payload:
            raise StorageFailed(
                NOT_SENT,
                details=f"notification of {size} bytes exceeds the limit of the NATS server "
                f"({self._connection.max_payload} bytes)",
            )
