"""Making the parts of a history side by side: in processes, or in the tasks of Spark.

What comes back is in the order of the tasks, whoever was quicker, and a bounded number of results
is held.
"""

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import msgspec
import pyarrow as pa

from aviso_server.lake.files import FileWriter, Written
from aviso_server.lake.layout import Place
from aviso_server.pipeline.synth.generate import rows
from aviso_server.pipeline.synth.plan import Part, Plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Task: TypeAlias = Sequence[Part]
_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class _Chore:
    """What a task of Spark is told to do."""

    parts: tuple[Part, ...]


_WRITTEN = msgspec.json.Decoder(list[Written])


def write(place: Place, plan: Plan, task: Task) -> list[Written]:
    """Write the rows of some parts as files of a lake; nothing is left behind on failure."""
    writer = FileWriter(place)
    try:
        for part in task:
            for batch in rows(plan, part):
                writer.write(batch)
        return writer.close()
    except BaseException:
        writer.discard()
        raise


def side_by_side(
    work: Callable[[Task], _Made], tasks: Iterable[Task], *, processes: int
) -> Iterator[_Made]:
    """Results in order; one process does it here."""
    if processes <= 1:
        yield from map(work, tasks)
        return
    with _pool(processes) as pool:
        waiting: deque[Future[_Made]] = deque()
        for task in tasks:
            waiting.append(pool.submit(work, task))
            if len(waiting) > 2 * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def in_spark(
    spark: "SparkSession", place: Place, plan: Plan, tasks: Sequence[Task]
) -> Iterator[list[Written]]:
    """Write with the tasks of Spark; what comes back are descriptions of files, no rows."""
    # Loaded when it is used: processes need no Spark.
    from aviso_server.pipeline.spark.tasks import spread  # noqa: PLC0415

    def written(chore: _Chore) -> Iterator[pa.RecordBatch]:
        report = msgspec.json.encode(write(place, plan, chore.parts))
        yield pa.RecordBatch.from_pydict({"written": pa.array([report], pa.binary())})

    chores = [_Chore(tuple(task)) for task in tasks]
    made = spread(spark, chores, _Chore, work=written, schema="written binary")
    # Not one partition after the other, as an iterator would have it.
    for row in made.collect():
        yield _WRITTEN.decode(bytes(row["written"]))


def cores() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    # Not forked: Arrow has threads, and a fork of them can hang.
    pool = ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn"))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
