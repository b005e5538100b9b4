"""Where a read begins and ends: options and bounds of the streams turned into offsets and ranges.

These are the questions the readers ask on the driver, each answered over an open log.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pyspark.sql.datasource import InputPartition

from aviso_server.backends.backend import Bounds
from aviso_server.core.declaration import declaration
from aviso_server.core.json import Json
from aviso_server.pipeline.source.failure import StreamReplaced
from aviso_server.pipeline.source.log import SourceLog
from aviso_server.pipeline.source.options import At, Earliest, Latest, Moment, SourceOptions
from aviso_server.pipeline.source.pushdown import Narrowing
from aviso_server.pipeline.source.ranges import FIRST, Offset, Range, gather, split

AT_ONCE = 16
"""Questions that are on their way together: with hundreds of streams, one after the other would be
hundreds of times the way to NATS and back."""

_Answer = TypeVar("_Answer")


SHARE = 5_000
"""Sequences below which a task reads several slices, over one connection: with hundreds of event
types a task for each would mostly connect."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A range; the schema travels with it, so that the task need not ask for it."""

    event_type: str
    first: int
    last: int
    declaration: Json = None

    @property
    def range(self) -> Range:
        """The sequences."""
        return Range(self.event_type, self.first, self.last)


@dataclass(frozen=True)
class Share(InputPartition):
    """What one task reads, in this order."""

    slices: tuple[Slice, ...]


async def event_types(log: SourceLog, options: SourceOptions) -> Sequence[str]:
    """Those that were asked for."""
    return await log.event_types() if options.event_types is None else options.event_types


async def starts(log: SourceLog, options: SourceOptions) -> Offset:
    """The offset at which a new query begins."""
    names = await event_types(log, options)
    return await ask_each(names, lambda name: _start(log, options, name))


async def bounds(log: SourceLog, options: SourceOptions) -> dict[str, Bounds]:
    """Where every stream is now."""
    return await ask_each(await event_types(log, options), log.bounds)


async def ask_each(
    names: Iterable[str], question: Callable[[str], Awaitable[_Answer]]
) -> dict[str, _Answer]:
    """The answers to a question about each event type, over one connection."""
    free = asyncio.Semaphore(AT_ONCE)

    async def answer(name: str) -> tuple[str, _Answer]:
        async with free:
            return name, await question(name)

    return dict(await asyncio.gather(*map(answer, names)))


def check_ahead(start: Mapping[str, int], found: Mapping[str, Bounds]) -> None:
    """Refuse streams that end before the offset: their sequences have begun again."""
    for name, end in found.items():
        if end.last + 1 < start.get(name, FIRST):
            raise StreamReplaced.of(name, start[name], end.last)


async def ranges(log: SourceLog, options: SourceOptions, left: Narrowing) -> list[Range]:
    """What a batch reads, after what the filters of the query leave of it."""
    found = []
    for name in await event_types(log, options):
        if left.event_types is not None and name not in left.event_types:
            continue
        first, last = await _start(log, options, name), await _end(log, options, name)
        if left.since_ns is not None and first <= last:
            first = max(first, await log.since(name, left.since_ns))
        if left.until_ns is not None and first <= last:
            last = min(last, await log.until(name, left.until_ns))
        first = max(first, left.first or first)
        last = last if left.last is None else min(last, left.last)
        found.append(Range(name, first, last))
    return found


async def shares(log: SourceLog, options: SourceOptions, wanted: Sequence[Range]) -> list[Share]:
    """The ranges cut for the tasks; a filter that cannot be used is noticed here."""
    schemas = await ask_each({item.event_type: None for item in wanted}, log.schema)
    for schema in schemas.values():
        options.filter_on(schema)
    declared = {name: declaration(schema) for name, schema in schemas.items()}
    return [
        Share(tuple(Slice(r.event_type, r.first, r.last, declared[r.event_type]) for r in group))
        for group in gather(split(wanted, options.min_partitions), SHARE, options.min_partitions)
    ]


async def _start(log: SourceLog, options: SourceOptions, event_type: str) -> int:
    match options.starting.of(event_type):
        case At(sequence):
            return max(sequence, FIRST)
        case Moment(ns):
            return await log.since(event_type, ns)
        case Earliest():
            return (await log.bounds(event_type)).first
        case Latest():
            return (await log.bounds(event_type)).last + 1


async def _end(log: SourceLog, options: SourceOptions, event_type: str) -> int:
    last = (await log.bounds(event_type)).last
    match options.ending.of(event_type):
        case At(sequence):
            return min(sequence, last)
        case Moment(ns):
            return min(await log.until(event_type, ns), last)
        case _:
            return last
