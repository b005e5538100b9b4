"""Following a stream: one ordered consumer, rebuilt from the last sequence whenever in doubt.

Theory of operation
The server pushes messages to an inbox and numbers them per consumer, without holes. A number that
is skipped, a heartbeat that names a number we never saw, heartbeats that stay out, a connection
that came back, or a watchdog that finds the stream ahead of us: each means that something may be
missing. There is one remedy for all, a new consumer from the last sequence yielded + 1, and
therefore nothing is ever lost or duplicated. nats-py has an ordered consumer too, but it reports a
failed rebuild nowhere, and consumers stall now and then, so it is done here.

Holes in the stream's own sequence are normal (deletions, keep-latest). Where retention can remove
something before we read it, a hole is investigated: if it was retention, HistoryLost.

Unread messages are bounded by the server's flow control: the next window is asked for only after
what came before was taken.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import structlog
from nats.aio.msg import Msg

from aviso_server.backends.jetstream.connection import Connection, Inbox, Refused, Unavailable
from aviso_server.backends.jetstream.decoding import decode_in_turns
from aviso_server.backends.jetstream.history import STREAM_NOT_FOUND
from aviso_server.backends.jetstream.messages import Stored
from aviso_server.backends.jetstream.options import Pace
from aviso_server.backends.jetstream.streams import Streams
from aviso_server.core.errors import HistoryLost, LiveFailed, SetupFailed
from aviso_server.core.json import Json
from aviso_server.core.notification import Entry
from aviso_server.core.schema import Schema

_ACK_PREFIX = "$JS.ACK."
_NS = 1_000_000_000


class Tail:
    """Follows one stream from a position."""

    def __init__(
        self, connection: Connection, streams: Streams, schema: Schema, after: int, pace: Pace
    ) -> None:
        self._connection = connection
        self._streams = streams
        self._schema = schema
        self._pace = pace
        self._position = after
        """Last sequence yielded."""
        self._looked = after
        """Nothing that was stored up to here is still to come."""

    async def entries(self) -> AsyncGenerator[Sequence[Entry], None]:
        """Every entry above the position, in as few lists as possible."""
        journal = structlog.get_logger().bind(
            stream_name=self._schema.stream, event_type=self._schema.event_type
        )
        journal.info("Following", event_name="backend.jetstream.subscription.started")
        while True:
            consumer = await self._consumer()
            journal.info(
                "Consumer created",
                event_name="backend.jetstream.consumer.created",
                consumer_name=consumer.name,
            )
            try:
                async with aclosing(self._until_broken(consumer)) as batches:
                    async for found in batches:
                        yield found
            except (_Broken, Unavailable) as why:
                journal.warning(
                    "Consumer is being rebuilt",
                    event_name="backend.jetstream.subscription.retry",
                    last_sequence=self._position,
                    error=str(why),
                )
            finally:
                await consumer.end()

    async def _until_broken(self, consumer: "Consumer") -> AsyncGenerator[Sequence[Entry], None]:
        while True:
            arrivals = await self._next(consumer)
            if found := await self._taken(arrivals):
                yield found
            await consumer.ask_for_more(arrivals)
            if arrivals.broken is not None:
                raise _Broken(arrivals.broken)

    async def _consumer(self) -> "Consumer":
        """A consumer from the position on; waits for a lost connection, then LiveFailed."""
        last_error: Exception | None = None
        try:
            async with asyncio.timeout(self._pace.outage_s):
                while True:
                    try:
                        return await self._try_consumer()
                    except SetupFailed as error:
                        raise LiveFailed(
                            "Failed to create stream consumer", details=error.details
                        ) from error
                    except (Unavailable, Refused) as error:
                        last_error = error
                        if isinstance(error, Refused) and error.code == STREAM_NOT_FOUND:
                            self._streams.forget(self._schema)
                    if self._connection.ended:
                        break
                    # A connection that is up but refuses (a leader is being elected) is asked again
                    # soon; one that is down reports when it is back.
                    await asyncio.sleep(0.2)
        except TimeoutError:
            pass
        raise LiveFailed("Failed to create stream consumer", details=str(last_error or "no answer"))

    async def _try_consumer(self) -> "Consumer":
        await self._connection.until_connected(self._pace.outage_s)
        held = await self._streams.state(self._schema)
        if held.last < self._position:
            raise HistoryLost(
                "The stream was replaced",
                details=f"its last sequence is {held.last}, {self._position} was delivered",
            )
        await self._check_kept(self._position)
        consumer = await Consumer.create(
            self._connection, self._schema.stream, self._position + 1, self._pace
        )
        if not consumer.pending:
            self._looked = max(self._looked, held.last)
        return consumer

    async def _next(self, consumer: "Consumer") -> "Arrivals":
        """What has arrived; the watchdog runs while nothing does."""
        behind = False
        while True:
            arrivals = await consumer.arrivals(self._pace.watchdog_s)
            if arrivals is not None:
                return arrivals
            last = (await self._streams.state(self._schema)).last
            # Twice in a row: what was stored a moment ago may still be on its way.
            if behind and last > max(self._position, self._looked):
                return Arrivals([], [], f"nothing arrived, but the stream is at {last}")
            behind = last > max(self._position, self._looked)

    async def _taken(self, arrivals: "Arrivals") -> list[Entry]:
        """The entries of what arrived, after checking holes that retention may have made."""
        position, holes_from = self._position, None
        for stored in arrivals.messages:
            if stored.sequence != position + 1 and holes_from is None:
                holes_from = position
            position = stored.sequence
        found = await decode_in_turns(self._schema, arrivals.messages)
        if holes_from is not None:
            await self._check_kept(holes_from)
        self._position = position
        return found

    async def _check_kept(self, position: int) -> None:
        """HistoryLost when retention removed something above a position before it was read."""
        held = await self._streams.state(self._schema)
        if held.bounds.lost > position:
            raise HistoryLost(
                "History is no longer kept",
                details=f"sequence {position + 1} is gone; "
                f"the first one available is {held.bounds.first}",
            )


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What a consumer received since it was last asked."""

    messages: list[Stored]
    replies: list[str]
    """Flow control: where to ask for more once the messages are taken."""
    broken: str | None = None
    """Why nothing after the messages can be relied upon."""


class Consumer:
    """One push consumer, from its creation until it breaks or is ended."""

    def __init__(self, connection: Connection, stream: str) -> None:
        self._connection = connection
        self._stream = stream
        self._inbox: Inbox | None = None
        self._generation = connection.generation
        self._unwatch = connection.watch(self._connection_changed)
        self._changed = asyncio.Event()
        self._messages: list[Stored] = []
        self._replies: list[str] = []
        self._broken: str | None = None
        self._delivered = 0
        """The consumer's own number of the last message received."""
        self._heard = True
        """Whether anything at all came since the last look."""
        self.name = ""
        self.pending = 0
        """Messages that waited for it when it was created."""

    @classmethod
    async def create(
        cls, connection: Connection, stream: str, first: int, pace: Pace
    ) -> "Consumer":
        """Begin to receive; the inbox listens before the server knows of it."""
        consumer = cls(connection, stream)
        subject = connection.new_inbox()
        consumer.name = f"aviso-{subject.rpartition('.')[2]}"
        config: dict[str, Json] = {
            "name": consumer.name,
            "deliver_subject": subject,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": first,
            "ack_policy": "none",
            "max_deliver": 1,
            "flow_control": True,
            "idle_heartbeat": int(pace.heartbeat_s * _NS),
            "mem_storage": True,
            "num_replicas": 1,
        }
        try:
            consumer._inbox = await connection.subscribe(subject, consumer._arrived)
            info = await connection.call(
                f"CONSUMER.CREATE.{stream}.{consumer.name}",
                {"stream_name": stream, "config": config},
            )
        except BaseException:
            await consumer.end()
            raise
        pending = info.get("num_pending")
        consumer.pending = pending if isinstance(pending, int) else 0
        return consumer

    async def arrivals(self, timeout_s: float) -> Arrivals | None:
        """Everything received so far, as soon as there is something; None after a timeout."""
        while not (self._messages or self._replies or self._broken):
            self._changed.clear()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._changed.wait()
            except TimeoutError:
                if not self._heard:
                    return Arrivals([], [], "no heartbeat")
                self._heard = False
                return None
        taken = Arrivals(self._messages, self._replies, self._broken)
        self._messages, self._replies = [], []
        return taken

    async def ask_for_more(self, arrivals: Arrivals) -> None:
        """Let the server send on."""
        for reply in arrivals.replies:
            await self._connection.publish(reply)

    async def end(self) -> None:
        """Stop receiving, so that the server need not find out on its own."""
        self._unwatch()
        if self._inbox is not None:
            await self._inbox.end()
        if self._connection.connected and self._connection.generation == self._generation:
            with contextlib.suppress(Unavailable):
                await self._connection.publish(
                    f"$JS.API.CONSUMER.DELETE.{self._stream}.{self.name}"
                )

    async def _arrived(self, message: Msg) -> None:
        self._heard = True
        if self._broken is not None:
            return
        if message.reply.startswith(_ACK_PREFIX):
            self._take(message)
        else:
            self._control(message)

    def _take(self, message: Msg) -> None:
        sequence, number, ns = delivery(message.reply)
        if number != self._delivered + 1:
            self._break(f"message {self._delivered + 1} of the consumer is missing")
            return
        self._delivered = number
        self._messages.append(
            Stored(sequence, ns, message.subject, message.headers or {}, message.data)
        )
        self._changed.set()

    def _control(self, message: Msg) -> None:
        """A heartbeat or a question whether we keep up."""
        headers = message.headers or {}
        if message.reply:
            self._replies.append(message.reply)
            self._changed.set()
            return
        if stalled := headers.get("Nats-Consumer-Stalled"):
            self._replies.append(stalled)
            self._changed.set()
        number = headers.get("Nats-Last-Consumer")
        if number is not None and int(number) != self._delivered:
            self._break(f"the consumer is at {number}, {self._delivered} was received")

    def _connection_changed(self) -> None:
        # Whatever was in flight when the connection broke is gone.
        self._break("the connection was interrupted")

    def _break(self, why: str) -> None:
        if self._broken is None:
            self._broken = why
        self._changed.set()


class _Broken(Exception):
    """The consumer can no longer be relied upon."""


def delivery(reply: str) -> tuple[int, int, int]:
    """Stream sequence, consumer sequence and time in nanoseconds, from the reply subject."""
    parts = reply.split(".")
    # Newer servers put the domain and the account between the prefix and the stream.
    at = 5 if len(parts) == 9 else 7
    return int(parts[at]), int(parts[at + 1]), int(parts[at + 2])
