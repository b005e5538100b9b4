"""The archive job in a process of its own: to be told to stop, and to be killed."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from support.config import document, on_jetstream
from support.log import SCHEMAS

from aviso_server.core.json import Json

PATIENCE_S = 240
"""Far more than anything here needs: it only bounds a failing test."""


class ArchiveProcess:
    """``aviso-server pipeline archive`` with its progress as JSON."""

    def __init__(self, config: Path, *arguments: str) -> None:
        folder = config.parent
        environ = {k: v for k, v in os.environ.items() if not k.startswith("AVISOSERVER_")}
        self.lines: list[dict[str, Any]] = []
        self._grown = threading.Condition()
        self._stderr = (folder / "stderr").open("w+")
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "aviso_server", "pipeline", "archive"),
                *("--config", str(config), "--progress", "json", *arguments),
            ],
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            env=environ,
            start_new_session=True,  # so that it can be killed with all it started
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def errors(self) -> str:
        """What it wrote to stderr."""
        return Path(self._stderr.name).read_text()

    def until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait for a line of progress."""

        def found() -> bool:
            return any(map(holds, self.lines)) or not self._reader.is_alive()

        with self._grown:
            assert self._grown.wait_for(found, PATIENCE_S), self.errors
            told = [line for line in self.lines if holds(line)]
        assert told, f"it ended: {self.lines[-1:]} {self.errors}"
        return told[0]

    def stop(self) -> int:
        """Tell it to end; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Its exit code, once it has ended by itself."""
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def ended_within(self, seconds: float) -> bool:
        """Whether it ends in that time."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it and to Spark's processes."""
        os.killpg(self.process.pid, number)

    def kill(self, *, group: bool = True) -> None:
        """End it without notice, alone or with Spark's processes."""
        if self.process.poll() is None and not group:
            self.process.kill()
        with contextlib.suppress(ProcessLookupError):
            if group:
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)

    def close(self) -> None:
        """End whatever is left."""
        self.kill()
        self._stderr.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                if not line.endswith("\n"):
                    break  # killed while it wrote
                with self._grown:
                    self.lines.append(json.loads(line))
                    self._grown.notify_all()
        with self._grown:
            self._grown.notify_all()


@contextmanager
def archive_process(url: str, folder: Path, *arguments: str) -> Iterator[ArchiveProcess]:
    """Run the job on a log, with its lake in the folder; it is ended with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "config.yaml"
    lake: dict[str, Json] = {"lake": {"path": str(folder / "lake")}}
    config.write_text(yaml.safe_dump(document({**on_jetstream(url), **lake}, schemas=SCHEMAS)))
    with configured_archive(config, *arguments) as job:
        yield job


@contextmanager
def configured_archive(config: Path, *arguments: str) -> Iterator[ArchiveProcess]:
    """Run the job as a file configures it; it is ended with the block."""
    job = ArchiveProcess(config, *arguments)
    try:
        yield job
    finally:
        job.close()
