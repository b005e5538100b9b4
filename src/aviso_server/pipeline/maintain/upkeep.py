"""Upkeep beside the archive job: small files are put together as they come, without Spark.

Theory of operation
- A look follows the table (lake/follow.py). A step takes neighbouring small files of some days, at
  most so many files and bytes, writes them again as fewer, and replaces them in one commit.
- Rows are copied as they are, hidden ones too. Removing them, and retention, are for ``maintain``.
- Files grow by tiers, so a row of a day that is still written to is copied once per tier at most.
  Days that are done become as few files as ``maintain`` would make of them.
- Steps are safe as ``maintain`` is: whole commits, nothing removed by inference (replace.py). A
  commit of the archive in between makes a step try its commit again; the archive does the same,
  and neither waits for the other. A step that is killed leaves files that the sweep removes.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from time import monotonic

import numpy as np
import pyarrow as pa
from deltalake.exceptions import DeltaError

from aviso_server.core.errors import AvisoError
from aviso_server.lake.files import Written
from aviso_server.lake.follow import Follower, Opened, Outdated
from aviso_server.lake.index import FileIndex
from aviso_server.lake.inventory import TableFile, files_of
from aviso_server.lake.layout import NOTIFICATIONS, Place
from aviso_server.pipeline.maintain.plan import MaintainPolicy, Rewrite, make_plan
from aviso_server.pipeline.maintain.replace import Overtaken, foreign_columns, replace_files
from aviso_server.pipeline.maintain.rewrite import Task, rewrite_files
from aviso_server.pipeline.maintain.sweep import KEEP, gather, sweep

PAUSE_S = 30.0
"""Between two looks that found nothing more to do."""

FAN_IN = 8
"""Neighbours of a tier that become one file of the next; each tier is so many times larger."""
LOWEST = 65_536
"""Bytes below which files are of the lowest tier."""

STEP_BYTES = 134_217_728
STEP_FILES = 512
"""What one step may read: seconds of work, and what is done again after a kill."""

POLICY = MaintainPolicy()

SWEEP_AFTER = timedelta(minutes=10)
SWEEP_EVERY = timedelta(days=1)


def choose(files: Sequence[TableFile], *, today: date) -> list[Rewrite]:
    """What is to be put together of the files of one event type."""
    found: list[Rewrite] = []
    ordered = sorted(files, key=lambda file: (file.day, file.first, file.last))
    newest = max((file.day for file in files), default=today)
    for day, group in groupby(ordered, key=lambda file: file.day):
        ours = list(group)
        if day < newest or day < today - timedelta(days=1):
            plan = make_plan(ours, POLICY, today=today, hidden={})
            found += [part for item in plan.rewrites for part in _parts(item)]
        else:
            found += _grown(ours)
    return found


def _parts(rewrite: Rewrite) -> Iterator[Rewrite]:
    """A rewrite of very many files in several."""
    for begin in range(0, len(rewrite.files), STEP_FILES):
        files = rewrite.files[begin : begin + STEP_FILES]
        if len(files) > 1:
            yield Rewrite(rewrite.event_type, rewrite.day, files)


def _grown(files: Sequence[TableFile]) -> list[Rewrite]:
    """Of a day that is written to: enough neighbours of the lowest tier that has them."""
    lowest, limit = 0, LOWEST
    while limit <= POLICY.target_bytes:
        found = []
        for small, run in groupby(files, key=lambda file: file.size < limit):
            ours = list(run)[:STEP_FILES]
            # Smaller ones between them go along, but do not count: the result is of a higher tier.
            if small and sum(file.size >= lowest for file in ours) >= FAN_IN:
                found.append(Rewrite(ours[0].event_type, ours[0].day, tuple(ours)))
        if found:
            return found
        lowest, limit = limit, limit * FAN_IN
    return []


class Upkeep:
    """Keeps the files of a lake few."""

    def __init__(self, place: Place, *, tell: Callable[[str], None] = lambda _: None) -> None:
        self._place = place
        self._tell = tell
        self._follower = Follower(place, NOTIFICATIONS)
        self._index = FileIndex(None)
        self._foreign = False
        """Whether the table has columns that a rewrite would lose."""
        self._refused: set[str] = set()
        """Files that cannot be read, which are left alone."""
        self._sweep_at = monotonic() + SWEEP_AFTER.total_seconds()

    def run(self, stop: threading.Event, *, pause_s: float = PAUSE_S) -> None:
        """Work until stopped."""
        while not stop.is_set():
            more = False
            try:
                more = self.step(stop)
                if monotonic() >= self._sweep_at:
                    self._sweep()
            except (AvisoError, DeltaError, OSError, pa.ArrowException) as error:
                self._follower.forget()  # what was not taken must not count as seen
                self._tell(f"upkeep of the lake: {error}; it is tried again later")
            if not more:
                stop.wait(pause_s)

    def step(self, stop: threading.Event) -> bool:
        """Put some files together; whether something was done."""
        removed: list[TableFile] = []
        written: list[Written] = []
        for number, item in enumerate(self._choose()):
            if stop.is_set():
                break
            answer = rewrite_files(self._place, Task(number, item, (), "sequence"))
            if answer.problem is not None:
                self._refused.update(file.path for file in item.files)
                where = f"{item.event_type} {item.day.isoformat()}"
                self._tell(f"upkeep of the lake leaves {where} alone: {answer.problem}")
                continue
            removed += item.files
            written += answer.written
        if not removed:
            return False
        try:
            replace_files(self._place, removed, written, data_change=False)
        except Overtaken:
            return False  # by another maintenance, which knew what it did
        return True

    def _sweep(self) -> None:
        self._sweep_at = monotonic() + SWEEP_EVERY.total_seconds()
        self._refused.clear()  # the disk may only have been full
        gather(self._place)
        sweep(self._place, KEEP, dry_run=False)

    def _choose(self) -> Iterator[Rewrite]:
        """What the next step does, within its bounds."""
        try:
            self._look()
            names = [] if self._foreign else self._index.event_types
            size = count = 0
            for name in names:
                for item in choose(self._small(name), today=datetime.now(UTC).date()):
                    size, count = size + item.size, count + len(item.files)
                    if count > len(item.files) and (size > STEP_BYTES or count > STEP_FILES):
                        return
                    yield item
        except Outdated:
            self._follower.forget()  # the next look opens the table

    def _look(self) -> None:
        news = self._follower.look()
        if isinstance(news, Opened):
            self._foreign = news.table is None or bool(foreign_columns(news.table))
            self._index = FileIndex(news.table)
        elif news is not None:
            self._index = self._index.advanced(news.commits)

    def _small(self, name: str) -> list[TableFile]:
        """The files of an event type, if there may be something to do."""
        files = self._index.files(name)
        if files is None or int(np.sum(files.sizes < POLICY.target_bytes)) < 2:
            return []
        return [file for file in files_of(name, files) if file.path not in self._refused]


@contextmanager
def upkeep(place: Place, *, tell: Callable[[str], None]) -> Iterator[None]:
    """Keep a lake's files few while the block runs."""
    stop = threading.Event()
    thread = threading.Thread(target=Upkeep(place, tell=tell).run, args=(stop,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
