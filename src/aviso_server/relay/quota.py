"""The cap on history that is delivered (docs/protocol.md#caps-and-gaps)."""

from dataclasses import dataclass


@dataclass(slots=True)
class Quota:
    """How many notifications may still be delivered as history."""

    allowed: int | None
    taken: int = 0
    exceeded: bool = False
    _reported: int = 0

    def take(self) -> bool:
        """Ask for one more; the first that is refused is the look-ahead."""
        self.exceeded = self.allowed is not None and self.taken >= self.allowed
        self.taken += not self.exceeded
        return not self.exceeded

    def fresh(self) -> int:
        """How many were taken since this was asked before."""
        count, self._reported = self.taken - self._reported, self.taken
        return count
