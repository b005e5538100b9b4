"""Reading stored messages by sequence and by time (docs/decisions/0003-reading-jetstream.md).

Direct gets may be answered by a replica that lags behind the leader. A replica has a prefix of the
log, so a short answer is the only sign of it: callers ask the leader before they accept that
nothing follows. ``Reader.read`` does.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from aviso_server.backends.jetstream.configuration import StreamState
from aviso_server.backends.jetstream.connection import BATCH_GET, Connection, Refused, Unavailable
from aviso_server.backends.jetstream.messages import Stored
from aviso_server.core.json import Json, compact
from aviso_server.core.moment import rfc3339

MAX_BATCH = 1000
"""Messages the server gives to one direct get."""

MAX_BATCH_BYTES = 2 * 1024 * 1024
"""Bounds what one direct get can load into memory; a single larger message is still read."""

MAX_NS = 2**63 - 1
"""The last instant NATS can name."""

ALL = ">"
"""The subject of every message."""

STREAM_NOT_FOUND = 10059
MESSAGE_NOT_FOUND = frozenset({10037, 10043, 10057})
"""No message found; sequence not found; sequence beyond the end."""

_LAG_WAIT_S = 0.05
"""Wait before a replica that lags behind is asked again."""


@dataclass(frozen=True, slots=True)
class Page:
    """A run of stored messages."""

    messages: Sequence[Stored]
    more: bool
    """Whether the answering replica knows of messages above the last one."""
    confirmed: bool = False
    """Whether the leader said that there are none; nothing else is then worth asking."""


class Reader:
    """Reads any stream; keeps nothing between reads."""

    def __init__(
        self, connection: Connection, *, batches: bool | None = None, patience_s: float = 5.0
    ) -> None:
        self._connection = connection
        self._patience_s = patience_s
        """How long a replica that lags behind is asked again."""
        self._batches = connection.version >= BATCH_GET if batches is None else batches

    @property
    def by_subject(self) -> bool:
        """Whether messages can be asked for by subject, many at a time."""
        return self._batches

    async def read_any(
        self, stream: str, first: int, last: int, *, limit: int, subjects: Sequence[str]
    ) -> tuple[Sequence[Stored], int]:
        """The same as ``read`` of all messages with any of the subjects, none of which overlap."""
        parts = await asyncio.gather(
            *(self.read(stream, first, last, limit=limit, subject=subject) for subject in subjects)
        )
        # Beyond the lowest, one of the subjects has not been read yet.
        following = min(reached for _, reached in parts)
        messages = [m for found, _ in parts for m in found if m.sequence < following]
        return sorted(messages, key=lambda message: message.sequence), following

    async def read(
        self, stream: str, first: int, last: int, *, limit: int, subject: str = ALL
    ) -> tuple[Sequence[Stored], int]:
        """Up to ``limit`` messages of ``first..last`` and the sequence to continue with.

        Every sequence below that one was considered, by a replica that knew of all of them.
        """
        if first > last:
            return (), last + 1
        count = min(limit, last - first + 1)
        page = await self._patient_page(stream, first, count, subject)
        messages = page.messages
        if messages and messages[-1].sequence > last:
            messages = [item for item in messages if item.sequence <= last]
        reached = page.messages[-1].sequence if page.messages else first - 1
        if reached < last and page.more:
            return messages, reached + 1
        if reached < last and not page.confirmed:
            # Nothing more, says a replica. If the leader knows more, the replica lags.
            upcoming = await next_stored(self._connection, stream, reached + 1, subject)
            if upcoming is not None and upcoming <= last:
                if not messages:
                    raise Unavailable("the replica lags behind")
                return messages, reached + 1
        return messages, last + 1

    async def since(self, stream: str, held: StreamState, ns: int) -> int:
        """Lowest stored sequence at or after a time; ``last + 1`` if there is none."""
        if ns > held.last_ns:
            return held.last + 1
        moment = min(max(ns, 0), MAX_NS)
        found = await self.first_since(stream, moment)
        if found is None:
            # The leader knows better than a replica that lags; its answer may be a hole.
            begin = await self.resolve(stream, moment)
            found = await next_stored(self._connection, stream, begin)
        return held.last + 1 if found is None else found

    async def until(self, stream: str, held: StreamState, ns: int) -> int:
        """Highest stored sequence at or before a time; ``first - 1`` if there is none."""
        above = held.last + 1 if ns >= held.last_ns else await self.since(stream, held, ns + 1)
        found = await self.last_until_sequence(stream, above - 1, held.first)
        return held.first - 1 if found is None else found.sequence

    async def page(self, stream: str, first: int, count: int, subject: str = ALL) -> Page:
        """Up to ``count`` messages from a sequence on; holes are stepped over."""
        if not self._batches:
            return await self._singles(stream, first, count)
        asked: dict[str, Json] = {"seq": first}
        # Without a subject the server need not compare any.
        return await self._batch(
            stream, asked if subject == ALL else {**asked, "next_by_subj": subject}, count
        )

    async def first_since(self, stream: str, ns: int) -> int | None:
        """The first sequence stored at or after a time, as far as the answering replica knows."""
        if not self._batches:
            return await self.resolve(stream, ns)
        page = await self._batch(stream, {"start_time": rfc3339(ns)}, 1)
        return page.messages[0].sequence if page.messages else None

    async def resolve(self, stream: str, ns: int) -> int:
        """The same, from the stream's leader: where a consumer would begin."""
        name = f"aviso-at-{self._connection.new_inbox().rpartition('.')[2]}"
        config: dict[str, Json] = {
            "name": name,
            "deliver_policy": "by_start_time",
            "opt_start_time": rfc3339(ns),
            "ack_policy": "none",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": 1_000_000_000,
        }
        info = await self._connection.call(
            f"CONSUMER.CREATE.{stream}.{name}", {"stream_name": stream, "config": config}
        )
        await self._connection.call(f"CONSUMER.DELETE.{stream}.{name}")
        delivered = info.get("delivered")
        before = delivered.get("stream_seq") if isinstance(delivered, dict) else None
        return (before if isinstance(before, int) else 0) + 1

    async def _patient_page(self, stream: str, first: int, count: int, subject: str) -> Page:
        """A page that holds something if there is something: lagging replicas are asked again."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience_s
        while True:
            try:
                page = await self.page(stream, first, count, subject)
            except Refused as error:
                if error.code == STREAM_NOT_FOUND:
                    return Page((), more=False, confirmed=True)
                raise
            if page.messages or loop.time() > deadline:
                return page
            if await next_stored(self._connection, stream, first, subject) is None:
                return Page((), more=False, confirmed=True)
            await asyncio.sleep(_LAG_WAIT_S)

    async def last_until_sequence(self, stream: str, last: int, first: int) -> Stored | None:
        """The highest stored message of ``first..last``; searched for in growing steps down."""
        step = 1
        while last >= first:
            begin = position = max(first, last - step + 1)
            highest: Stored | None = None
            while position <= last:
                found, position = await self.read(stream, position, last, limit=step)
                highest = found[-1] if found else highest
            if highest is not None:
                return highest
            last, step = begin - 1, min(step * 4, 256)
        return None

    async def _batch(self, stream: str, start: dict[str, Json], count: int) -> Page:
        asked = min(count, MAX_BATCH)
        body = {**start, "batch": asked, "max_bytes": MAX_BATCH_BYTES}
        messages, end = await self._connection.collect(f"DIRECT.GET.{stream}", body)
        status, text = end.status
        if status == "404":
            return Page((), more=False)
        if status != "204":
            raise _failure(status, text)
        pending = end.headers.get("Nats-Num-Pending", "0")
        return Page(messages, more=pending != "0")

    async def _singles(self, stream: str, first: int, count: int) -> Page:
        """For servers before 2.11: one request per sequence, all in flight at once."""
        begin = await self._single(stream, {"seq": first, "next_by_subj": ALL})
        if begin is None:
            return Page((), more=False)
        rest = await asyncio.gather(
            *(
                self._single(stream, {"seq": begin.sequence + n})
                for n in range(1, min(count, MAX_BATCH))
            )
        )
        messages = [begin, *(message for message in rest if message is not None)]
        after = await self._single(
            stream, {"seq": begin.sequence + len(rest) + 1, "next_by_subj": ALL}
        )
        return Page(messages, more=after is not None)

    async def _single(self, stream: str, body: dict[str, Json]) -> Stored | None:
        answer = await self._connection.request(
            f"$JS.API.DIRECT.GET.{stream}", compact(body), timeout_s=5.0
        )
        if b"\r\nNats-Sequence:" in answer.head:
            return answer.stored()
        status, text = answer.status
        if status == "404":
            return None
        raise _failure(status, text)


async def next_stored(
    connection: Connection, stream: str, sequence: int, subject: str = ALL
) -> int | None:
    """The lowest sequence stored at or above one, as the stream's leader knows it."""
    try:
        answer = await connection.call(
            f"STREAM.MSG.GET.{stream}", {"seq": sequence, "next_by_subj": subject}
        )
    except Refused as error:
        if error.code in MESSAGE_NOT_FOUND:
            return None
        raise
    message = answer.get("message")
    found = message.get("seq") if isinstance(message, dict) else None
    return found if isinstance(found, int) else None


def _failure(status: str, text: str) -> Refused:
    return Refused(int(status or "500"), 0, text or "unknown error")
