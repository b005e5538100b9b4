"""A clock that a test sets."""

from dataclasses import dataclass


@dataclass
class Clock:
    """Stands still until a test moves it."""

    now: float = 0.0

    def __call__(self) -> float:
        """The seconds of a monotonic clock."""
        return self.now
