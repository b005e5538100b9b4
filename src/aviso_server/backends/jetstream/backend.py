"""The JetStream backend: durable, replicated, shared by every process that is connected."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from itertools import chain
from typing import Self

import structlog

from aviso_server import tasks
from aviso_server.backends.backend import (
    Backend,
    Batch,
    Bounds,
    Fault,
    Outcome,
    Receipt,
    Usage,
)
from aviso_server.backends.jetstream.agreement import MarkReader
from aviso_server.backends.jetstream.batches import Batches
from aviso_server.backends.jetstream.condition import Condition
from aviso_server.backends.jetstream.configuration import OURS, Layout, check_storage
from aviso_server.backends.jetstream.connection import Connection, Refused, Unavailable
from aviso_server.backends.jetstream.decoding import EVERYTHING, decode_in_turns
from aviso_server.backends.jetstream.density import Densities
from aviso_server.backends.jetstream.embedded import EmbeddedServer
from aviso_server.backends.jetstream.history import Reader
from aviso_server.backends.jetstream.messages import Stored
from aviso_server.backends.jetstream.options import CannotStart, JetStreamOptions
from aviso_server.backends.jetstream.publish import Publisher
from aviso_server.backends.jetstream.stores import Stores
from aviso_server.backends.jetstream.streams import Streams
from aviso_server.backends.jetstream.tail import Tail
from aviso_server.core.errors import HistoryFailed, SetupFailed
from aviso_server.core.filter import Filter
from aviso_server.core.notification import Entry, Notification
from aviso_server.core.schema import Catalogue, Schema
from aviso_server.core.topic import possible_subjects

REMEDIES = {
    10074: "set notification_backend.jetstream.replicas to 1, or nats_url to a cluster",
    10047: "streams with max_bytes or storage_policy.max_size reserve it; lower them, or raise the "
    "limit of NATS (notification_backend.jetstream.max_store when it is embedded)",
    10028: "streams in memory with max_bytes or storage_policy.max_size reserve it; lower them, or "
    "raise the limit of NATS",
}
"""What to do about refusals that waiting does not cure, by NATS's number of the error."""


class JetStreamBackend:
    """Keeps every event type as a JetStream stream."""

    kind = "jetstream"

    def __init__(
        self,
        connection: Connection,
        options: JetStreamOptions,
        catalogue: Catalogue,
        *,
        embedded: EmbeddedServer | None = None,
        marks: MarkReader | None = None,
    ) -> None:
        self._connection = connection
        self._options = options
        self._catalogue = catalogue
        self._embedded = embedded
        self._streams = Streams(connection, options.streams, marks=marks)
        store = options.store if embedded is None else embedded.store
        stores = Stores(
            connection, store, write_fault=lambda: None if embedded is None else embedded.fault
        )
        self._publisher = Publisher(connection, self._streams, options, stores=stores)
        self._condition = Condition(
            connection,
            self._streams,
            stores,
            schemas=self._schemas,
            store=store,
            pace=options.pace,
        )
        self._looking: asyncio.Task[None] | None = None
        self._reader = Reader(connection, patience_s=options.pace.request_s)
        self._densities = Densities()
        self._owners = {item.stream: item.event_type for item in catalogue.schemas.values()}

    @classmethod
    async def open(
        cls, options: JetStreamOptions, catalogue: Catalogue, *, marks: MarkReader | None = None
    ) -> Self:
        """Connect, and create or check the streams of all configured event types.

        What only the operator can fix is CannotStart. Whatever may pass, such as a cluster without
        a quorum, is checked again until it has passed; until then the backend has a fault. With a
        lake, ``marks`` say how far it has each event type.
        """
        structlog.get_logger().info(
            "JetStream backend",
            event_name="backend.jetstream.initialization.started",
            url=options.url,
        )
        embedded = None
        if options.embedded is not None:
            embedded = await EmbeddedServer.start(options.embedded)
            options = replace(options, servers=(embedded.url,), token=embedded.token)
        try:
            connection = await Connection.open(options)
            backend = cls(connection, options, catalogue, embedded=embedded, marks=marks)
            try:
                await backend._check_existing()
                with suppress(TimeoutError):
                    async with asyncio.timeout(options.pace.first_check_s):
                        await backend._condition.look()
                backend._check_streams()
            except BaseException:
                await connection.close()
                raise
        except BaseException:
            if embedded is not None:
                await embedded.stop()
            raise
        backend._looking = asyncio.create_task(backend._condition.run(), name="condition of NATS")
        return backend

    @property
    def connected(self) -> bool:
        return self._connection.connected

    @property
    def fault(self) -> Fault | None:
        return self._condition.fault

    @property
    def usage(self) -> Usage | None:
        """How full the store is, as of the last look."""
        return self._condition.usage

    @property
    def reconnects(self) -> int:
        """How often the connection was restored."""
        return self._connection.reconnects

    async def append(self, notification: Notification, *, key: str) -> Receipt:
        return await self._publisher.publish(
            self._schema(notification.event_type), notification, key
        )

    async def append_many(self, items: Sequence[tuple[Notification, str]]) -> list[Outcome]:
        places: dict[str, list[int]] = {}
        for place, (notification, _) in enumerate(items):
            places.setdefault(notification.event_type, []).append(place)
        found = await asyncio.gather(
            *(
                self._publisher.publish_many(self._schema(name), [items[n] for n in numbers])
                for name, numbers in places.items()
            )
        )
        order = [n for numbers in places.values() for n in numbers]
        outcomes = dict(zip(order, chain.from_iterable(found), strict=True))
        return [outcomes[place] for place in range(len(items))]

    async def append_together(
        self, items: Sequence[tuple[Notification, str]]
    ) -> Sequence[Receipt | None]:
        if len(items) == 1:
            return [await self.append(items[0][0], key=items[0][1])]
        schema = self._schema(items[0][0].event_type)
        return await self._publisher.publish_together(schema, items)

    @property
    def batches(self) -> Batches:
        """What became of the batches of this process."""
        return self._publisher.batches

    async def bounds(self, event_type: str) -> Bounds:
        """The bounds of a stream, which is made if it does not exist yet."""
        try:
            return (await self._streams.state(self._schema(event_type))).bounds
        except (Unavailable, Refused) as error:
            raise SetupFailed(
                "Failed to ensure stream exists for topic subscription", details=str(error)
            ) from error

    async def read(
        self, event_type: str, first: int, last: int, *, limit: int, wanted: Filter | None = None
    ) -> Batch:
        schema = self._schema(event_type)
        try:
            return await self._read(schema, first, last, limit, wanted or EVERYTHING)
        except (Unavailable, Refused, SetupFailed) as error:
            raise HistoryFailed("Failed to read history", details=str(error)) from error

    async def _read(
        self, schema: Schema, first: int, last: int, limit: int, wanted: Filter
    ) -> Batch:
        """A piece of the log; of what the filter cannot match, as little as possible."""
        first = max(first, 1)
        layout = await self._streams.known_layout(schema)
        read_by = layout.read_by(schema)
        subjects = self._subjects(schema.base, layout, first, last, wanted)
        messages, following = await self._page(schema, first, last, limit, subjects)
        # Queried after the read, so that what was removed meanwhile is known.
        looking = asyncio.create_task(self._streams.state(schema))
        try:
            entries = await decode_in_turns(read_by, messages, wanted)
            bounds = (await looking).bounds
        finally:
            await tasks.end(looking)
        return Batch(entries, following, bounds, passed=len(messages) - len(entries))

    def _subjects(
        self, base: str, layout: Layout, first: int, last: int, wanted: Filter
    ) -> tuple[str, str] | None:
        """By which subjects a filter is best read; None if everything is."""
        if not (self._reader.by_subject and layout.covers(first, last)):
            return None
        subjects = possible_subjects(base, wanted, layout.fields)
        return subjects if subjects is not None and self._densities.pays(subjects) else None

    async def _page(
        self, schema: Schema, first: int, last: int, limit: int, subjects: Sequence[str] | None
    ) -> tuple[Sequence[Stored], int]:
        # The reader is in the middle of a stream: it waits for a lost connection as long as a
        # tail does. Setting a stream up makes other requests, which fail at once.
        await self._connection.until_connected(self._options.pace.outage_s)
        reader = self._reader
        if subjects is None:
            return await reader.read(schema.stream, first, last, limit=limit)
        found, following = await reader.read_any(
            schema.stream, first, last, limit=limit, subjects=subjects
        )
        self._densities.note(subjects, found=len(found), span=following - first)
        return found, following

    async def first_since(self, event_type: str, ns: int) -> int:
        schema = self._schema(event_type)
        try:
            held = await self._streams.state(schema)
            return await self._reader.since(schema.stream, held, ns)
        except (Unavailable, Refused, SetupFailed) as error:
            raise HistoryFailed("Failed to read history", details=str(error)) from error

    async def last_until(self, event_type: str, ns: int) -> int:
        schema = self._schema(event_type)
        try:
            held = await self._streams.state(schema)
            return await self._reader.until(schema.stream, held, ns)
        except (Unavailable, Refused, SetupFailed) as error:
            raise HistoryFailed("Failed to read history", details=str(error)) from error

    async def tail(self, event_type: str, after: int) -> AsyncGenerator[Sequence[Entry], None]:
        tail = Tail(
            self._connection,
            self._streams,
            self._schema(event_type),
            after,
            self._options.pace,
        )
        async with aclosing(tail.entries()) as batches:
            async for entries in batches:
                yield entries

    async def event_types(self) -> Sequence[str]:
        """Every event type that has a stream: those configured, and those marked as ours."""
        found = set()
        async for config in self._streams.configurations():
            name, shown = str(config.get("name")), str(config.get("description") or "")
            if owner := self._owners.get(name):
                found.add(owner)
            elif shown.startswith(OURS):
                found.add(shown.removeprefix(OURS))
        return sorted(found)

    async def delete(self, event_type: str, sequence: int) -> bool:
        return await self._streams.delete(self._schema(event_type), sequence)

    async def wipe(self, event_type: str) -> int:
        return await self._streams.wipe(self._schema(event_type))

    def adopt(self, catalogue: Catalogue) -> None:
        """Use another catalogue from now on; streams of those in both must be the same."""
        self._catalogue = catalogue
        self._owners = {item.stream: item.event_type for item in catalogue.schemas.values()}

    async def close(self) -> None:
        """Flush, disconnect, and end the server if it is ours."""
        if self._looking is not None:
            await tasks.end(self._looking)
        await self._publisher.close()
        await self._connection.close()
        if self._embedded is not None:
            await self._embedded.stop()

    def _schemas(self) -> Collection[Schema]:
        return self._catalogue.schemas.values()

    def _schema(self, event_type: str) -> Schema:
        """The schema; strictness was the caller's to decide, and streams outlive configurations."""
        configured = self._catalogue.schemas.get(event_type)
        return configured or Schema(event_type=event_type, base=event_type, generic=True)

    async def _check_existing(self) -> None:
        """Storage types must agree before anything is served."""
        try:
            async for config in self._streams.configurations():
                if (name := str(config.get("name"))) in self._owners:
                    check_storage(name, config, self._options.streams.storage_type)
        except Unavailable:
            return  # the streams are checked one by one next, which shows which does not answer
        except (Refused, SetupFailed) as error:
            raise CannotStart(str(error)) from error

    def _check_streams(self) -> None:
        """CannotStart for streams that can never be as configured."""
        for schema, error in self._condition.refusals():
            remedy = REMEDIES.get(error.code) if isinstance(error, Refused) else None
            if remedy is not None:
                refused = f"NATS refuses the stream of event type '{schema.event_type}': {error}"
                raise CannotStart(f"{refused}; {remedy}")


_: type[Backend] = JetStreamBackend
