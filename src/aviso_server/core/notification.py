"""The central values: a notification, and the record it becomes when stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from aviso_server.core.geometry import Geometry


@dataclass(frozen=True, slots=True)
class Notification:
    """One validated fact, ready to be stored."""

    event_type: str
    tokens: tuple[str, ...]
    """The topic, decoded: base, then values."""
    identifier: Mapping[str, str]
    """Every non-spatial identifier field in canonical text, in name order."""
    geometry: Geometry | None
    """The polygon or point cloud, where the schema has one."""
    payload: bytes
    """Compact JSON text; ``null`` when omitted."""

    @property
    def topic(self) -> str:
        """The topic as shown to people: decoded tokens joined with ``.``."""
        return ".".join(self.tokens)


@dataclass(frozen=True, slots=True)
class Record:
    """A stored notification: the same thing whichever tier it was read from."""

    sequence: int
    stored_at_ns: int
    """Storage time, nanoseconds since the epoch; never decreases with the sequence."""
    notification: Notification


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A stored message that cannot be turned back into a notification."""

    sequence: int
    stored_at_ns: int
    topic: str
    reason: str


Entry: TypeAlias = Record | Unreadable
