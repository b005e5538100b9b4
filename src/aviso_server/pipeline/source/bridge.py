"""From a question or a slice to answers and rows, in plain Python: no Spark is needed here.

Spark calls readers from ordinary code, so each call runs its own event loop with its own
connection. Rows are passed on in batches while the next ones are still unread.
"""

import asyncio
import gc
import logging
import sys
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from aviso_server.core.declaration import read_declaration
from aviso_server.core.json import Json
from aviso_server.core.notification import Entry
from aviso_server.pipeline.source.columns import Columns
from aviso_server.pipeline.source.failure import DataLost
from aviso_server.pipeline.source.log import LogBatch, SourceLog
from aviso_server.pipeline.source.options import SourceOptions
from aviso_server.pipeline.source.ranges import Range

BATCH_ROWS = 5_000
"""Rows of a batch: enough to make its cost per row small, and a few megabytes."""

BATCH_BYTES = 16 * 1024 * 1024
"""A batch of large notifications is handed over before it has that many rows."""

_Answer = TypeVar("_Answer")


@asynccontextmanager
async def open_log(options: SourceOptions) -> AsyncIterator[SourceLog]:
    """The log behind the requested transport."""
    hush()
    # Spark imports this in many short-lived processes, most of which open no log, and the clients
    # take longer to load than everything else.
    if options.access.transport == "http":
        from aviso_server.pipeline.source.http import open_http  # noqa: PLC0415

        async with open_http(options) as log:
            yield log
    else:
        from aviso_server.pipeline.source.nats import open_nats  # noqa: PLC0415

        async with open_nats(options) as log:
            yield log


def ask(options: SourceOptions, question: Callable[[SourceLog], Awaitable[_Answer]]) -> _Answer:
    """The answer to one question, over its own connection."""

    async def answer() -> _Answer:
        async with open_log(options) as log:
            return await question(log)

    with _runner() as runner:
        return runner.run(answer())


def rows(
    options: SourceOptions,
    pieces: Sequence[Range],
    declarations: Mapping[str, Json],
    columns: Columns,
) -> Iterator[pa.RecordBatch]:
    """The notifications of some ranges as batches, over one connection; DataLost where that is not
    to be passed over."""
    known = {name: read_declaration(told) for name, told in declarations.items() if told}
    options = replace(options, schemas={**options.schemas, **known})
    with _rare_collections(), _runner() as runner, _opened(runner, options) as log:
        for piece in pieces:
            parts = log.read(piece)
            try:
                yield from _batches(options, piece, columns, _stepwise(runner, parts))
            finally:
                runner.run(parts.aclose())


@contextmanager
def _opened(runner: asyncio.Runner, options: SourceOptions) -> Iterator[SourceLog]:
    """A log that is open while the loop rests and runs."""
    opened = open_log(options)
    log = runner.run(opened.__aenter__())
    try:
        yield log
    except BaseException as error:
        # Failures of the connection come out as what they mean.
        if not runner.run(opened.__aexit__(type(error), error, error.__traceback__)):
            raise
    else:
        runner.run(opened.__aexit__(None, None, None))


def _batches(
    options: SourceOptions, piece: Range, columns: Columns, parts: Iterator[LogBatch]
) -> Iterator[pa.RecordBatch]:
    event_type = piece.event_type
    entries: list[Entry] = []
    raw: dict[int, bytes] = {}
    lost: list[tuple[int, int]] = []
    size = 0
    for part in parts:
        if part.lost and options.fail_on_data_loss:
            raise DataLost.of(event_type, *part.lost[0])
        lost.extend(part.lost)
        entries.extend(part.entries)
        raw.update(part.raw)
        size += part.size
        if len(entries) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield from columns.rows(event_type, entries, raw)
            entries, raw, size = [], {}, 0
    yield from columns.rows(event_type, entries, raw)
    if columns.marked:
        for first, last in join_ranges(lost):
            yield columns.mark(Range(event_type, first, last), lost=True)
        yield columns.mark(piece, lost=False)


def join_ranges(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ascending ranges with neighbours put together."""
    together: list[tuple[int, int]] = []
    for first, last in ranges:
        if together and together[-1][1] + 1 >= first:
            together[-1] = (together[-1][0], last)
        else:
            together.append((first, last))
    return together


def _stepwise(runner: asyncio.Runner, parts: AsyncGenerator[LogBatch, None]) -> Iterator[LogBatch]:
    """The parts one by one; the loop rests while Spark takes the rows."""

    read: list[LogBatch] = []

    async def step() -> None:
        # Not returned: the runner makes a text of every result, which takes as long as reading.
        read.extend([part] if (part := await anext(parts, None)) is not None else ())

    while True:
        runner.run(step())
        if not read:
            return
        yield read.pop()


def _runner() -> asyncio.Runner:
    import uvloop  # noqa: PLC0415 - as above

    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect garbage less often: thousands of live records are none (measured: a fifth)."""
    usual = gc.get_threshold()
    gc.set_threshold(100_000, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def hush() -> None:
    """Keep Spark's Python workers quiet: no log is configured there, and stdout is Spark's."""
    import structlog  # noqa: PLC0415 - as above

    if not structlog.is_configured():
        structlog.configure(
            wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        )
