"""The lake at one instant: what is archived, what is hidden, what could not be read."""

from dataclasses import dataclass

from aviso_server.core.mark import Mark
from aviso_server.lake.deadletters import DeadLetters, DeadLetterTable
from aviso_server.lake.index import FileIndex, Files
from aviso_server.lake.layout import NOTIFICATIONS, Place
from aviso_server.lake.storage import LakeFailed
from aviso_server.lake.table import find
from aviso_server.lake.tombstones import NOTHING, Hidden, Intervals, Tombstones


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
        raise LakeFailed(f"there is no lake at {place.path}: no table '{NOTIFICATIONS}' in it")
    return Snapshot(FileIndex(table), DeadLetterTable(place).look(), Tombstones(place).look())
