"""The streams in JetStream: created on first use, updated, inspected, emptied."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping

import structlog

from aviso_server.backends.jetstream import configuration, retention
from aviso_server.backends.jetstream.agreement import Agreement, MarkReader
from aviso_server.backends.jetstream.configuration import Config, Layout, StreamState
from aviso_server.backends.jetstream.connection import ATOMIC_BATCHES, Connection, Refused
from aviso_server.backends.jetstream.history import (
    MESSAGE_NOT_FOUND,
    STREAM_NOT_FOUND,
    Reader,
    next_stored,
)
from aviso_server.backends.jetstream.options import StreamDefaults
from aviso_server.core.errors import SetupFailed
from aviso_server.core.json import Json
from aviso_server.core.mark import Mark
from aviso_server.core.moment import time_ns
from aviso_server.core.schema import Schema, stream_conflict

NAME_IN_USE = 10058

RECHECK_S = 2.0
"""How long a stream that cannot be used is refused without another look."""


class Streams:
    """Every stream this process has used."""

    def __init__(
        self,
        connection: Connection,
        defaults: StreamDefaults,
        *,
        marks: MarkReader | None = None,
    ) -> None:
        self._connection = connection
        self._defaults = defaults
        self._agreement = Agreement(connection, marks)
        self._handed_out: dict[str, int] = {}
        """By stream: the highest sequence that this process has seen of it."""
        self._refused: dict[str, tuple[float, SetupFailed]] = {}
        """By stream: until when a refusal counts without another look, and what it says."""
        self._ensured: dict[str, tuple[int, str]] = {}
        """By stream: the connection under which it was ensured, and for which event type."""
        self._layouts: dict[str, Layout] = {}
        """By stream: what was last seen of where the identifier is found."""
        self._batched: set[str] = set()
        """The streams in which messages can be stored together."""
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def ensure(self, schema: Schema) -> None:
        """Make the stream exist as configured: once per connection, not on every call."""
        if self._is_ensured(schema):
            return
        async with self._locks[schema.stream]:
            if self._is_ensured(schema):
                return
            self._raise_refused(schema)
            generation = self._connection.generation
            try:
                await self._ensure(schema)
            except SetupFailed as error:
                self._remember_refused(schema, error)
                raise
            self._refused.pop(schema.stream, None)
            self._ensured[schema.stream] = (generation, schema.event_type)

    def forget(self, schema: Schema) -> None:
        """Ensure again on next use: the stream was found missing."""
        self._ensured.pop(schema.stream, None)

    def takes_batches(self, schema: Schema) -> bool:
        """Whether messages can be stored together there, as far as this connection has seen."""
        ensured = self._ensured.get(schema.stream)
        here = ensured == (self._connection.generation, schema.event_type)
        return here and schema.stream in self._batched

    def refuse_batches(self, schema: Schema) -> None:
        """Someone else has changed the stream: no more batches on this connection."""
        self._batched.discard(schema.stream)

    async def state(self, schema: Schema) -> StreamState:
        """What the stream holds now; it is made if it does not exist yet."""
        await self.ensure(schema)
        try:
            info = await self._info(schema)
        except Refused as error:
            if error.code != STREAM_NOT_FOUND:
                raise
            self.forget(schema)
            await self.ensure(schema)
            info = await self._info(schema)
        held = state_of(info)
        self.note(schema, held.last)
        changed = held.layout.fields != self.layout(schema).fields
        if changed and not held.layout.fits(schema.key_order or ()):
            self.forget(schema)  # another server has noted its own since
        self._layouts[schema.stream] = held.layout
        return held

    def layout(self, schema: Schema) -> Layout:
        """Where the identifier is found in what this process has seen of the stream."""
        return self._layouts.get(schema.stream, Layout())

    async def known_layout(self, schema: Schema) -> Layout:
        """The same; the stream is looked at if this process has not seen it yet."""
        known = self._layouts.get(schema.stream)
        return (await self.state(schema)).layout if known is None else known

    def note(self, schema: Schema, sequence: int) -> None:
        """Remember that a sequence was assigned: a recreated stream continues above it."""
        if sequence > self._handed_out.get(schema.stream, 0):
            self._handed_out[schema.stream] = sequence

    async def configurations(self) -> AsyncIterator[Config]:
        """Every stream of the account."""
        offset = 0
        while True:
            answer = await self._connection.call("STREAM.LIST", {"offset": offset})
            page = answer.get("streams")
            if not isinstance(page, list) or not page:
                return
            for item in page:
                if isinstance(item, dict) and isinstance(config := item.get("config"), dict):
                    yield config
            offset += len(page)
            total = answer.get("total")
            if not isinstance(total, int) or offset >= total:
                return

    async def wipe(self, schema: Schema) -> int:
        """Remove everything stored so far; how many there were, 0 without a stream."""
        try:
            info = await self._info(schema)
            held = state_of(info)
            await self._account(info, through=held.last, lost=held.bounds.lost)
            answer = await self._connection.call(
                f"STREAM.PURGE.{schema.stream}",
                # Exactly what was accounted for: what comes in meanwhile is not touched.
                {"seq": held.last + 1},
            )
        except Refused as error:
            if error.code == STREAM_NOT_FOUND:
                return 0
            raise
        purged = answer.get("purged")
        return purged if isinstance(purged, int) else 0

    async def delete(self, schema: Schema, sequence: int) -> bool:
        """Remove one message; False when it is not there."""
        try:
            info = await self._info(schema)
            held = state_of(info)
            if sequence == held.first and configuration.trims(_config(info)):
                following = await next_stored(self._connection, schema.stream, sequence + 1)
                through = (held.last if following is None else following - 1) or sequence
                await self._account(info, through=through, lost=held.bounds.lost)
            await self._connection.call(
                f"STREAM.MSG.DELETE.{schema.stream}", {"seq": sequence, "no_erase": True}
            )
        except Refused as error:
            if error.code in MESSAGE_NOT_FOUND or error.code == STREAM_NOT_FOUND:
                return False
            raise
        return True

    def _remember_refused(self, schema: Schema, error: SetupFailed) -> None:
        now = asyncio.get_running_loop().time()
        # Clients invent names: only what is still valid is kept.
        fresh = {name: item for name, item in self._refused.items() if item[0] > now}
        self._refused = {**fresh, schema.stream: (now + RECHECK_S, error)}

    def _raise_refused(self, schema: Schema) -> None:
        """Repeat a refusal that is seconds old: comparing log and lake each time costs both."""
        until, error = self._refused.get(schema.stream, (0.0, None))
        if error is not None and asyncio.get_running_loop().time() < until:
            raise type(error)(error.message, details=error.details)

    def _is_ensured(self, schema: Schema) -> bool:
        generation, owner = self._ensured.get(schema.stream, (-1, schema.event_type))
        if generation != self._connection.generation:
            return False
        if owner != schema.event_type:
            raise stream_conflict(schema.event_type)
        return True

    async def _ensure(self, schema: Schema) -> None:
        mark = await self._agreement.mark(schema.event_type)
        batches = self._connection.version >= ATOMIC_BATCHES
        wanted = configuration.desired(schema, self._defaults, batches=batches)
        journal = structlog.get_logger().bind(stream_name=schema.stream)
        if configuration.declared_text(wanted) is None:
            journal.warning(
                "Schema is too large to travel with its stream; Spark readers must be given it",
                event_name="backend.jetstream.stream.schema.too_large",
            )
        try:
            info = await self._info(schema)
        except Refused as error:
            if error.code != STREAM_NOT_FOUND:
                journal.warning(
                    "Stream lookup failed, trying to create it",
                    event_name="backend.jetstream.stream.lookup.failed_fallback_create",
                    error=str(error),
                )
            # A sequence is assigned once: a new stream continues above those that were.
            through = max(mark.through, self._handed_out.get(schema.stream, 0))
            if await self._create(schema, {**wanted, **configuration.beginning(through)}):
                return
            info = await self._info(schema)
        configuration.check_usable(schema, _config(info), wanted)
        await self._agree(schema, state_of(info), mark)
        await self._reconcile(schema, info, configuration.with_topic(wanted, info))

    async def _agree(self, schema: Schema, held: StreamState, mark: Mark) -> None:
        """Let an empty stream continue above the mark; refuse one that contradicts it."""
        await self._agreement.check(schema, held, mark)
        if held.last >= mark.through:
            return
        # Empty, so nothing is removed by this: it only moves the counter. Changing ``first_seq``
        # instead would not do so now, and makes nats-server 2.15 drop messages when it restarts.
        answer = await self._connection.call(
            f"STREAM.PURGE.{schema.stream}", {"seq": mark.through + 1}
        )
        structlog.get_logger().warning(
            "Stream is empty and continues where the lake ends",
            event_name="backend.jetstream.stream.lake.continued",
            stream_name=schema.stream,
            next_sequence=mark.through + 1,
            removed=answer.get("purged"),
        )

    async def _create(self, schema: Schema, wanted: Config) -> bool:
        """Create a stream; False if a peer was faster, with other settings."""
        journal = structlog.get_logger().bind(stream_name=schema.stream)
        journal.info(
            "Creating stream",
            event_name="backend.jetstream.stream.create.started",
            **{name: wanted.get(key) for name, key in configuration.COMPARED.items()},
        )
        try:
            made = await self._connection.call(f"STREAM.CREATE.{schema.stream}", dict(wanted))
        except Refused as error:
            if error.code == NAME_IN_USE:
                journal.info(
                    "Stream created by a peer",
                    event_name="backend.jetstream.stream.create.race_won_by_peer",
                )
                return False
            journal.warning(
                "Stream creation failed",
                event_name="backend.jetstream.stream.create.failed",
                error=str(error),
            )
            raise
        journal.info("Stream created", event_name="backend.jetstream.stream.create.succeeded")
        self._note_batches(schema, _config(made))
        return True

    async def _reconcile(self, schema: Schema, info: dict[str, Json], wanted: Config) -> None:
        existing = _config(info)
        self._note_batches(schema, existing)
        journal = structlog.get_logger().bind(stream_name=schema.stream)
        fields = configuration.drift(existing, wanted)
        fields = await self._consented(schema, info, wanted, fields)
        if not fields:
            journal.debug(
                "Stream is as configured", event_name="backend.jetstream.stream.reconcile.noop"
            )
            return
        journal = journal.bind(
            changed_fields=fields, changes=retention.old_and_new(existing, wanted, fields)
        )
        journal.info(
            "Stream differs from its configuration",
            event_name="backend.jetstream.stream.reconcile.started",
        )
        try:
            answer = await self._update(
                schema, configuration.with_changes(existing, wanted, fields)
            )
        except Refused as error:
            # The unchanged stream still takes notifications: refusing them would be worse.
            journal.warning(
                "Stream could not be updated",
                event_name="backend.jetstream.stream.reconcile.failed",
                error=str(error),
            )
            return
        self._note_batches(schema, _config(answer))
        journal.info("Stream updated", event_name="backend.jetstream.stream.reconcile.succeeded")

    async def _update(self, schema: Schema, wanted: dict[str, Json]) -> dict[str, Json]:
        """Change a stream; without batches if it cannot have them, as one of another make."""
        api = f"STREAM.UPDATE.{schema.stream}"
        try:
            return await self._connection.call(api, wanted)
        except Refused:
            if "allow_atomic" not in wanted:
                raise
            return await self._connection.call(api, {**wanted, "allow_atomic": False})

    def _note_batches(self, schema: Schema, config: Config) -> None:
        if configuration.takes_batches(config):
            self._batched.add(schema.stream)
        else:
            self._batched.discard(schema.stream)

    async def _consented(
        self, schema: Schema, info: dict[str, Json], wanted: Config, fields: list[str]
    ) -> list[str]:
        """The changes that may be made: limits that would remove too much need consent.

        The stream then keeps its old limits, and with them everything it holds.
        """
        existing = _config(info)
        tighter = retention.tighter_limits(existing, wanted, fields)
        if not tighter:
            return fields
        removal = await self._removal(schema, info, wanted)
        if not removal.removed:
            return fields
        allowed = self._defaults.allow_removal
        consented = schema.event_type in allowed or retention.ANY in allowed
        apply = consented or not removal.drastic
        text = (
            f"New limits of '{schema.event_type}' remove {removal.removed} of {removal.stored} "
            "notifications"
        )
        journal = structlog.get_logger().bind(
            stream_name=schema.stream,
            event_type=schema.event_type,
            stored=removal.stored,
            removed=removal.removed,
            changes=retention.old_and_new(existing, wanted, tighter),
        )
        if apply:
            journal.warning(text, event_name="backend.jetstream.stream.retention.removes")
            return fields
        journal.error(
            f"{text}, more than they keep. The old limits stay. To apply the new ones, add the "
            "event type to notification_backend.jetstream.allow_removal",
            event_name="backend.jetstream.stream.retention.refused",
        )
        return [name for name in fields if name not in tighter]

    async def _removal(
        self, schema: Schema, info: dict[str, Json], wanted: Config
    ) -> retention.Removal:
        """What the wanted limits would take away now."""
        held, counts = state_of(info), info.get("state")
        counts = counts if isinstance(counts, dict) else {}
        young, age = held.first, wanted.get("max_age")
        if isinstance(age, int) and age > 0:
            oldest = time.time_ns() - age
            young = await Reader(self._connection).since(schema.stream, held, oldest)
        contents = retention.Contents(
            held.first,
            held.last,
            messages=_count(counts, "messages"),
            size=_count(counts, "bytes"),
            subjects=_count(counts, "num_subjects"),
            archived=(await self._agreement.mark(schema.event_type)).through,
        )
        return contents.removal(wanted, young=young)

    async def _account(self, info: dict[str, Json], *, through: int, lost: int) -> None:
        """Note in the stream itself that what is removed next is not lost; seen cluster-wide."""
        existing = _config(info)
        if configuration.trims(existing):
            await self._connection.call(
                f"STREAM.UPDATE.{existing['name']}",
                configuration.with_wipe(existing, through=through, lost=lost),
            )

    async def _info(self, schema: Schema) -> dict[str, Json]:
        return await self._connection.call(f"STREAM.INFO.{schema.stream}")


async def inspect_stream(connection: Connection, stream: str) -> tuple[Config, StreamState] | None:
    """An existing stream, for those who only read: neither created nor changed. None without."""
    try:
        info = await connection.call(f"STREAM.INFO.{stream}")
    except Refused as error:
        if error.code == STREAM_NOT_FOUND:
            return None
        raise
    return _config(info), state_of(info)


def _count(state: Mapping[str, Json], name: str) -> int:
    value = state.get(name)
    return value if isinstance(value, int) else 0


def _config(info: dict[str, Json]) -> dict[str, Json]:
    config = info.get("config")
    return config if isinstance(config, dict) else {}


def state_of(info: dict[str, Json]) -> StreamState:
    """What a stream holds, from an answer of the server."""
    state = info.get("state")
    at = state.get("last_ts") if isinstance(state, dict) else None
    # Go's zero time, year 1, means a stream that never had anything.
    never = not isinstance(at, str) or at.startswith("0001-")
    return StreamState.of(info, 0 if never else time_ns(str(at)))
