"""What the lake has of an event type: its bounds, and a batch of it.

Apart from the reader, so that code that only names them (``relay``) does not load Arrow.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from aviso_server.core.notification import Entry


@dataclass(frozen=True, slots=True)
class LakeBounds:
    """What is archived of one event type at one instant."""

    first: int
    """Lowest visible archived sequence; ``through + 1`` when there is none."""
    through: int
    """The mark: every sequence up to here has been considered; 0 before the first commit."""
    lost: tuple[tuple[int, int], ...] = ()
    """Inclusive ranges that the log trimmed before they were archived, ascending."""


@dataclass(frozen=True, slots=True)
class LakeBatch:
    """A run of archived entries."""

    entries: Sequence[Entry]
    """Ascending by sequence; hidden ones and those not asked for are absent."""
    following: int
    """Where to continue: every sequence below it has been considered."""
