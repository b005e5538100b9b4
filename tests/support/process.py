"""A server in a process of its own: for signals, command lines and clients that block."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from aviso_server.core.json import Json

PATIENCE_S = 120
"""Machines are shared: nothing is too late before this."""


class ServerProcess:
    """``aviso-server serve`` on a port the system picked."""

    def __init__(self, config: Path, *arguments: str) -> None:
        self._lines: list[str] = []
        self._grown = threading.Condition()
        self._started = threading.Event()
        self.url = ""
        environ = {k: v for k, v in os.environ.items() if not k.startswith("AVISOSERVER_")}
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "aviso_server",
                "serve",
                "--config",
                str(config),
                "--port",
                "0",
                *arguments,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environ,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._started.wait(PATIENCE_S) or not self.url:
            self.kill()
            raise AssertionError("the server did not start:\n" + "".join(self._lines))

    @property
    def output(self) -> str:
        """Everything printed so far."""
        return "".join(self._lines)

    @property
    def faults(self) -> list[str]:
        """What it says of faults of its own; what clients sent it may quote, whatever that says."""
        return [line for line in tuple(self._lines) if _is_fault(line)]

    def printed(self, text: str, *, times: int = 1, timeout_s: float = PATIENCE_S) -> None:
        """Wait until that many lines contain ``text``."""
        with self._grown:
            assert self._grown.wait_for(
                lambda: sum(text in line for line in self._lines) >= times, timeout_s
            ), f"no {text!r} in:\n{self.output}"

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def wait(self, timeout_s: float = PATIENCE_S) -> int:
        """The exit code, once the process has ended by itself."""
        code = self.process.wait(timeout_s)
        self._reader.join(PATIENCE_S)
        return code

    def kill(self) -> None:
        """End the process whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)
        # Its children hold the other end of the pipe until they have noticed.
        self._reader.join(PATIENCE_S)

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                with self._grown:
                    self._lines.append(line)
                    self._grown.notify_all()
                if "startup.server.started" in line:
                    self.url = _url(line)
                    self._started.set()
        self._started.set()


def _is_fault(line: str) -> bool:
    try:
        record = json.loads(line)
    except ValueError:
        return line.startswith(("Traceback", "Unhandled"))
    return record["severityText"] == "ERROR" or "exception.stacktrace" in record["attributes"]


def _url(line: str) -> str:
    attributes = json.loads(line)["attributes"]
    return str(attributes["swagger_url"]).removesuffix("/swagger-ui/")


def kernel_file(pid: int, name: str) -> bytes:
    """What the kernel says of a process, if it is still there."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be collected does not."""
    state = kernel_file(pid, "stat").rpartition(b")")[2].split()[:1]
    return state not in ([], [b"Z"])


@contextmanager
def server_process(
    document: dict[str, Json], folder: Path, *arguments: str
) -> Iterator[ServerProcess]:
    """Run a server with this configuration; it is ended with the block."""
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump(document))
    server = ServerProcess(config, *arguments)
    try:
        yield server
    finally:
        server.kill()
