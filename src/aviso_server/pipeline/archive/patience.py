"""When waiting notifications are worth a commit: by number, by age, and before the log trims them.

Every commit makes a file per event type and an entry in the log of the table, so a few
notifications wait for more. They do not wait
- when the job has just begun: a lake is filled at once, and a restart is seen to work;
- when they are a good part of what their stream holds: it may be about to trim them;
- when their stream has holes: it may keep only the newest of each topic, and what is superseded
  before it is archived is gone.
"""

from collections.abc import Mapping, Sequence

from aviso_server.backends.backend import Bounds
from aviso_server.pipeline.source.ranges import Range

ENOUGH = 10_000
"""Notifications that are worth a commit at any time."""

_PART = 4
"""A stream that holds no more than so many times what waits is not to be kept waiting."""


class Patience:
    """Decides when what waits is committed; times are those of a clock that never goes back."""

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._since: float | None = None
        """When something was first seen waiting."""
        self._begun = False

    def due(self, waiting: Sequence[Range], ends: Mapping[str, Bounds], now: float) -> bool:
        """Whether it is time for a commit."""
        if not waiting:
            self._since = None
            return False
        if self._since is None:
            self._since = now
        due = (
            not self._begun
            or now - self._since >= self._longest_s
            or sum(map(len, waiting)) >= ENOUGH
            or any(_pressed(item, ends[item.event_type]) for item in waiting)
        )
        if due:
            self._begun, self._since = True, None
        return due


def _pressed(item: Range, end: Bounds) -> bool:
    held = end.last - end.first + 1
    return bool(end.deleted) or len(item) * _PART >= held
