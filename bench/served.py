"""A server process to measure: started on a free loopback port, watched from outside."""

import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import jwt
from bench.crew import HOST
from bench.tree import family

HERE = Path(__file__).resolve().parent
CONFIG = HERE.parent / "examples" / "config.yaml"

SECRET = secrets.token_hex(32)
HOUR_S = 3600
AUTH: dict[str, object] = {
    "enabled": True,
    "mode": "trusted_proxy",
    "jwt_secret": SECRET,
    "admin_roles": {"bench": ["producer"]},
}

START_S = 30
STOP_S = 35
"""The server may take 30 s to stop."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the server runs with, besides the example configuration."""

    log_level: str = "warn"
    batch_size: int | None = None
    """``watch_endpoint.replay_batch_size``; None keeps the default."""
    backend: str = "in_memory"
    """``in_memory``, or ``jetstream`` for the embedded server with a store of its own."""
    workers: int = 1
    """Processes behind the port, for ``jetstream``."""
    profile_dir: Path | None = None
    """Where to put a cProfile file per server; None measures without a profiler."""
    nats_url: str | None = None
    """A NATS server of the benchmark's own, for ``jetstream``; None starts an embedded one."""
    returns_memory: bool = False
    """Whether the server uses the allocator of C, which gives free pages back when it is asked.

    Python's own keeps most of what it had at its peak, for the next time. That hides what is held.
    """

    guarded: bool = False
    """Whether access control and metrics are on; requests then need the ``credential``."""

    @property
    def credential(self) -> str | None:
        """What an administrator of a guarded server sends as ``Authorization``."""
        if not self.guarded:
            return None
        ends = int(time.time()) + HOUR_S
        claims = {"exp": ends, "username": "bench", "realm": "bench", "roles": ["producer"]}
        return f"Bearer {jwt.encode(claims, SECRET, 'HS256')}"

    def overrides(self, store: Path) -> dict[str, object]:
        """The settings that differ from the example file."""
        # The cap of 10 000 would cut the replay short; the load must be served whole.
        watch: dict[str, object] = {"max_historical_notifications": 10_000_000}
        if self.batch_size is not None:
            watch["replay_batch_size"] = self.batch_size
        jetstream: dict[str, object] = {"embedded": True, "store_dir": str(store)}
        if self.nats_url is not None:
            # A tail that is full soon: what fills it must not look like memory that is kept.
            tail = {"memory_tail_bytes": "1Mi"}
            jetstream = {"embedded": False, "nats_url": self.nats_url, **tail}
        guard: dict[str, object] = {}
        if self.guarded:
            guard = {"auth": AUTH, "metrics": {"enabled": True, "port": free_port()}}
        return {
            "application": {"host": "127.0.0.1", "port": 0},
            "logging": {"level": self.log_level},
            "notification_backend": {"kind": self.backend, "jetstream": jetstream},
            "watch_endpoint": watch,
            # The whole load comes from one address.
            "limits": {"max_streams_per_address": 0},
            "lake": {"path": None, "archive": "off"},
            **guard,
        }


@dataclass(frozen=True, slots=True)
class Served:
    """A running server."""

    pid: int
    port: int
    processes: tuple[int, ...]
    """It and its workers, if it has any."""
    _told: TextIO
    """What the process says: its port, and its tasks when it is asked."""

    def cpu_s(self) -> float:
        """CPU time used so far; that of an embedded NATS server is not its own."""
        return sum(map(cpu_s, self.processes))

    def rss_bytes(self) -> int:
        """Resident memory now."""
        return rss_bytes(self.pid)

    def descriptors(self) -> int:
        """Open files and sockets now."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def tasks(self) -> int:
        """Tasks on its event loop now; what garbage holds is collected before."""
        os.kill(self.pid, signal.SIGUSR1)
        return _number(self._told)


def rss_bytes(pid: int) -> int:
    """Resident memory of another process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def cpu_s(pid: int) -> float:
    """CPU time of another process, in nanosecond steps.

    This is the clock id that clock_getcpuclockid(3) returns on Linux. /proc counts in steps of
    10 ms, too coarse for short runs.
    """
    return time.clock_gettime((~pid << 3) | 2)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server((HOST, 0)) as held:
        return int(held.getsockname()[1])


@contextmanager
def served(conditions: Conditions, name: str) -> Iterator[Served]:
    """Run a fresh server for one measurement; it is stopped with the block."""
    with tempfile.TemporaryFile("w+") as log, tempfile.TemporaryDirectory() as store:
        process, address = _start(conditions, name, log.fileno(), Path(store))
        try:
            try:
                port = _number(address)
            except TimeoutError:
                log.seek(0)
                raise SystemExit("the server did not start:\n" + log.read()) from None
            yield Served(process.pid, port, _servers(process.pid), address)
        finally:
            address.close()
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _servers(pid: int) -> tuple[int, ...]:
    """A server and its workers, without its NATS server."""
    named = ((each, Path(f"/proc/{each}/comm").read_text().strip()) for each in family(pid))
    return tuple(each for each, name in named if name != "nats-server")


def _start(
    conditions: Conditions, name: str, log: int, store: Path
) -> tuple[subprocess.Popen[bytes], TextIO]:
    reading, writing = os.pipe()
    overrides = json.dumps(conditions.overrides(store))
    arguments = [str(CONFIG), overrides, str(writing), str(conditions.workers)]
    if conditions.profile_dir is not None:
        arguments.append(str(conditions.profile_dir / f"{name}.prof"))
    process = subprocess.Popen(
        [sys.executable, str(HERE / "child.py"), *arguments],
        stdout=log,
        stderr=subprocess.STDOUT,
        env={**os.environ, **({"PYTHONMALLOC": "malloc"} if conditions.returns_memory else {})},
        pass_fds=[writing],
    )
    os.close(writing)
    return process, os.fdopen(reading)


def _number(told: TextIO) -> int:
    """The next number the process tells; TimeoutError when it ended or took too long."""
    ready, _, _ = select.select([told], [], [], START_S)
    line = told.readline() if ready else ""
    if not line:
        raise TimeoutError
    return int(line)
