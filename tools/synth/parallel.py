"""Making the parts of a history side by side, in processes.

What comes back is in the order of the tasks, whoever was quicker, and a bounded number of results
is held.
"""

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

from aviso_server.lake.files import FileWriter, Written
from aviso_server.lake.layout import Place
from tools.synth.generate import rows
from tools.synth.plan import Part, Plan

Task: TypeAlias = Sequence[Part]
_Made = TypeVar("_Made")


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
