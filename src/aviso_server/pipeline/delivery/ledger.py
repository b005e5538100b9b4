"""The ledger of a delivery: what is done, durable before anything more is sent.

One JSON object per line. The first says which delivery it is, and pins its range; each other one
says up to which position everything is at the server, and where the server's stream ended then. A
line that was cut short by a crash was never relied on, and is dropped.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from aviso_server.core.errors import AvisoError

LEDGER = "ledger.jsonl"
REJECTED = "rejected.ndjson"


class LedgerFailed(AvisoError):
    """A folder cannot hold this delivery's ledger; the message says why."""


@dataclass(frozen=True, slots=True)
class LedgerHead:
    """Which delivery it is."""

    job: Mapping[str, str]
    first: int
    last: int
    """Positions that are to be delivered."""
    batch: int
    """Notifications in one request: that many may be at the server and not in the ledger."""
    chunk: int = 0
    """Positions read together; no request reaches beyond them."""


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """How far a delivery has come."""

    through: int
    """Everything up to this position is at the server, or was rejected."""
    target: int | None = None
    """Last sequence of the server's stream that was ours, or was there before we began; None while
    nothing was sent."""
    published: int = 0
    """Notifications that the server has."""
    rejected: int = 0
    rejected_bytes: int = 0
    """Length of the file of rejected ones."""
    complete: bool = False
    added: int = 0
    """How many of the published ones got a new sequence when they were sent."""


class Ledger:
    """An open ledger, which no other process can open."""

    def __init__(self, folder: Path, head: LedgerHead) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file: BinaryIO = (folder / LEDGER).open("a+b", buffering=0)
            self._rejected: BinaryIO = (folder / REJECTED).open("a+b", buffering=0)
        except OSError as error:
            raise LedgerFailed(f"the state folder {folder} cannot be used: {error}") from error
        try:
            lock(self._file, folder)
            self.resumed, self.head, self.line = self._read(folder, head)
        except BaseException:
            self.close()
            raise
        _sync_folder(folder)

    def note(self, line: LedgerLine, rejected: bytes = b"") -> None:
        """Write down what is done; on return it is on the disk."""
        if rejected:
            self._rejected.write(rejected)
            os.fsync(self._rejected.fileno())
        self._append(asdict(line))
        self.line = line

    def close(self) -> None:
        """Let others have it."""
        self._rejected.close()
        self._file.close()

    def _read(self, folder: Path, asked: LedgerHead) -> tuple[bool, LedgerHead, LedgerLine]:
        """What is written down, or the beginning of a new ledger."""
        self._file.seek(0)
        whole, end = [], 0
        for text in self._file.read().splitlines(keepends=True):
            if not text.endswith(b"\n"):
                break
            whole.append(text)
            end += len(text)
        self._file.truncate(end)
        try:
            lines = [json.loads(text) for text in whole]
            head = LedgerHead(**lines[0]) if lines else asked
            line = LedgerLine(**lines[-1]) if lines[1:] else LedgerLine(head.first - 1)
        except (ValueError, TypeError) as error:
            raise LedgerFailed(f"{folder / LEDGER} is not a ledger of a delivery") from error
        if head.job != asked.job:
            differing = ", ".join(k for k in asked.job if head.job.get(k) != asked.job[k])
            raise LedgerFailed(
                f"the state folder {folder} belongs to another delivery (differing: {differing}): "
                "use another one, or repeat the command that it was made with"
            )
        if not lines:
            self._append(asdict(head))
        # What was rejected after the last line will be rejected again.
        self._rejected.truncate(line.rejected_bytes)
        self._rejected.seek(0, os.SEEK_END)
        return bool(lines), head, line

    def _append(self, line: Mapping[str, object]) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")
        os.fsync(self._file.fileno())


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder while the block runs; LedgerFailed if another process has it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "lock").open("wb")
    except OSError as error:
        raise LedgerFailed(f"the state folder {folder} cannot be used: {error}") from error
    with file:
        lock(file, folder)
        yield


def lock(file: BinaryIO, folder: Path) -> None:
    """Lock a file until it is closed; LedgerFailed if another process has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LedgerFailed(f"another process is using the state folder {folder}") from None
    except OSError as error:
        raise LedgerFailed(f"the state folder {folder} cannot be locked: {error}") from error


def _sync_folder(folder: Path) -> None:
    """Make the names of new files durable too."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
