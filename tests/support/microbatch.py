"""Spark's streaming protocol in plain Python, with places to die at.

It keeps the two logs of a checkpoint as Spark does: offsets before a micro-batch, commits after
it. Whoever restarts it after a death finds what Spark would find.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from aviso_server.lake.layout import Place
from aviso_server.pipeline.archive import deadletters as letters
from aviso_server.pipeline.archive.report import REPORT, TaskReport, read_report
from aviso_server.pipeline.archive.sink import LakeWriter, TaskFailed
from aviso_server.pipeline.archive.source import ArchiveReader
from aviso_server.pipeline.source.options import read_options
from aviso_server.pipeline.spark.failure import read_failure


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
    reader = ArchiveReader(place, read_options(options))
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
    reports: list[TaskReport] = []
    for partition in reader.partitions(start, end):
        (row,) = reader.read(partition)
        reports.append(read_report(row.column(REPORT)[0].as_py()))
        die("one task")
    die("all tasks")
    writer = LakeWriter(place)
    if any(item.problem for item in reports):
        with pytest.raises(TaskFailed) as error:
            writer.settle(reports)
        failure = read_failure(str(error.value))
        assert failure.kind is not None
        raise failure.kind(failure.text)
    letters.append(place, [item.letters for item in reports])
    die("letters")
    writer.settle(reports)
