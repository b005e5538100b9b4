"""Whether notifications of every configured event type can be stored, and how full the store is.

Checked from time to time, and sooner while something is wrong: readiness must come back without
traffic, which load balancers withhold meanwhile. Missing streams are created, so what a stream
lacks (copies, permissions, space) is found here and not by the first producer.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn

import structlog

from aviso_server.backends.backend import Fault, StreamUsage, Usage
from aviso_server.backends.jetstream import disk
from aviso_server.backends.jetstream.connection import Answer, Connection, Refused, Unavailable
from aviso_server.backends.jetstream.options import Pace, Store
from aviso_server.backends.jetstream.publish import TRANSIENT
from aviso_server.backends.jetstream.stores import Stores
from aviso_server.backends.jetstream.streams import Streams
from aviso_server.core.errors import AvisoError
from aviso_server.core.json import Json
from aviso_server.core.schema import Schema

TOGETHER = 8
"""Streams checked at the same time."""

WARN_AT, CALM_AT = 0.8, 0.75
"""Share of the store from which on it is reported as filling up, and below which no longer."""


@dataclass(frozen=True, slots=True)
class _Failed:
    """A stream that cannot be used."""

    schema: Schema
    error: Exception
    fault: Fault


class Condition:
    """The condition of the store behind one connection."""

    def __init__(
        self,
        connection: Connection,
        streams: Streams,
        stores: Stores,
        *,
        schemas: Callable[[], Collection[Schema]],
        store: Store | None,
        pace: Pace,
    ) -> None:
        self._connection = connection
        self._streams = streams
        self._stores = stores
        self._schemas = schemas
        self._store = store
        self._pace = pace
        self._failed: Mapping[str, _Failed] = {}
        """By stream, as of the last look."""
        self._looked = False
        self._full = False
        self._unwritable: str | None = None
        """Why the disk of the embedded server takes nothing."""
        self._filling = False
        self.usage: Usage | None = None
        """As of the last look; None before the first."""

    @property
    def fault(self) -> Fault | None:
        """Why notifications of some event type cannot be stored now."""
        if not self._connection.connected:
            return Fault("disconnected", "NATS cannot be reached")
        if not self._looked:
            return Fault("stream_refused", "the streams have not been checked yet")
        for failed in self._failed.values():
            return failed.fault
        if self._full:
            return self._stores.full("it is at its limit")
        if self._unwritable is not None:
            return self._stores.unwritable(self._unwritable)
        return self._stores.fault

    async def run(self) -> NoReturn:
        """Check for as long as this runs."""
        changed = asyncio.Event()
        unwatch = self._connection.watch(changed.set)
        try:
            while True:
                pause_s = self._pace.check_s if self.fault is None else self._pace.recheck_s
                try:
                    async with asyncio.timeout(pause_s):
                        await changed.wait()
                except TimeoutError:
                    pass
                changed.clear()
                await self.look()
        finally:
            unwatch()

    async def look(self) -> None:
        """Create or check every configured stream, and measure; never fails."""
        if not self._connection.connected:
            return
        schemas, generation = self._schemas(), self._connection.generation
        gate = asyncio.Semaphore(TOGETHER)
        outcomes = await asyncio.gather(*(self._stream(item, gate) for item in schemas))
        if generation != self._connection.generation:
            return  # lost on the way: what did not answer says nothing about its stream
        self._looked = True
        self._note([item for item in outcomes if isinstance(item, _Failed)])
        full = await self._measure(dict(item for item in outcomes if isinstance(item, tuple)))
        self._full = full is True
        if self._store is not None:
            # Before a producer meets it, and in every process: only some see a notification fail.
            self._unwritable = await asyncio.to_thread(disk.shortage, self._store.folder)
        answering = frozenset(schema.stream for schema in schemas) - self._failed.keys()
        await self._stores.reconsider(full=full, answering=answering)

    def refusals(self) -> Iterable[tuple[Schema, Exception]]:
        """Which streams could not be used at the last look, and why."""
        return [(item.schema, item.error) for item in self._failed.values()]

    async def _stream(
        self, schema: Schema, gate: asyncio.Semaphore
    ) -> tuple[str, StreamUsage] | _Failed:
        name = schema.event_type
        async with gate:
            try:
                await self._streams.ensure(schema)
                info = await self._connection.call(f"STREAM.INFO.{schema.stream}")
            except Unavailable as error:
                fault = Fault("no_quorum", f"NATS does not answer for event type '{name}': {error}")
                return _Failed(schema, error, fault)
            except Refused as error:
                self._streams.forget(schema)  # made again at the next look if it is gone
                passing = error.code in TRANSIENT or error.status == 503
                fault = Fault(
                    "no_quorum" if passing else "stream_refused",
                    f"NATS refuses the stream of event type '{name}': {error}",
                )
                return _Failed(schema, error, fault)
            except AvisoError as error:
                text = f"the stream of event type '{name}' cannot be used: {error.message}"
                return _Failed(schema, error, Fault("stream_refused", text))
        present, copies = _copies(info)
        if present <= copies // 2:
            text = f"event type '{name}' has {present} of {copies} copies: no quorum"
            return _Failed(schema, Unavailable(text), Fault("no_quorum", text))
        state = _object(info.get("state"))
        self._streams.note(schema, _number(state.get("last_seq")))
        return name, StreamUsage(_number(state.get("messages")), _number(state.get("bytes")))

    def _note(self, failed: Iterable[_Failed]) -> None:
        journal = structlog.get_logger()
        found = {item.schema.stream: item for item in failed}
        for stream, item in found.items():
            before = self._failed.get(stream)
            if before is None or before.fault != item.fault:
                journal.error(
                    "Notifications cannot be stored",
                    event_name="backend.jetstream.store.failing",
                    stream_name=stream,
                    reason=item.fault.reason,
                    error=item.fault.message,
                )
        for stream in self._failed.keys() - found.keys():
            journal.info(
                "Stream can be used again",
                event_name="backend.jetstream.store.recovered",
                stream_name=stream,
            )
        self._failed = found

    async def _measure(self, streams: Mapping[str, StreamUsage]) -> bool | None:
        """Record the sizes; whether the store is at its limit, None if unknown."""
        try:
            account = await self._connection.call("INFO")
        except (Unavailable, Refused):
            return None  # in a cluster its own leader answers; the streams may do without
        stored = _number(account.get("storage"))
        limit: int | None = _number(_object(account.get("limits")).get("max_storage"))
        free = None
        if self._store is not None:
            limit = self._store.limit_bytes
            free = await asyncio.to_thread(disk.free_bytes, self._store.folder)
        if limit is None or limit <= 0:
            limit = None
        self.usage = Usage(stored, limit, free, streams)
        self._warn(self.usage)
        if limit is None:
            return None
        return stored > limit

    def _warn(self, usage: Usage) -> None:
        """Say once that the store is filling up, and again only after it was not."""
        share = usage.share
        if share is None:
            return
        if share >= WARN_AT and not self._filling:
            self._filling = True
            structlog.get_logger().warning(
                "The store is filling up",
                event_name="backend.jetstream.store.filling",
                share=round(share, 2),
                stored_bytes=usage.stored_bytes,
                limit_bytes=usage.limit_bytes,
                free_bytes=usage.free_bytes,
            )
        elif share < CALM_AT:
            self._filling = False


def _copies(info: Answer) -> tuple[int, int]:
    """How many copies of a stream are there now, and how many there should be."""
    cluster = _object(info.get("cluster"))
    if not cluster:
        return 1, 1
    others = cluster.get("replicas")
    others = others if isinstance(others, list) else []
    present = sum(not _object(other).get("offline") for other in others)
    # The leading copy is not listed as a peer; without a leader nothing is stored.
    return present + 1 if cluster.get("leader") else 0, len(others) + 1


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0
