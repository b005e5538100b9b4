"""What a change of retention would remove from a stream, before it is made. Pure.

NATS applies new limits at once and for good. So what they would remove is counted first: it is
announced with numbers, and if more would be removed than stay, the operator has to agree in the
configuration (``allow_removal``). What the lake has is not lost when the log drops it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aviso_server.backends.jetstream.configuration import COMPARED, Config
from aviso_server.core.json import Json

LIMITS = ("max_messages", "max_bytes", "max_age", "max_messages_per_subject")
"""The settings that can remove what is stored."""

ANY = "*"
"""Stands for every event type in ``allow_removal``."""


@dataclass(frozen=True, slots=True)
class Removal:
    """What new limits would do to what is stored."""

    stored: int
    """Notifications in the log now."""
    removed: int
    """Those that would go and are not archived."""

    @property
    def kept(self) -> int:
        """Those that would stay, in the log or in the lake."""
        return self.stored - self.removed

    @property
    def drastic(self) -> bool:
        """Whether more would go than stay."""
        return self.removed > self.kept


@dataclass(frozen=True, slots=True)
class Contents:
    """What a stream holds, as far as limits care."""

    first: int
    last: int
    messages: int
    size: int
    """Bytes."""
    subjects: int
    archived: int
    """The lake has everything up to here."""

    def removal(self, wanted: Config, *, young: int) -> Removal:
        """What limits would remove; ``young`` is the first sequence that is young enough."""
        gone = max(
            self._beyond(_limit(wanted, "max_messages"), self.messages),
            self._oversized(_limit(wanted, "max_bytes")),
            max(0, min(young - self.first, self.messages)) if _limit(wanted, "max_age") else 0,
        )
        # At most this many are not archived; holes may make it fewer. Limits remove from the front,
        # where the archived ones are.
        recent = min(self.messages, self.last - max(self.archived, self.first - 1))
        removed = gone - (self.messages - recent)
        if per_topic := _limit(wanted, "max_messages_per_subject"):
            # From anywhere, and so maybe none that is archived.
            removed = max(removed, min(self.messages - per_topic * self.subjects, recent))
        return Removal(self.messages, max(0, removed))

    def _oversized(self, limit: int) -> int:
        """How many have to go for the rest to fit, if all were alike."""
        if not limit or self.size <= limit:
            return 0
        return -(-self.messages * (self.size - limit) // self.size)

    @staticmethod
    def _beyond(limit: int, count: int) -> int:
        return max(0, count - limit) if limit else 0


def tighter_limits(existing: Config, wanted: Config, fields: Sequence[str]) -> list[str]:
    """The changed limits that allow less than before."""
    return [
        name
        for name in fields
        if name in LIMITS
        and (new := _limit(wanted, name))
        and not 0 < _limit(existing, name) <= new
    ]


def old_and_new(existing: Config, wanted: Config, fields: Sequence[str]) -> dict[str, Json]:
    """Old and new values of changed settings, for the log."""
    keys = {name: COMPARED[name] for name in fields if name in COMPARED}
    return {name: {"from": existing.get(key), "to": wanted[key]} for name, key in keys.items()}


def _limit(config: Config | Mapping[str, Json], name: str) -> int:
    """A limit; 0 is none, whatever the server calls it."""
    value = config.get(COMPARED[name])
    return max(value, 0) if isinstance(value, int) else 0
