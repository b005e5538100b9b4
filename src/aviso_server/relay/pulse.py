"""The clock of one stream: when it must say that it lives, and when it must end.

Waking: new notifications, the timer, a finished read and the server's shutdown all wake the one
waiter, which then checks everything itself. No task is made per event and none is cancelled.
"""

import asyncio
from collections.abc import Callable

from aviso_server.core.frame import Reason


class Ended(Exception):
    """A stop condition ends the stream now."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


class Stop:
    """The server's shutdown: set once, wakes every listener."""

    def __init__(self) -> None:
        self._listeners: set[Callable[[], None]] = set()
        self.requested = False

    def request(self) -> None:
        """Ask every stream to end."""
        self.requested = True
        for listener in tuple(self._listeners):
            listener()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` when the stop is requested."""
        self._listeners.add(listener)

    def ignore(self, listener: Callable[[], None]) -> None:
        """Call it no more."""
        self._listeners.discard(listener)


class Pulse:
    """Heartbeats, deadline and shutdown of one stream, and the one place where it waits."""

    def __init__(self, stop: Stop, heartbeat_s: float) -> None:
        self._stop = stop
        self._heartbeat_s = heartbeat_s
        self._loop = asyncio.get_running_loop()
        self._next_beat = self._loop.time() + heartbeat_s
        self._deadline = float("inf")
        self._waiting: asyncio.Future[None] | None = None
        self._woken = False
        self._timer: asyncio.TimerHandle | None = None
        stop.listen(self.wake)

    @property
    def resting(self) -> bool:
        """True while the stream waits and nothing has woken it."""
        return self._waiting is not None and not self._woken

    def end_after(self, seconds: float) -> None:
        """Set the deadline, unless there is an earlier one."""
        self._deadline = min(self._deadline, self._loop.time() + seconds)

    def beat_now(self) -> None:
        """Make the next heartbeat due at once."""
        self._next_beat = 0.0

    def beats(self) -> bool:
        """True when a heartbeat is due, once; raises Ended when the stream must end.

        Shutdown takes precedence over the deadline. After a late heartbeat the next one counts from
        now.
        """
        if self._stop.requested:
            raise Ended(Reason.SHUTDOWN)
        now = self._loop.time()
        if now >= self._deadline:
            raise Ended(Reason.MAX_DURATION)
        if now < self._next_beat:
            return False
        self._next_beat = now + self._heartbeat_s
        return True

    def wake(self) -> None:
        """Let the stream look again; remembered when it is not waiting."""
        self._woken = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def wait(self, until: float = float("inf")) -> None:
        """Wait until woken, or until the loop's clock reaches ``until`` or the next duty."""
        if not self._woken:
            self._set_timer(min(until, self._next_beat, self._deadline))
            self._waiting = self._loop.create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        self._woken = False

    def close(self) -> None:
        """Drop the timer and stop listening; harmless when done twice."""
        self._stop.ignore(self.wake)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, at: float) -> None:
        # Kept across waits: a busy stream would otherwise make a timer per notification.
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self._rang)

    def _rang(self) -> None:
        self._timer = None
        self.wake()
