"""Workers of pytest-xdist that die in a test, of a timeout or a crash.

Two things must hold then. The run goes on to its end: xdist gives the replacement one test, and a
worker begins a test only when it knows the next, so that such a run used to wait for ever. And
what the test had started ends with its worker, whatever session or process group it moved to: the
descendants are known by a variable in their environment.
"""

import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from xdist.scheduler import LoadGroupScheduling
from xdist.workermanage import WorkerController

RUN = "TEST_WORKER_OF_AVISO"
"""Set in the environment of everything that a worker starts; tests may clear `AVISO...`."""


GRACE_S = 3.0
"""What a worker's own children, such as Spark's JVM, have to notice that it is gone."""

GUARDS: "list[subprocess.Popen[bytes]]" = []
"""Kept for as long as this process runs."""


class Scheduling(LoadGroupScheduling):  # type: ignore[misc]  # xdist has no types
    """By group, as xdist does it, and to the end even if a worker dies."""

    def remove_node(self, node: WorkerController) -> str | None:
        """Take back what a worker did not do, but for the test that it died of."""
        work = self.assigned_work.pop(node)
        undone = [(unit, test) for unit in work.values() for test in unit if not unit[test]]
        if not undone:
            return None
        unit, lost = undone[0]
        unit[lost] = True
        self.workqueue.update(
            {group: unit for group, unit in work.items() if False in unit.values()}
        )
        for other in self.assigned_work:
            self._reschedule(other)
        return str(lost)

    def schedule(self) -> None:
        """Give every worker work, a new one two units: with one item alone it would not begin."""
        super().schedule()
        for node in self.nodes:
            self._reschedule(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Scheduling | None:
    """Use ours for groups."""
    return Scheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_configure(config: pytest.Config) -> None:
    """Begin to watch over this process, if tests run in it."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        name = os.environ[RUN] = secrets.token_hex(8)
        # Its standard input ends when this process does. Nobody else holds the other end.
        GUARDS.append(
            subprocess.Popen(
                [sys.executable, __file__, name],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env={key: value for key, value in os.environ.items() if key != RUN},
                start_new_session=True,
            )
        )


def _left_behind(name: str) -> Iterator[int]:
    mark = f"{RUN}={name}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name)
        except OSError:
            continue  # it has ended, or is not ours


def _unmount(name: str) -> None:
    for line in Path("/proc/mounts").read_text().splitlines():
        source, folder, *_ = line.split(" ")
        if source == name:
            subprocess.run(["umount", "--lazy", folder], check=False)


def _guard(name: str) -> None:
    sys.stdin.read()
    threading.Event().wait(GRACE_S)
    # A process may start another while we look: only an empty look is the last.
    seen: set[int] = set()
    while left := set(_left_behind(name)):
        for pid in left - seen:
            with suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
                sys.stderr.write(f"\nended what a test left behind: {pid} {command.decode()}\n")
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        seen |= left
    _unmount(name)


if __name__ == "__main__":
    _guard(sys.argv[1])
