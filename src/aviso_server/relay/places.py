"""Spatial tests that may take long, kept off the event loop.

What a test may cost is known before it is made (``Filter.work``), from the numbers of points alone.
Little work is done at once. More is done in one thread, in runs of a bounded size, so that streams
take turns and one whose client has left stops soon. Most of it is arithmetic on arrays, which lets
the loop run. The order of the entries stays: a stream waits for its answer.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from aviso_server.core.filter import Filter
from aviso_server.core.notification import Entry

LITTLE_WORK = 50_000
"""Comparisons of edges made on the loop: 10 ms if all are hostile, usually far less."""
RUN_WORK = 1_000_000
"""Comparisons in one run: 0.2 s if all are hostile, and the thread is free for others again."""

_Result = TypeVar("_Result")
_thread = ThreadPoolExecutor(1, thread_name_prefix="aviso-places")


def runs(request: Filter, entries: Sequence[Entry]) -> Iterator[tuple[int, list[Entry]]]:
    """The entries in order, in runs that cost about as much as each other, with what they cost."""
    run: list[Entry] = []
    work = 0
    if request.spatial is None:
        run, entries = list(entries), ()  # nothing has to be tested
    for entry in entries:
        more = request.work(entry)
        if run and work + more > RUN_WORK:
            yield work, run
            run, work = [], 0
        run.append(entry)
        work += more
    if run:
        yield work, run


async def in_thread(decide: Callable[[], _Result]) -> _Result:
    """Wait for spatial tests that are made in the thread."""
    return await asyncio.get_running_loop().run_in_executor(_thread, decide)
