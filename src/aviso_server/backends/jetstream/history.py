"""Reading stored messages by sequence and by time (docs/decisions/0003-reading-jetstream.md).

Direct gets may be answered by a replica that lags behind the leader. A replica has a prefix of
the log, so a short answer is the only sign of it: callers ask the leader before they believe that
nothing follows.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from nats.aio.msg import Msg

from aviso_server.backends.jetstream.connection import (
    BATCH_GET,
    Connection,
    NoResponder,
    Refused,
    Unavailable,
)
from aviso_server.backends.jetstream.messages import Stored, time_ns
from aviso_server.core.json import Json, compact
from aviso_server.core.moment import rfc3339

MAX_BATCH = 1000
"""Messages the server gives to one direct get."""

MAX_BATCH_BYTES = 8 * 1024 * 1024
"""Bounds what one read can bring into memory; a single larger message still comes."""

_SINGLE = frozenset({"200", "404"})


@dataclass(frozen=True, slots=True)
class Page:
    """A run of stored messages."""

    messages: Sequence[Stored]
    more: bool
    """Whether whoever answered knows of messages above the last one."""


class Reader:
    """Reads any stream; keeps nothing between reads."""

    def __init__(self, connection: Connection, *, batches: bool | None = None) -> None:
        self._connection = connection
        self._batches = connection.version >= BATCH_GET if batches is None else batches

    async def page(self, stream: str, first: int, count: int) -> Page:
        """Up to ``count`` messages from a sequence on; holes are stepped over."""
        if not self._batches:
            return await self._singles(stream, first, count)
        return await self._batch(stream, {"seq": first}, count)

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

    async def _batch(self, stream: str, start: dict[str, Json], count: int) -> Page:
        asked = min(count, MAX_BATCH)
        body = {**start, "batch": asked, "max_bytes": MAX_BATCH_BYTES}
        messages, end = await self._connection.collect(f"DIRECT.GET.{stream}", body)
        status = (end.headers or {}).get("Status")
        if status == "404":
            return Page((), more=False)
        if status != "204":
            raise _failure(end)
        pending = (end.headers or {}).get("Nats-Num-Pending", "0")
        return Page([stored(message) for message in messages], more=pending != "0")

    async def _singles(self, stream: str, first: int, count: int) -> Page:
        """For servers before 2.11: one question per sequence, all of them under way at once."""
        begin = await self._single(stream, {"seq": first, "next_by_subj": ">"})
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
            stream, {"seq": begin.sequence + len(rest) + 1, "next_by_subj": ">"}
        )
        return Page(messages, more=after is not None)

    async def _single(self, stream: str, body: dict[str, Json]) -> Stored | None:
        answer = await self._connection.request(
            f"$JS.API.DIRECT.GET.{stream}", compact(body), timeout_s=5.0
        )
        headers = answer.headers or {}
        if "Nats-Sequence" in headers:
            return stored(answer)
        if headers.get("Status") == "404":
            return None
        raise _failure(answer)


def stored(message: Msg) -> Stored:
    """A message as a direct get gives it: what it is is told in headers."""
    headers = message.headers or {}
    return Stored(
        int(headers["Nats-Sequence"]),
        time_ns(headers["Nats-Time-Stamp"]),
        headers["Nats-Subject"],
        headers,
        message.data,
    )


def _failure(answer: Msg) -> Unavailable | Refused:
    headers = answer.headers or {}
    status, text = headers.get("Status", "500"), headers.get("Description", "unknown error")
    if status == "503":
        return NoResponder("nobody answers for this stream")
    return Refused(int(status), 0, text)
