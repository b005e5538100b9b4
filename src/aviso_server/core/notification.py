"""The central values: a notification, and the record it becomes when stored.

They are structs, and unknown to the garbage collector: nothing in them can lead back to them. A
server makes and keeps more of these than of anything else, and a dataclass takes four times as long
to make.
"""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from aviso_server.core.geometry import Geometry


class Notification(msgspec.Struct, frozen=True, gc=False):
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


class Record(msgspec.Struct, frozen=True, gc=False):
    """A stored notification: the same thing whichever tier it was read from."""

    sequence: int
    stored_at_ns: int
    """Storage time, nanoseconds since the epoch; never decreases with the sequence."""
    notification: Notification


class Unreadable(msgspec.Struct, frozen=True, gc=False):
    """A stored message that cannot be turned back into a notification."""

    sequence: int
    stored_at_ns: int
    topic: str
    reason: str


Entry: TypeAlias = Record | Unreadable
