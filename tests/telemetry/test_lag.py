"""The watchdog on the event loop: what it counts, and when it warns."""

import time
from dataclasses import dataclass

from support.journal import recorded
from support.metrics import shown

from aviso_server.telemetry.cells import Cells
from aviso_server.telemetry.lag import BUDGET_S, QUIET_S, TICK_S, Clocks, LoopWatch
from aviso_server.telemetry.metrics import SILENT, Metrics

LATE = "api.loop.late"


@dataclass
class Day:
    """Time as a test lets it pass."""

    now: float = 1000.0
    worked: float = 0.0

    def clocks(self) -> Clocks:
        return Clocks(lambda: self.now, lambda: self.worked)

    def look(self, watch: LoopWatch, *, late: float, worked: float) -> None:
        """Let a tick come that late, and the thread work so long meanwhile."""
        self.now += TICK_S + late
        self.worked += worked
        watch.look()


def test_every_look_is_counted_by_how_late_it_is() -> None:
    """A stall is one late look, and is seen in the buckets."""
    metrics, day = Metrics(Cells.private(), version="1", backend="in_memory"), Day()
    watch = LoopWatch(metrics.loop_lag(), set, clocks=day.clocks())
    for late in (0.0, 0.004, 0.3):
        day.look(watch, late=late, worked=0.0)
    page = shown(metrics)
    assert page.value("aviso_loop_lag_seconds_count") == 3
    assert page.value("aviso_loop_lag_seconds_bucket", le="0.005") == 2
    assert page.value("aviso_loop_lag_seconds_bucket", le="0.25") == 2
    assert page.value("aviso_loop_lag_seconds_bucket", le="0.5") == 3


def test_a_warning_names_the_routes_and_comes_now_and_then() -> None:
    """More than the budget is reported with who was served; further ones are counted."""
    day, served = Day(), {"POST /api/v1/notifications", "GET /health"}
    watch = LoopWatch(SILENT.loop_lag(), lambda: served, clocks=day.clocks())
    with recorded() as journal:
        day.look(watch, late=BUDGET_S / 2, worked=9.0)
        day.look(watch, late=1.0, worked=BUDGET_S / 2)  # somebody else had the processor
        assert journal.all(LATE) == []
        for _ in range(3):
            day.look(watch, late=1.0, worked=0.8)
        day.now += QUIET_S
        watch.look()
        day.look(watch, late=0.2, worked=0.2)
    first, second = journal.all(LATE)
    assert first["routes"] == ["GET /health", "POST /api/v1/notifications"]
    assert (first["lag_seconds"], first["busy_seconds"], first["unreported"]) == (1.0, 0.8, 0)
    assert (second["lag_seconds"], second["unreported"]) == (0.2, 2)


async def test_a_loop_that_is_held_is_noticed_by_itself() -> None:
    """The real clocks and the real loop."""
    with recorded() as journal, LoopWatch(SILENT.loop_lag(), lambda: {"GET /held"}):
        ends = time.thread_time() + 2 * (TICK_S + BUDGET_S)
        while time.thread_time() < ends:
            pass
        await journal.seen(LATE)
    assert journal.all(LATE)[0]["routes"] == ["GET /held"]
