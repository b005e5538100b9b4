"""The ledger of a delivery: what is done, durable before anything more is sent.

One JSON object per line. The first says which delivery it is, and pins its range; each other one
says up to which position everything is at the server, and where the server's stream ended then. A
line that was cut short by a crash was never relied on, and is dropped.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from aviso_server.core.errors import AvisoError
from aviso_server.process import lock, sync_folder

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


class DeliveryLedger:
    """An open ledger, which no other process can open."""

    def __init__(self, folder: Path, head: LedgerHead) -> None:
        with ExitStack() as files:
            self._file = files.enter_context(_lock(folder, LEDGER))
            self._rejected = files.enter_context((folder / REJECTED).open("a+b"))
            self.resumed, self.head, self.line = self._read(folder, head)
            sync_folder(folder)
            self._files = files.pop_all()

    def note(self, line: LedgerLine, rejected: bytes = b"") -> None:
        """Write down what is done; on return it is on the disk."""
        if rejected:
            _append(self._rejected, rejected)
        _append(self._file, json.dumps(asdict(line)).encode() + b"\n")
        self.line = line

    def close(self) -> None:
        """Let others have it."""
        self._files.close()

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
            _append(self._file, json.dumps(asdict(head)).encode() + b"\n")
        # What was rejected after the last line will be rejected again.
        self._rejected.truncate(line.rejected_bytes)
        self._rejected.seek(0, os.SEEK_END)
        return bool(lines), head, line


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder while the block runs; LedgerFailed if another process has it."""
    with _lock(folder, "lock"):
        yield


def _lock(folder: Path, name: str) -> IO[bytes]:
    """A file in a folder that is made if need be, ours until it is closed; LedgerFailed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return lock(folder / name)
    except BlockingIOError:
        raise LedgerFailed(f"another process is using the state folder {folder}") from None
    except OSError as error:
        raise LedgerFailed(f"the state folder {folder} cannot be used: {error}") from error


def _append(file: IO[bytes], data: bytes) -> None:
    """On the disk when this returns."""
    file.write(data)
    file.flush()
    os.fsync(file.fileno())
