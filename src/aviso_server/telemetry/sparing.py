"""Saying something now and then that happens all the time."""

from collections.abc import Callable


class Sparing:
    """Says when something may be said again, and how often it was not."""

    def __init__(self, every_s: float, clock: Callable[[], float]) -> None:
        self._every_s = every_s
        self._clock = clock
        self._said_at = float("-inf")
        self._unsaid = 0

    def ask(self) -> int | None:
        """How often it was not said since it was said before; None: not now, either."""
        now = self._clock()
        if now - self._said_at < self._every_s:
            self._unsaid += 1
            return None
        unsaid, self._unsaid, self._said_at = self._unsaid, 0, now
        return unsaid
