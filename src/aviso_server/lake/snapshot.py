"""The lake at one instant: what is archived, what is hidden, what could not be read."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from aviso_server.core.mark import Mark
from aviso_server.lake.deadletters import DeadLetters, DeadLetterTable
from aviso_server.lake.follow import Follower, Opened
from aviso_server.lake.index import FileIndex, Files
from aviso_server.lake.layout import NOTIFICATIONS, Place
from aviso_server.lake.storage import LakeFailed
from aviso_server.lake.table import find
from aviso_server.lake.tombstones import NOTHING, Hidden, Intervals, Tombstones

STALE = 10
"""Times ``refresh_s`` that a snapshot may be old while another thread takes the next one."""


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The tables at one instant, as the archive job left them.

    The job writes dead letters and tombstones before the commit that covers their sequences. So a
    snapshot reads the notifications first and these two afterwards: then none of them is missing up
    to the mark.
    """

    index: FileIndex
    letters: DeadLetters
    tombstones: Hidden

    def of(self, event_type: str) -> "EventTypeSnapshot":
        """One event type."""
        return EventTypeSnapshot(
            event_type,
            self.index.mark(event_type),
            self.index.files(event_type),
            self.letters,
            self.tombstones.hidden.get(event_type, NOTHING),
            self.tombstones.lost.get(event_type, NOTHING),
        )


@dataclass(frozen=True, slots=True, eq=False)
class EventTypeSnapshot:
    """What is archived of one event type at one instant."""

    event_type: str
    mark: Mark
    files: Files | None
    letters: DeadLetters
    hidden: Intervals
    lost: Intervals

    @property
    def through(self) -> int:
        """Every sequence up to here has been considered."""
        return self.mark.through


def look(place: Place) -> Snapshot:
    """The current lake; LakeFailed if there is none.

    Tombstones are read last: a deletion writes one before anything is removed.
    """
    table = find(place, NOTIFICATIONS)
    if table is None:
        raise no_lake(place)
    return Snapshot(FileIndex(table), DeadLetterTable(place).look(), Tombstones(place).look())


def no_lake(place: Place) -> LakeFailed:
    """The error for a place without one."""
    return LakeFailed(f"there is no lake at {place.path}: no table '{NOTIFICATIONS}' in it")


class Snapshots:
    """The newest snapshot, shared by all threads; only what is new is read for the next one."""

    def __init__(self, place: Place, refresh_s: float, clock: Callable[[], float]) -> None:
        self._place = place
        self._refresh_s = refresh_s
        self._clock = clock
        self._looking = threading.Lock()
        """Held while a snapshot is taken."""
        self._notifications = Follower(place, NOTIFICATIONS)
        self._letters = DeadLetterTable(place)
        self._tombstones = Tombstones(place)
        self._newest: tuple[Snapshot, float] | None = None
        """And when taking it began."""

    def recent(self, now: float) -> Snapshot:
        """The tables as of a moment ago."""
        if self._newest is not None:
            known, began = self._newest
            # While another thread looks, what is known is still a good answer.
            bound = STALE if self._looking.locked() else 1
            if began >= now - bound * self._refresh_s:
                return known
        return self.since(now - self._refresh_s)

    def since(self, needed: float, *, anew: bool = False) -> Snapshot:
        """The tables as of this time or later; with ``anew`` they are opened again."""
        with self._looking:
            # A look begun after the caller asked is fresh enough, whichever caller it was for.
            if self._newest is not None and self._newest[1] >= needed:
                return self._newest[0]
            began = self._clock()
            if anew:
                self._notifications.forget()
            try:
                taken = self._take()
            except BaseException:
                self._notifications.forget()  # what was not taken must not count as seen
                raise
            self._newest = taken, began
            return taken

    def _take(self) -> Snapshot:
        # Notifications first: see Snapshot.
        news = self._notifications.look()
        index = FileIndex(None) if self._newest is None else self._newest[0].index
        if isinstance(news, Opened):
            if news.table is None and index.version >= 0:
                # A disk that is not mounted, say. It must not look like a lake that is empty.
                raise LakeFailed(f"the table {self._place.table(NOTIFICATIONS)} is gone")
            index = FileIndex(news.table)
        elif news is not None:
            index = index.advanced(news.commits)
        return Snapshot(index, self._letters.look(), self._tombstones.look())
