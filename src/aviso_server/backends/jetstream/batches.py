"""Atomic batches of NATS: messages that are stored at consecutive sequences, all or none.

NATS stages the messages of a batch and stores them when it gets the last one, which is the only one
it answers. What is staged is dropped when the connection, the leader or the server changes before.
The ids of the messages count as those of single ones do, in both directions: NATS refuses a batch
that has an id it knows, and later drops a single message with an id of a batch.
"""

import asyncio
import itertools
import secrets
from collections.abc import Sequence

from aviso_server.backends.backend import Receipt
from aviso_server.backends.jetstream.client import publish_command
from aviso_server.backends.jetstream.connection import (
    Answer,
    Connection,
    NoAnswer,
    Refused,
    read_answer,
)
from aviso_server.backends.jetstream.messages import Message
from aviso_server.backends.jetstream.streams import Streams
from aviso_server.core.schema import Schema

NO_BATCHES = 10174
"""The stream takes no batches."""
INCOMPLETE = 10176
"""A message of the batch did not arrive, or arrived too late."""
TOO_LARGE = 10199
"""The operator of NATS allows fewer messages."""
REPEATED = 10201
"""An id is known, or comes twice."""
TOO_MANY = 10210
"""Batches under way."""

_NO_ROLLUP = 10111
_ASKED_AT_ONCE = 100


class Batches:
    """Sends batches over one connection."""

    def __init__(self, connection: Connection, streams: Streams, *, timeout_s: float) -> None:
        self._connection = connection
        self._streams = streams
        self._timeout_s = timeout_s
        self._prefix, self._numbers = secrets.token_hex(4), itertools.count()
        self.stored = 0
        self.notifications = 0
        """In the batches that were stored."""
        self.failed = 0
        """Batches that were refused or not acknowledged."""

    async def send(self, schema: Schema, messages: Sequence[Message]) -> int:
        """Store messages; the sequence of the last. Raises Unavailable or Refused."""
        batch = f"{self._prefix}{next(self._numbers)}"
        line = b"%%bNats-Batch-Id: %b\r\nNats-Batch-Sequence: %%d\r\n" % batch.encode()
        heads = [line % (message.head, number) for number, message in enumerate(messages, 1)]
        commands = [
            publish_command(message.subject, message.body, head=head)
            for message, head in zip(messages[:-1], heads, strict=False)
        ]
        try:
            commit = heads[-1] + b"Nats-Batch-Commit: 1\r\n"
            ack = await self._ask(messages[-1], commit, ahead=commands)
            if ack.get("batch") != batch or ack.get("count") != len(messages):
                # A server that knows no batches has stored each message and answers for the last.
                self._streams.refuse_batches(schema)
                ack = {}
            sequence = _sequence(ack)
        except Exception:
            self.failed += 1
            raise
        self.stored += 1
        self.notifications += len(messages)
        self._streams.note(schema, sequence)
        return sequence

    async def known(self, messages: Sequence[Message]) -> list[Receipt | None]:
        """Which of these were stored before; nothing is stored. Raises Unavailable or Refused."""
        found: list[Receipt | None] = []
        for begin in range(0, len(messages), _ASKED_AT_ONCE):
            some = messages[begin : begin + _ASKED_AT_ONCE]
            found += await asyncio.gather(*map(self._known, some))
        return found

    async def _known(self, message: Message) -> Receipt | None:
        # A header that NATS refuses, whatever the stream allows, after it has looked at the id.
        # (With a wrong Nats-Expected-Last-Msg-Id a replicated stream of 2.15.1 ends for good.)
        try:
            ack = await self._ask(message, message.head + b"Nats-Rollup: never\r\n")
        except Refused as error:
            if error.code == _NO_ROLLUP:
                return None
            raise
        return Receipt(_sequence(ack), repeated=True)

    async def _ask(self, message: Message, head: bytes, *, ahead: Sequence[bytes] = ()) -> Answer:
        answer = await self._connection.request(
            message.subject, message.body, head=head, timeout_s=self._timeout_s, ahead=ahead
        )
        return read_answer(answer.body)


def _sequence(ack: Answer) -> int:
    sequence = ack.get("seq")
    if not isinstance(sequence, int):
        raise NoAnswer("the acknowledgement has no sequence")
    return sequence
