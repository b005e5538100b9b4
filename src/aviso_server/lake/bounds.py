"""What the lake says of an event type: how far it reaches, and a piece of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from aviso_server.core.notification import Entry


@dataclass(frozen=True, slots=True)
class Extent:
    """What is archived of one event type at one instant."""

    first: int
    """Lowest visible archived sequence; ``through + 1`` when there is none."""
    through: int
    """The archive has considered every sequence up to here; 0 before its first commit."""
    lost: tuple[tuple[int, int], ...] = ()
    """Inclusive ranges that the log trimmed before they were archived, ascending."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the archive."""

    entries: Sequence[Entry]
    """Ascending by sequence; hidden ones and those not asked for are absent."""
    following: int
    """Where to go on: every sequence below it has been considered."""
