"""The lake at one instant: what is archived, what is hidden, what could not be read."""

from dataclasses import dataclass

from aviso_server.core.mark import Mark
from aviso_server.lake.deadletters import Letters
from aviso_server.lake.index import Files, Index
from aviso_server.lake.tombstones import NOTHING, Graves, Intervals


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """One look at the tables, in the order in which they are written to in reverse.

    Letters and tombstones are written before the commit that covers their sequences, so they are
    looked at after it: none of them is missing up to the mark.
    """

    index: Index
    letters: Letters
    graves: Graves


@dataclass(frozen=True, slots=True, eq=False)
class Shelf:
    """One event type in a view."""

    event_type: str
    mark: Mark
    files: Files | None
    letters: Letters
    hidden: Intervals
    lost: Intervals

    @property
    def through(self) -> int:
        """Every sequence up to here has been considered."""
        return self.mark.through


def shelf(view: View, event_type: str) -> Shelf:
    """An event type; to be asked while the view is the newest (``Index.mark``)."""
    return Shelf(
        event_type,
        view.index.mark(event_type),
        view.index.files(event_type),
        view.letters,
        view.graves.hidden.get(event_type, NOTHING),
        view.graves.lost.get(event_type, NOTHING),
    )
