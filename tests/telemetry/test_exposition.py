"""Several processes on one page (decision 0008)."""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st
from support.fuzz import examples
from support.metrics import Page, parsed

from aviso_server.core.operation import Operation
from aviso_server.telemetry.cells import Cells
from aviso_server.telemetry.exposition import Ledger, Processes, render
from aviso_server.telemetry.metrics import Metrics


class Worker:
    """A process that counts in a folder."""

    def __init__(self, ledger: Ledger, folder: Path) -> None:
        self.folder = folder
        ledger.join(folder)
        self.metrics = Metrics(Cells.shared(folder), version="1", backend="jetstream")


def page(ledger: Ledger) -> Page:
    """What a scrape would see."""
    return parsed(render(ledger.snapshot(), []).decode())


@settings(max_examples=examples(40))
@given(
    steps=st.lists(st.sampled_from(["a", "b", "end a", "end b"]), max_size=25),
    seen=st.sets(st.integers(0, 24), max_size=3),
)
def test_totals_are_exact_and_never_fall(steps: list[str], seen: set[int]) -> None:
    """Counters and histograms are what all processes counted, those that ended included."""
    with TemporaryDirectory() as base:
        ledger, made, sent = Ledger(), 0, 0
        crew: dict[str, Worker] = {}
        last = page(ledger).growing()
        for number, step in enumerate(steps):
            name = step[-1]
            if step.startswith("end"):
                if worker := crew.pop(name, None):
                    ledger.leave(worker.folder)
            else:
                if name not in crew:
                    made += 1
                    crew[name] = Worker(ledger, Path(base) / str(made))
                sent += 1
                crew[name].metrics.notified("ev", "success")
                crew[name].metrics.auth_decided("direct", "success", 0.003)
            if number not in seen and step is not steps[-1]:
                continue  # a page costs more than all that is counted on it
            now = page(ledger)
            assert now.total("aviso_auth_duration_seconds_count") == sent
            assert now.total("aviso_notifications_total") == sent
            assert all(now.growing()[key] >= value for key, value in last.items())
            last = now.growing()


def test_gauges_are_those_of_the_living(tmp_path: Path) -> None:
    """Streams add up, and those of a process that ended are gone."""
    ledger = Ledger()
    first, second = (Worker(ledger, tmp_path / name) for name in "ab")
    for worker, count in ((first, 2), (second, 3)):
        worker.metrics.stream(Operation.WATCH, "ev").active.add(count)
        worker.metrics.queues_seen([count, 1])
    assert page(ledger).total("aviso_sse_connections_active") == 5
    assert page(ledger).value("aviso_sse_queued_notifications") == 7
    assert page(ledger).value("aviso_sse_queue_depth_max") == 3
    assert page(ledger).value("aviso_build_info", version="1") == 1
    ledger.leave(second.folder)
    assert page(ledger).total("aviso_sse_connections_active") == 2
    assert not list(second.folder.iterdir())


def test_connected_means_all_of_them(tmp_path: Path) -> None:
    """One worker without its backend is enough for an alert."""
    ledger = Ledger()
    first, second = (Worker(ledger, tmp_path / name) for name in "ab")
    first.metrics.backend_seen(connected=True, reconnects=1, fault=None)
    assert page(ledger).value("aviso_backend_connected", backend="jetstream") == 0
    assert page(ledger).value("aviso_backend_storing", backend="jetstream") == 0
    second.metrics.backend_seen(connected=True, reconnects=2, fault="store_full")
    assert page(ledger).value("aviso_backend_connected", backend="jetstream") == 1
    assert page(ledger).value("aviso_backend_reconnects_total", backend="jetstream") == 3
    fault = {"backend": "jetstream", "reason": "store_full"}
    assert page(ledger).value("aviso_backend_fault", **fault) == 1
    second.metrics.backend_seen(connected=True, reconnects=2, fault=None)
    assert page(ledger).value("aviso_backend_fault", **fault) == 0
    assert page(ledger).value("aviso_backend_storing", backend="jetstream") == 1


def test_a_user_of_two_workers_is_one_user(tmp_path: Path) -> None:
    """Different users are counted over all processes, not per process and added up."""
    ledger = Ledger()
    first, second = (Worker(ledger, tmp_path / name) for name in "ab")
    with (
        first.metrics.stream(Operation.WATCH, "ev").alive("ada"),
        second.metrics.stream(Operation.WATCH, "ev").alive("ada"),
        second.metrics.stream(Operation.WATCH, "ev").alive("bob"),
    ):
        assert page(ledger).value("aviso_sse_unique_users_active", route="/api/v1/watch") == 2


def test_a_process_that_is_only_starting(tmp_path: Path) -> None:
    """A folder without files says nothing yet, and one that never got any can be left."""
    ledger = Ledger()
    ledger.join(tmp_path / "none")
    assert page(ledger).total("aviso_notifications_total") == 0
    ledger.leave(tmp_path / "none")


def test_process_series_of_several() -> None:
    """Sums over the processes; processor time stays when one of them has ended."""
    script = "import sys\nfor _ in range(10**6): pass\nprint(flush=True)\nsys.stdin.read()"
    processes = Processes()
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        alone = parsed(render({}, [os.getpid()], processes=Processes()).decode())
        both = parsed(render({}, [os.getpid(), child.pid], processes=processes).decode())
        child.kill()
    after = parsed(render({}, [os.getpid(), child.pid], processes=processes).decode())
    assert both.value("process_open_fds") > alone.value("process_open_fds")
    assert both.value("process_max_fds") <= alone.value("process_max_fds")
    assert after.value("process_cpu_seconds_total") >= both.value("process_cpu_seconds_total")
    assert after.value("process_open_fds") < both.value("process_open_fds")
    assert after.types["process_cpu_seconds_total"] == "counter"
