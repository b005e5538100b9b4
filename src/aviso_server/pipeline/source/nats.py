"""The nats transport: ranges of sequences straight from JetStream.

Nothing is created or changed in NATS. The schema that names a stream's topic tokens is the one
declared by the reader, else the one the server left in the stream's metadata, else none.

A hole in what was read is a loss only if retention made it; the stream's own account of that is
queried after the read, so that what is removed meanwhile is noticed too. A range without holes
needs no such query.
"""

import asyncio
import base64
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from aviso_server.backends.backend import Bounds
from aviso_server.backends.jetstream.configuration import (
    OURS,
    Config,
    StreamState,
    declared_text,
)
from aviso_server.backends.jetstream.connection import Connection, Refused, Unavailable
from aviso_server.backends.jetstream.history import MAX_BATCH, Reader
from aviso_server.backends.jetstream.messages import IDENTIFIER, POINT_CLOUD, Stored, decode
from aviso_server.backends.jetstream.options import (
    CannotStart,
    JetStreamOptions,
    StreamDefaults,
    Tls,
)
from aviso_server.backends.jetstream.streams import Streams, inspect_stream
from aviso_server.core.declaration import read_declaration
from aviso_server.core.errors import AvisoError
from aviso_server.core.filter import Filter
from aviso_server.core.json import Json, compact, parse
from aviso_server.core.notification import Entry, Record, Unreadable
from aviso_server.core.schema import Schema
from aviso_server.lake.record import storable
from aviso_server.pipeline.source.failure import BadOption, Unreached
from aviso_server.pipeline.source.log import LogBatch, SourceLog
from aviso_server.pipeline.source.options import Access, SourceOptions, login_of
from aviso_server.pipeline.source.ranges import Range

ATTEMPTS = 5
"""How often a page is asked for before the task fails; Spark may then run it again."""


@asynccontextmanager
async def open_nats(options: SourceOptions) -> AsyncIterator["NatsLog"]:
    """Connect, or Unreached."""
    try:
        connection = await Connection.open(jetstream_options(options.access))
    except CannotStart as error:
        raise Unreached(str(error)) from None
    try:
        yield NatsLog(connection, options)
    except (Unavailable, Refused) as error:
        raise Unreached(f"reading from NATS failed: {error}") from error
    finally:
        await connection.close()


class NatsLog:
    """The streams of one NATS account."""

    topics = True

    def __init__(self, connection: Connection, options: SourceOptions) -> None:
        self._connection = connection
        self._outage_s = jetstream_options(options.access).pace.outage_s
        self._reader = Reader(connection)
        self._options = options
        self._schemas = dict(options.schemas)
        self._owners: dict[str, str] | None = None
        """Event types by stream, once they were asked for."""
        self._listed = asyncio.Lock()
        self._mute: set[str] = set()
        """Our streams without a stored schema: an older server made them."""

    async def event_types(self) -> Sequence[str]:
        """Every event type that has a stream which is ours or declared."""
        return sorted((await self._listing()).values())

    async def schema(self, event_type: str) -> Schema:
        """Declared by the reader, by the stream, or generic."""
        if (known := self._schemas.get(event_type)) is not None:
            return known
        owners = await self._listing()
        generic = Schema(event_type=event_type, base=event_type, generic=True)
        if (owner := owners.get(generic.stream, event_type)) != event_type:
            raise BadOption(f"there is no event type '{event_type}'; its stream is of '{owner}'")
        if generic.stream in self._mute:
            raise Unreached(
                f"stream '{generic.stream}' does not have its schema: let aviso-server use it once "
                "(a request for its event type is enough), or declare it with the option schemas"
            )
        return self._schemas.get(event_type, generic)

    async def bounds(self, event_type: str) -> Bounds:
        """Where the stream begins and ends, as its leader knows it."""
        found = await inspect_stream(self._connection, (await self.schema(event_type)).stream)
        return Bounds(1, 0) if found is None else found[1].bounds

    async def since(self, event_type: str, ns: int) -> int:
        """The first sequence stored at or after a time."""
        stream = (await self.schema(event_type)).stream
        found = await inspect_stream(self._connection, stream)
        return 1 if found is None else await self._reader.since(stream, found[1], ns)

    async def until(self, event_type: str, ns: int) -> int:
        """The last sequence stored at or before a time."""
        stream = (await self.schema(event_type)).stream
        found = await inspect_stream(self._connection, stream)
        return 0 if found is None else await self._reader.until(stream, found[1], ns)

    async def read(self, wanted: Range) -> AsyncGenerator[LogBatch, None]:
        """The range, page by page."""
        schema = await self.schema(wanted.event_type)
        asked = self._options.filter_on(schema)
        held = await self._readable(schema)
        read_by = held.layout.read_by(schema)
        position = wanted.first
        while position <= wanted.last:
            messages, following = await self._page(schema.stream, position, wanted.last)
            lost = await self._lost(schema.stream, position, messages, following)
            yield _part(read_by, asked, messages, following, lost)
            position = following

    async def _page(self, stream: str, first: int, last: int) -> tuple[Sequence[Stored], int]:
        """A page; a connection that is lost meanwhile is waited for."""
        attempt = 1
        while True:
            try:
                await self._connection.until_connected(self._outage_s)
                return await self._reader.read(stream, first, last, limit=MAX_BATCH)
            except Unavailable:
                if attempt == ATTEMPTS or self._connection.ended:
                    raise
                attempt += 1

    async def _lost(
        self, stream: str, first: int, messages: Sequence[Stored], following: int
    ) -> list[tuple[int, int]]:
        """The parts of ``first..following`` that retention removed."""
        if len(messages) == following - first:
            return []
        held = (await self._state_of(stream)).bounds.lost
        holes = gaps(first, [message.sequence for message in messages], following)
        return [(begin, min(end, held)) for begin, end in holes if begin <= held]

    async def _state_of(self, stream: str) -> StreamState:
        found = await inspect_stream(self._connection, stream)
        if found is None:
            raise Unreached(f"there is no stream '{stream}' any more")
        return found[1]

    async def _readable(self, schema: Schema) -> StreamState:
        """What a stream holds; Unreached if it cannot be read."""
        found = await inspect_stream(self._connection, schema.stream)
        if found is None:
            raise Unreached(f"there is no stream for '{schema.event_type}' any more")
        if not found[0].get("allow_direct"):
            raise Unreached(
                f"stream '{schema.stream}' does not allow direct reads: let aviso-server use it "
                f"once, or run: nats stream edit {schema.stream} --allow-direct"
            )
        return found[1]

    async def _listing(self) -> Mapping[str, str]:
        """The event type of every stream of ours; also reads their schemas."""
        async with self._listed:
            if self._owners is None:
                owners: dict[str, str] = {}
                declared_here = {item.stream: item.event_type for item in self._schemas.values()}
                streams = Streams(self._connection, StreamDefaults())
                async for config in streams.configurations():
                    name = str(config.get("name"))
                    if owner := declared_here.get(name) or self._owner(name, config):
                        owners[name] = owner
                self._owners = owners
            return self._owners

    def _owner(self, name: str, config: Config) -> str | None:
        """Whose stream it is, by its own account."""
        shown = str(config.get("description") or "")
        text = declared_text(config)
        if text is None and not shown.startswith(OURS):
            return None
        if text is None:
            # A stream takes the bare base only if its topics do not name the fields.
            subjects = config.get("subjects")
            if isinstance(subjects, list) and all(str(item).endswith(".>") for item in subjects):
                self._mute.add(name)
            return shown.removeprefix(OURS)
        try:
            schema = read_declaration(parse(text.encode()))
        except AvisoError as error:
            raise Unreached(
                f"the schema in the metadata of stream '{name}' cannot be used: "
                f"{error.message}. Declare it with the option schemas"
            ) from None
        self._schemas.setdefault(schema.event_type, schema)
        return schema.event_type


def gaps(first: int, sequences: Sequence[int], following: int) -> list[tuple[int, int]]:
    """What is missing of ``first`` up to below ``following``, both ends included."""
    found, position = [], first
    for sequence in (*sequences, following):
        if sequence > position:
            found.append((position, sequence - 1))
        position = sequence + 1
    return found


def _part(
    schema: Schema,
    asked: Filter | None,
    messages: Sequence[Stored],
    following: int,
    lost: Sequence[tuple[int, int]],
) -> LogBatch:
    entries: list[Entry] = []
    raw: dict[int, bytes] = {}
    for message in messages:
        entry = decode(schema, message)
        if schema.generic and isinstance(entry, Record):
            entry = _owned(entry, schema.event_type)
        if not message.body.isascii() or IDENTIFIER in message.headers:
            entry = storable(entry)  # nothing else can hold what is not Unicode
        if isinstance(entry, Unreadable):
            raw[message.sequence] = _as_json(message)
        entries.append(entry)
    kept = entries if asked is None else asked.select(entries)
    size = sum(len(item.body) + len(item.headers.get(POINT_CLOUD, "")) for item in messages)
    return LogBatch(kept, following, lost, raw, size)


def _owned(record: Record, event_type: str) -> Record:
    """The record as one of the stream's event type, whatever a stranger wrote into it."""
    if record.notification.event_type == event_type:
        return record
    return replace(record, notification=replace(record.notification, event_type=event_type))


def _as_json(message: Stored) -> bytes:
    """A stored message unchanged, to find out what is wrong with it."""
    headers: Mapping[str, Json] = dict(message.headers)
    return compact(
        {
            "body": base64.b64encode(message.body).decode(),
            "headers": dict(headers),
            "subject": message.subject,
        }
    )


def jetstream_options(access: Access) -> JetStreamOptions:
    """How NATS is reached; an address file is read each time."""
    servers, token = access.addresses, access.token
    if access.address_file is not None:
        try:
            text = Path(access.address_file).read_text()
        except OSError as error:
            raise Unreached(f"addressFile cannot be read: {error.strerror}") from None
        address, found = login_of(text)
        servers, token = (address,), token or found
    return JetStreamOptions(
        servers=servers,
        token=token,
        username=access.username,
        password=access.password,
        credentials_file=access.credentials_file,
        tls=Tls(access.tls_ca_file, access.tls_cert_file, access.tls_key_file),
        timeout_s=10.0,
        retry_attempts=6,
        reconnect_delay_s=0.5,
    )


_: type[SourceLog] = NatsLog
