"""Publishing not faster than somebody wished."""

import time
from threading import Event


class Pace:
    """Not more than a number of notifications per second; None is as fast as it goes."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._due = time.monotonic()

    def wait(self, count: int) -> None:
        """Return when so many more may be sent."""
        if self._rate is None:
            return
        if (early := self._due - time.monotonic()) > 0:
            Event().wait(early)
        self._due = max(self._due, time.monotonic()) + count / self._rate
