"""The ledger of a replay to a server: what is done, durable before anything more is sent.

One JSON object per line. The first says which replay it is, and pins its range; each other one says
up to which sequence of the source everything is at the server, and where the server's stream was
then. A line that was cut short by a crash was never relied on, and is dropped.
"""

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from aviso_server.pipeline.replay.options import ReplayFailed

LEDGER = "ledger.jsonl"
REJECTED = "rejected.ndjson"


@dataclass(frozen=True, slots=True)
class Entry:
    """How far a replay has come."""

    through: int
    """Everything of the source up to here is at the server, or was rejected."""
    target: int | None = None
    """Last sequence of the server's stream that was ours, or was there before we began."""
    published: int = 0
    rejected: int = 0
    rejected_bytes: int = 0
    """Length of the file of rejected ones."""
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Head:
    """Which replay it is."""

    job: Mapping[str, str]
    first: int
    last: int
    batch: int
    """Notifications in one request: so many may be at the server and not in the ledger."""
    chunk: int
    """Sequences read together; no request reaches beyond them."""


class Ledger:
    """An open ledger, which no other process can open."""

    def __init__(self, folder: Path, head: Head) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file: BinaryIO = (folder / LEDGER).open("a+b", buffering=0)
            self._rejected: BinaryIO = (folder / REJECTED).open("a+b", buffering=0)
        except OSError as error:
            raise ReplayFailed(f"the state folder {folder} cannot be used: {error}") from error
        try:
            self._lock(folder)
            self.resumed, self.head, self.entry = self._read(folder, head)
        except BaseException:
            self.close()
            raise
        _sync_folder(folder)

    def note(self, entry: Entry, rejected: bytes = b"") -> None:
        """Write down what is done; on return it is on the disk."""
        if rejected:
            self._rejected.write(rejected)
            os.fsync(self._rejected.fileno())
        self._append(asdict(entry))
        self.entry = entry

    def close(self) -> None:
        """Let others have it."""
        self._rejected.close()
        self._file.close()

    def _lock(self, folder: Path) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ReplayFailed(f"another replay is using the state folder {folder}") from None

    def _read(self, folder: Path, asked: Head) -> tuple[bool, Head, Entry]:
        """What is written down, or the beginning of a new ledger."""
        self._file.seek(0)
        whole, end = [], 0
        for line in self._file.read().splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break
            whole.append(line)
            end += len(line)
        self._file.truncate(end)
        try:
            lines = [json.loads(line) for line in whole]
            head = Head(**lines[0]) if lines else asked
            entry = Entry(**lines[-1]) if lines[1:] else Entry(head.first - 1)
        except (ValueError, TypeError) as error:
            raise ReplayFailed(f"{folder / LEDGER} is not a ledger of a replay") from error
        if head.job != asked.job:
            differing = ", ".join(k for k in asked.job if head.job.get(k) != asked.job[k])
            raise ReplayFailed(
                f"the state folder {folder} belongs to another replay (differing: {differing}): "
                "use another one, or repeat the command that it was made with"
            )
        if not lines:
            self._append(asdict(head))
        # What was rejected after the last entry will be rejected again.
        self._rejected.truncate(entry.rejected_bytes)
        self._rejected.seek(0, os.SEEK_END)
        return bool(lines), head, entry

    def _append(self, line: Mapping[str, object]) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")
        os.fsync(self._file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make the names of new files durable too."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
