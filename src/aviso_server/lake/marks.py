"""The marks of the notifications table: how far each event type is archived, with the proof of it.

A mark consists of application transactions of the commit that reaches it, so it is visible together
with its rows or not at all, and outlives files and older commits. Their versions are whole numbers
of 64 bits: a sequence fits, and so does a time in nanoseconds.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence

from cachetools import LRUCache
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from aviso_server.core.mark import Mark
from aviso_server.lake.files import Written
from aviso_server.lake.follow import Commit, Follower, Opened, Outdated
from aviso_server.lake.layout import NOTIFICATIONS, Place, mark, mark_record, mark_time
from aviso_server.lake.table import ensure


class Transactions:
    """The application transactions of one version of a table."""

    def __init__(self, table: DeltaTable | None) -> None:
        self._table = table
        self._asked: dict[str, int] = {}
        """Those of the table, which takes a millisecond or more for each."""
        self._newer: Mapping[str, int] = {}
        """Those of commits since it was opened."""

    def advanced(self, commits: Iterable[Commit]) -> "Transactions":
        """Those after some more commits."""
        later = Transactions(self._table)
        later._asked = self._asked
        newer = dict(self._newer)
        for commit in commits:
            newer |= commit.transactions
        later._newer = newer
        return later

    def mark(self, event_type: str) -> Mark:
        """How far an event type is archived; all zero before its first commit."""
        return Mark(
            self._version(mark(event_type)),
            self._version(mark_record(event_type)),
            self._version(mark_time(event_type)),
        )

    def _version(self, name: str) -> int:
        known = self._newer.get(name)
        if known is None:
            known = self._asked.get(name)
        if known is None:
            known = self._asked[name] = self._ask(name)
        return known

    def _ask(self, name: str) -> int:
        if self._table is None:
            return 0
        try:
            return self._table.transaction_version(name) or 0
        except (DeltaError, OSError) as error:
            # The table was opened long ago, and its log has been cleaned up since.
            raise Outdated(f"cannot read the log of {self._table.table_uri}: {error}") from error


class Marks:
    """The marks of a lake, as last seen."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._follower = Follower(place, NOTIFICATIONS)
        self._lock = threading.Lock()
        self._transactions = Transactions(None)

    def look(self, event_types: Iterable[str]) -> dict[str, Mark]:
        """The marks that these have now."""
        names = list(event_types)
        with self._lock:
            self._look()
            try:
                return self._of(names)
            except Outdated:
                self._follower.forget()
                self._look()
                return self._of(names)

    def _look(self) -> None:
        news = self._follower.look()
        if isinstance(news, Opened):
            self._transactions = Transactions(news.table or ensure(self._place, NOTIFICATIONS))
        elif news is not None:
            self._transactions = self._transactions.advanced(news.commits)

    def _of(self, event_types: Sequence[str]) -> dict[str, Mark]:
        return {name: self._transactions.mark(name) for name in event_types}


_MARKS: LRUCache[str, Marks] = LRUCache(8)
"""Lakes that this process follows, by place."""


def marks_of(place: Place, event_types: Iterable[str]) -> dict[str, Mark]:
    """The marks that event types have now; the table is made if it is not there."""
    key = repr((place.path, sorted(place.options.items())))
    known = _MARKS.get(key)
    if known is None:
        known = _MARKS[key] = Marks(place)
    return known.look(event_types)


def read_mark(table: DeltaTable | None, event_type: str) -> Mark:
    """The mark of an event type in a table."""
    return Transactions(table).mark(event_type)


def transactions(marks: Mapping[str, int], written: Iterable[Written]) -> dict[str, int]:
    """The application transactions of a commit that reaches these marks with these files.

    If it has no notification of an event type, the proof of an earlier commit stays.
    """
    made = {mark(name): upto for name, upto in marks.items()}
    newest: dict[str, Written] = {}
    for file in written:
        known = newest.get(file.event_type)
        if known is None or file.last > known.last:
            newest[file.event_type] = file
    for name, file in newest.items():
        if name in marks:
            made[mark_record(name)] = file.last
            made[mark_time(name)] = file.last_ns
    return made
