"""A watchdog on the event loop: how late it is, and which requests were being served when it was
too late.

One loop serves all clients, so whatever blocks it blocks all of them. A timer that is due every
``TICK_S`` records how late it is. A stall of any length shows as one late tick, so count the late
ones instead of using quantiles.

A loop is also late when the machine is busy with something else. So the warning also considers how
long the loop's own thread has worked meanwhile, and reports both. Without a request no one waits.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self

import structlog

from aviso_server.telemetry.metrics import Timing
from aviso_server.telemetry.sparing import Sparing

TICK_S = 0.025
BUDGET_S = 0.05
"""Lateness that is worth a warning: more than twice what one request may take."""
QUIET_S = 10.0
"""Between two warnings; what came in between is counted."""
MAX_ROUTES = 5


@dataclass(frozen=True, slots=True)
class Clocks:
    """Where the watchdog reads the time."""

    now: Callable[[], float] = time.monotonic
    worked: Callable[[], float] = time.thread_time
    """Processor time of the thread that asks."""


class LoopWatch:
    """Measures the lag of the loop that a block runs in. A context manager."""

    def __init__(
        self,
        lag: Timing,
        routes: Callable[[], Iterable[str]],
        *,
        clocks: Clocks | None = None,
    ) -> None:
        self._lag = lag
        self._routes = routes
        self._clocks = clocks or Clocks()
        self._due = self._clocks.now() + TICK_S
        self._worked = self._clocks.worked()
        self._warnings = Sparing(QUIET_S, self._clocks.now)
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        """Watch from now on."""
        self._schedule()
        return self

    def __exit__(self, *_: object) -> None:
        """Watch no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def look(self) -> None:
        """Note how late it is: this should be called a tick after it was called before."""
        now, worked = self._clocks.now(), self._clocks.worked()
        late, busy = max(0.0, now - self._due), worked - self._worked
        self._due, self._worked = now + TICK_S, worked
        self._lag.observe(late)
        routes = sorted(self._routes())  # those since the last look, so to be asked each time
        if routes and min(late, busy) > BUDGET_S:
            self._warn(late, busy, routes)

    def _warn(self, late: float, busy: float, routes: list[str]) -> None:
        unreported = self._warnings.ask()
        if unreported is None:
            return
        structlog.get_logger().warning(
            "The event loop was held up",
            event_name="api.loop.late",
            lag_seconds=round(late, 3),
            busy_seconds=round(busy, 3),
            routes=routes[:MAX_ROUTES],
            unreported=unreported,
        )

    def _schedule(self) -> None:
        self._due = self._clocks.now() + TICK_S
        self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        self.look()
        self._schedule()
