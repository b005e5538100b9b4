"""The clock of one stream: when it must say that it lives, and when it must end.

Waking: new notifications, the timer, a finished read and the server's shutdown all wake the one
waiter, which then checks everything itself. It is a callback: a stream that rests needs no task.
"""

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

from aviso_server.core.frame import Reason

NEVER = float("inf")


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


class Alarms:
    """One timer for all streams: a handle of the loop for each took a fifth of an idle one."""

    def __init__(self) -> None:
        self._set: list[tuple[float, int, Callable[[], None]]] = []
        """A heap, by the loop's clock."""
        self._order = count()
        self._timer: asyncio.Handle | None = None
        self._rings_at = NEVER

    def set(self, at: float, ring: Callable[[], None]) -> None:
        """Call ``ring`` then. It cannot be taken back: who no longer needs it ignores it."""
        heappush(self._set, (at, next(self._order), ring))
        self._wind()

    def _wind(self) -> None:
        first = self._set[0][0]
        if self._rings_at <= first:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._rings_at = first
        self._timer = asyncio.get_running_loop().call_at(first, self._ring)

    def _ring(self) -> None:
        self._timer, self._rings_at = None, NEVER
        now = asyncio.get_running_loop().time()
        while self._set and self._set[0][0] <= now:
            heappop(self._set)[2]()
        if self._set:
            self._wind()


class Pulse:
    """Heartbeats, deadline and shutdown of one stream, and the one place where it waits."""

    __slots__ = (
        *("_alarm_at", "_alarms", "_deadline", "_heartbeat_s", "_loop"),
        *("_next_beat", "_stop", "_waiter", "_woken"),
    )

    def __init__(self, stop: Stop, alarms: Alarms, heartbeat_s: float) -> None:
        self._stop = stop
        self._alarms = alarms
        self._heartbeat_s = heartbeat_s
        self._loop = asyncio.get_running_loop()
        self._next_beat = self._loop.time() + heartbeat_s
        self._deadline = NEVER
        self._waiter: Callable[[], None] | None = None
        """Called by the next wake."""
        self._woken = False
        """Whether there was a wake that nobody waited for."""
        self._alarm_at = NEVER
        """The next alarm that is set; it may be set for nothing."""
        stop.listen(self.wake)

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
        self._woken = False  # all there is to check is checked from here on
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
        waiter, self._waiter = self._waiter, None
        if waiter is None:
            self._woken = True
        else:
            waiter()

    def rest(self, woken: Callable[[], None]) -> None:
        """Call ``woken`` once: when there is a wake or the next duty is due, at once if there was
        a wake since the last rest."""
        if self._woken:
            self._woken = False
            woken()
            return
        self._waiter = woken
        due = min(self._next_beat, self._deadline)
        # Kept across rests: a busy stream would otherwise set an alarm per notification.
        if due < self._alarm_at:
            self._alarm_at = due
            self._alarms.set(due, self._rang)

    async def wait(self) -> None:
        """The same for a coroutine."""
        woken = asyncio.Event()
        self.rest(woken.set)
        await woken.wait()

    def close(self) -> None:
        """Stop listening; harmless when done twice."""
        self._waiter = None
        self._stop.ignore(self.wake)

    def _rang(self) -> None:
        self._alarm_at = NEVER
        self.wake()
