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
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from time import monotonic, time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aviso_server.lake.beside import Tell, Troubles, beside
from aviso_server.lake.files import Written
from aviso_server.lake.follow import Follower, Opened, Outdated
from aviso_server.lake.index import FileIndex, Files
from aviso_server.lake.inventory import Inventory
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


def choose(files: Inventory, *, today: date) -> list[Rewrite]:
    """What is to be put together of the files of one event type."""
    *_, (event_type, newest, begin, _) = files.days()
    # Only the newest day may be written to, and not for ever.
    done = newest < today - timedelta(days=1)
    rewrites = make_plan(files if done else files[:begin], POLICY, today=today).rewrites
    found = [part for item in rewrites for part in _parts(item)]
    return found if done else found + _grown(event_type, newest, files[begin:])


def _parts(rewrite: Rewrite) -> Iterator[Rewrite]:
    """A rewrite of very many files in several."""
    for begin in range(0, len(rewrite.files), STEP_FILES):
        files = rewrite.files[begin : begin + STEP_FILES]
        if len(files) > 1:
            yield Rewrite(rewrite.event_type, rewrite.day, files)


def _grown(event_type: str, day: date, files: Inventory) -> list[Rewrite]:
    """Of a day that is written to: enough neighbours of the lowest tier that has them."""
    sizes = files.numbers("size").tolist()
    lowest, limit = 0, LOWEST
    while limit <= POLICY.target_bytes:
        found = []
        for small, run in groupby(range(len(sizes)), key=lambda number: sizes[number] < limit):
            ours = list(run)[:STEP_FILES]
            # Smaller ones between them go along, but do not count: the result is of a higher tier.
            if small and sum(sizes[number] >= lowest for number in ours) >= FAN_IN:
                found.append(Rewrite(event_type, day, files[ours[0] : ours[-1] + 1]))
        if found:
            return found
        lowest, limit = limit, limit * FAN_IN
    return []


@dataclass(slots=True)
class UpkeepTally:
    """What was done since the start."""

    files: int = 0
    """That were put together."""
    written: int = 0
    """Files that they became."""
    size: int = 0
    """Bytes of what was put together."""
    ended_at: float = 0.0
    """When a step last found nothing more to do, in seconds since the epoch; 0 before."""
    failures: int = 0


class Upkeep:
    """Keeps the files of a lake few."""

    def __init__(self, place: Place, *, tell: Tell = lambda _: None) -> None:
        self._place = place
        self._tell = tell
        self._troubles = Troubles(tell)
        self.tally = UpkeepTally()
        self._follower = Follower(place, NOTIFICATIONS)
        self._index = FileIndex(None)
        self._foreign = False
        """Whether the table has columns that a rewrite would lose."""
        self._refused: set[str] = set()
        """Files that cannot be read, which are left alone."""
        self._done: dict[str, tuple[date, Files]] = {}
        """Event types with nothing to do on that day, as long as their files are these."""
        self._sweep_at = monotonic() + SWEEP_AFTER.total_seconds()

    def running(self, *, pause_s: float = PAUSE_S) -> AbstractContextManager[None]:
        """Work while the block runs."""
        return beside("upkeep of the lake", self._pass, troubles=self._troubles, pause_s=pause_s)

    def _pass(self, stop: threading.Event) -> bool:
        try:
            more = self.step(stop)
            if monotonic() >= self._sweep_at:
                self._sweep()
        except BaseException:
            self._follower.forget()  # what was not taken must not count as seen
            self.tally.failures += 1
            raise
        if not more:
            self.tally.ended_at = time()
        return more

    def step(self, stop: threading.Event) -> bool:
        """Put some files together; whether something was done."""
        removed: list[pa.Table] = []
        written: list[Written] = []
        for number, item in enumerate(self._choose()):
            if stop.is_set():
                break
            answer = rewrite_files(self._place, Task(number, item))
            if answer.problem is not None:
                self._refused.update(item.files.columns["path"].to_pylist())
                where = f"{item.event_type} {item.day.isoformat()}"
                self._tell(f"upkeep of the lake leaves {where} alone: {answer.problem}")
                continue
            removed.append(item.files.columns)
            written += answer.written
        if not removed:
            return False
        try:
            gone = Inventory(pa.concat_tables(removed))
            replace_files(self._place, gone, written, data_change=False)
        except Overtaken:
            return False  # by another maintenance, which knew what it did
        self.tally.files += len(gone)
        self.tally.written += len(written)
        self.tally.size += gone.size
        return True

    def _sweep(self) -> None:
        self._sweep_at = monotonic() + SWEEP_EVERY.total_seconds()
        # The disk may only have been full.
        self._refused.clear()
        self._done.clear()
        gather(self._place)
        sweep(self._place, KEEP, dry_run=False)

    def _choose(self) -> Iterator[Rewrite]:
        """What the next step does, within its bounds."""
        try:
            self._look()
            names = [] if self._foreign else self._index.event_types
            size = count = 0
            today = datetime.now(UTC).date()
            for name in names:
                for item in self._of(name, today):
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

    def _of(self, name: str, today: date) -> list[Rewrite]:
        """What is to be put together of an event type."""
        files = self._index.files(name)
        if files is None or self._done.get(name) == (today, files):
            return []
        found: list[Rewrite] = []
        if int(np.sum(files.sizes < POLICY.target_bytes)) > 1:
            ours = Inventory.of_event_type(name, files)
            if self._refused:
                known = pa.array(self._refused, pa.string())
                left = pc.invert(pc.is_in(ours.columns["path"], value_set=known))
                ours = Inventory(ours.columns.filter(left))
            found = choose(ours, today=today) if len(ours) else []
        if not found:
            self._done[name] = today, files
        return found
