"""Reconciling a log with the lake, so that both continue as one history.

Theory of operation, for an event type whose log and lake contradict each other
1. What is only in the log is saved to a file (examine.py, saved.py). The rest is in the lake.
2. The log drops exactly what was compared, and its counter moves above every sequence that either
   of them assigned. From here on the server accepts notifications again.
3. What was saved is stored again, in order, under new sequences. Each copy carries its own id, so
   that no copy is made twice.

Nothing is removed that is not in the lake or in a complete file. After a kill at any point the same
command resumes: before 2 it starts again, after it the file says what is left to do.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aviso_server.backends.jetstream.client import header_lines
from aviso_server.backends.jetstream.configuration import Config, StreamState, trims, with_wipe
from aviso_server.backends.jetstream.connection import Connection, Refused, Unavailable, read_answer
from aviso_server.backends.jetstream.history import MAX_BATCH, Reader
from aviso_server.backends.jetstream.messages import MESSAGE_ID
from aviso_server.backends.jetstream.options import CannotStart
from aviso_server.backends.jetstream.streams import inspect_stream
from aviso_server.core.errors import AvisoError
from aviso_server.core.schema import Schema
from aviso_server.lake.layout import Place
from aviso_server.lake.snapshot import Snapshot, look
from aviso_server.pipeline.recover.examine import Stand, Step, only_in_log, stand_of
from aviso_server.pipeline.recover.saved import (
    DONE,
    SUPERSEDED,
    Line,
    Saving,
    read_saved,
    set_aside,
)
from aviso_server.pipeline.source.bridge import hush
from aviso_server.pipeline.source.nats import NatsLog, jetstream_options
from aviso_server.pipeline.source.options import read_options

ANSWER_S = 10.0


class RecoverFailed(AvisoError):
    """It cannot be done; the message says why, and nothing is lost."""


@dataclass(frozen=True, slots=True)
class RecoverOptions:
    """Which log and lake, and where to save what is only in the log."""

    place: Place
    source: Mapping[str, str] = field(repr=False)
    """Options of the source that say where NATS is; may hold secrets."""
    event_types: tuple[str, ...] = ()
    """Empty is all that the lake has."""
    folder: Path = Path("recovered")
    apply: bool = False
    """Without it nothing is changed: it is only looked."""


@dataclass(frozen=True, slots=True)
class RecoverOutcome:
    """What was found of an event type, and done."""

    stand: Stand
    only_here: int = 0
    """Messages that the log has and the lake has not."""
    file: Path | None = None
    """Where they are saved."""
    restored: int = 0
    """How many were stored again."""
    pending: int = 0
    """Messages of an earlier run that are still to be stored again."""
    changed: bool = False
    """Whether a contradiction was settled just now."""

    @property
    def settled(self) -> bool:
        """Whether there is nothing left to do."""
        return self.stand.why is None and not self.pending


async def recover(options: RecoverOptions, *, step: Step = lambda _: None) -> list[RecoverOutcome]:
    """Check every event type, and reconcile it if asked to."""
    view = look(options.place)
    try:
        async with _connect(options) as (connection, log):
            return [
                await _Settling(options, connection, view, await log.schema(name)).run(log, step)
                for name in await _names(options, view, log)
            ]
    except (Unavailable, Refused) as error:
        raise RecoverFailed(f"NATS failed: {error}. Run the command again") from error


async def _names(options: RecoverOptions, view: Snapshot, log: NatsLog) -> Sequence[str]:
    known = {*view.index.event_types, *await log.event_types()}
    unknown = sorted(set(options.event_types) - known)
    if unknown:
        raise RecoverFailed(
            f"there is no event type '{unknown[0]}' in log or lake; there are: "
            + ", ".join(sorted(known))
        )
    return options.event_types or sorted(known)


@asynccontextmanager
async def _connect(options: RecoverOptions) -> AsyncIterator[tuple[Connection, NatsLog]]:
    hush()
    asked = read_options({**options.source, "eventType": "*"})
    try:
        connection = await Connection.open(jetstream_options(asked.access))
    except CannotStart as error:
        raise RecoverFailed(f"{error}. Is the server running?") from None
    try:
        yield connection, NatsLog(connection, asked)
    finally:
        await connection.close()


class _Settling:
    """One event type."""

    def __init__(
        self, options: RecoverOptions, connection: Connection, view: Snapshot, schema: Schema
    ) -> None:
        self._options = options
        self._connection = connection
        self._schema = schema
        self._shelf = view.of(schema.event_type)

    async def run(self, log: NatsLog, step: Step) -> RecoverOutcome:
        """Look, and settle what can be."""
        stand = await stand_of(self._connection, log, self._schema, self._shelf.mark)
        files = sorted(self._options.folder.glob(f"{self._schema.stream}-*.ndjson"))
        if stand.why is not None:
            return await self._settle(stand, files, step)
        pending = sum(1 for path in files for _ in read_saved(path))
        if not self._options.apply or not files:
            return RecoverOutcome(stand, pending=pending)
        if stand.empty and stand.last < stand.mark.through:
            await self._move(stand)
        return RecoverOutcome(stand, restored=sum([await self._restore(path) for path in files]))

    async def _settle(self, stand: Stand, files: Sequence[Path], step: Step) -> RecoverOutcome:
        found = only_in_log(self._connection, self._options.place, self._shelf, stand, step=step)
        if not self._options.apply:
            return RecoverOutcome(stand, only_here=sum([1 async for _ in found]))
        name = f"{self._schema.stream}-{stand.mark.through}-{stand.last}.ndjson"
        saving = Saving(self._options.folder / name)
        async for message in found:
            saving.add(self._schema.event_type, message)
        saving.keep()
        # An interrupted run saved less of this same log: all of it is in the new file.
        for path in files:
            if path != saving.path:
                set_aside(path, SUPERSEDED)
        await self._let_go(stand)
        await self._move(stand)
        after = Stand(stand.schema, stand.mark, stand.continues, stand.continues - 1, None)
        if not saving.count:
            return RecoverOutcome(after, changed=True)
        restored = await self._restore(saving.path)
        done = saving.path.with_name(saving.path.name + DONE)
        return RecoverOutcome(
            after, only_here=saving.count, file=done, restored=restored, changed=True
        )

    async def _let_go(self, stand: Stand) -> None:
        """Empty the log of what was compared, and of nothing else."""
        config, held = await self._inspect()
        if trims(config):
            # Moved, not lost: readers and the archive must not take it for a gap.
            noted = with_wipe(config, through=stand.continues - 1, lost=held.bounds.lost)
            await self._connection.call(f"STREAM.UPDATE.{self._schema.stream}", noted)
        await self._purge(below=stand.last + 1)
        _, held = await self._inspect()
        if held.last != stand.last:
            raise RecoverFailed(
                f"something else stores '{self._schema.event_type}' meanwhile: stop every server "
                "that does not know the lake, and run the command again"
            )

    async def _move(self, stand: Stand) -> None:
        """Let an empty log continue above every sequence assigned."""
        if stand.continues > stand.last + 1:
            await self._purge(below=stand.continues)

    async def _purge(self, *, below: int) -> None:
        await self._connection.call(f"STREAM.PURGE.{self._schema.stream}", {"seq": below})

    async def _restore(self, path: Path) -> int:
        """Store again what is in a file and not yet in the log; how many that were."""
        lines = list(read_saved(path))
        there = await self._message_ids()
        missing = [line for line in lines if line.message_id not in there]
        for line in missing:
            await self._store(line)
        set_aside(path, DONE)
        return len(missing)

    async def _store(self, line: Line) -> None:
        answer = await self._connection.request(
            line.subject,
            line.body,
            head=header_lines({**line.headers, MESSAGE_ID: line.message_id}),
            timeout_s=ANSWER_S,
        )
        read_answer(answer.body)

    async def _message_ids(self) -> set[str]:
        """The ids of the messages that the log has now."""
        _, held = await self._inspect()
        reader, found, position = Reader(self._connection), set[str](), held.first
        while position <= held.last:
            messages, position = await reader.read(
                self._schema.stream, position, held.last, limit=MAX_BATCH
            )
            found.update(item.headers.get(MESSAGE_ID, "") for item in messages)
        return found

    async def _inspect(self) -> tuple[Config, StreamState]:
        found = await inspect_stream(self._connection, self._schema.stream)
        if found is None:
            raise RecoverFailed(f"there is no stream '{self._schema.stream}' any more")
        return found


def settled(found: Iterable[RecoverOutcome]) -> bool:
    """Whether nothing is left to do."""
    return all(item.settled for item in found)
