"""Spark's streaming protocol in plain Python, with places to die at.

It keeps the two logs of a checkpoint as Spark does: offsets before a micro-batch, commits after
it. Whoever restarts it after a death finds what Spark would find.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.streaming.datasource import ReadMaxRows

from aviso_server.lake.layout import Place
from aviso_server.pipeline.archive import deadletters as letters
from aviso_server.pipeline.archive.sink import LakeWriter, TaskReport
from aviso_server.pipeline.archive.source import ArchiveReader
from aviso_server.pipeline.source.columns import MARKED
from aviso_server.pipeline.source.options import read_options


class Died(Exception):
    """The process was killed here."""


MOMENTS = ("planned", "one task", "all tasks", "letters", "committed", "noted")
"""Where a death makes a difference."""

Death = Callable[[str], None]


@dataclass
class Checkpoint:
    """Spark's bookkeeping."""

    offsets: list[dict[str, int]] = field(default_factory=list)
    """Where each micro-batch ends, written before it runs."""
    commits: int = 0
    """How many micro-batches are known to be done."""

    def forget_commit(self) -> None:
        """As if the last file of ``commits/`` were gone."""
        self.commits = max(0, self.commits - 1)


async def archive(
    place: Place,
    source: dict[str, str],
    checkpoint: Checkpoint,
    *,
    most: int = 1_000_000,
    die: Death = lambda _: None,
    once: bool = False,
) -> None:
    """Archive until nothing is left, or until ``die`` raises; with ``once`` what is there now."""
    # In a thread: readers run event loops of their own.
    await asyncio.to_thread(_archive, place, source, checkpoint, most=most, die=die, once=once)


def _archive(
    place: Place,
    source: dict[str, str],
    checkpoint: Checkpoint,
    *,
    most: int,
    die: Death,
    once: bool,
) -> None:
    options = {"eventType": "*", **source}
    reader = ArchiveReader(place, read_options(options), MARKED)
    if once:
        reader.prepareForTriggerAvailableNow()
    while True:
        number = checkpoint.commits
        start = checkpoint.offsets[number - 1] if number > 0 else reader.initialOffset()
        if number < len(checkpoint.offsets):
            end = checkpoint.offsets[number]  # planned before the death
        else:
            end = reader.latestOffset(start, ReadMaxRows(most))
            if end == start:
                return
            checkpoint.offsets.append(end)
        die("planned")
        _batch(place, reader, start, end, die)
        die("committed")
        checkpoint.commits = number + 1
        die("noted")


def _batch(
    place: Place,
    reader: ArchiveReader,
    start: dict[str, int],
    end: dict[str, int],
    die: Death,
) -> None:
    messages: list[WriterCommitMessage | None] = []
    for partition in reader.partitions(start, end):
        # A writer that fails leaves the reader where it was: it is ended here, in its own thread.
        with contextlib.closing(reader.read(partition)) as rows:
            messages.append(LakeWriter(place).write(rows))
        die("one task")
    die("all tasks")
    letters.append(place, [item.letters for item in messages if isinstance(item, TaskReport)])
    die("letters")
    LakeWriter(place).commit(messages, 0)
