"""What an ingest remembers in its folder, so that running it again is harmless.

    run.json             which sources, and how far the run is
    staged/              its judged rows, while it lasts
    ledger/NAME.json     per event type: chunks that the server has
    refused/             rows the server did not take, a file for each chunk
    published/run=ID     keys of rows that earlier runs published

A run that was ended goes on where it was: its rows are staged, in a fixed order, and cut into
chunks of fixed size. Rows of runs before it are known by their keys. The server's own memory of
keys, two minutes, covers the one chunk that was under way; later its history is looked at.
"""

import contextlib
import fcntl
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from aviso_server.core.errors import AvisoError
from aviso_server.core.json import UNREADABLE

Stage: TypeAlias = Literal["staging", "publishing", "done"]

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


class StateFailed(AvisoError):
    """The state folder cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A kind of rejection, with one example."""

    code: str
    field: str | None
    count: int
    example: str


@dataclass(frozen=True, slots=True)
class Run:
    """One ingest."""

    digest: str
    """Of sources, mapping, rules and target."""
    id: str
    stage: Stage
    read: int = 0
    rejected: int = 0
    published: int = 0
    reasons: tuple[Reason, ...] = ()
    """Of what was rejected; known when it is done, as is what follows."""
    dead_letters: str | None = None
    """Where rejected rows are."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """How far an event type is published."""

    chunks: int = 0
    """Chunks that are done."""
    published: int = 0
    repeated: int = 0
    refused: int = 0
    last: int = 0
    """Highest sequence the server gave, or had before anything was sent."""
    trying_since: float | None = None
    """When the chunk after them was begun, seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class State:
    """A folder that driver and executors share."""

    folder: Path
    staged: Path = field(init=False)
    refused: Path = field(init=False)
    published: Path = field(init=False)

    def __post_init__(self) -> None:
        for name in ("staged", "refused", "published"):
            object.__setattr__(self, name, self.folder / name)

    def begun(self, digest: str) -> Run | None:
        """The run in the folder if it has these sources; StateFailed if another is unfinished."""
        try:
            run = msgspec.json.decode((self.folder / "run.json").read_bytes(), type=Run)
        except FileNotFoundError:
            return None
        except (OSError, *UNREADABLE) as error:
            raise StateFailed(f"cannot read {self.folder / 'run.json'}: {error}") from error
        if run.digest == digest:
            return run
        if run.stage == "publishing":
            raise StateFailed(
                f"an ingest of other sources, or to another server, was not finished in "
                f"{self.folder}: run that one again, or use another folder"
            )
        return None

    def begin(self, digest: str) -> Run:
        """A new run, with nothing of the last one but the keys it published."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.clear()
        except OSError as error:
            raise StateFailed(f"cannot use the folder {self.folder}: {error}") from error
        run = Run(digest, uuid.uuid4().hex, "staging")
        self.note(run)
        return run

    def note(self, run: Run) -> None:
        """Remember how far the run is."""
        _replace(self.folder / "run.json", msgspec.json.encode(run))

    def clear(self) -> None:
        """Remove what only a running ingest needs."""
        for path in (self.staged, self.refused, self.folder / "ledger"):
            shutil.rmtree(path, ignore_errors=True)

    def ledger(self, event_type: str) -> Ledger:
        """What is done of an event type."""
        try:
            return msgspec.json.decode(self._ledger(event_type).read_bytes(), type=Ledger)
        except FileNotFoundError:
            return Ledger()

    def write_ledger(self, event_type: str, ledger: Ledger) -> None:
        """Remember what is done; on the disk when this returns."""
        path = self._ledger(event_type)
        path.parent.mkdir(exist_ok=True)
        _replace(path, msgspec.json.encode(ledger))

    def ledgers(self) -> list[Ledger]:
        """Of all event types."""
        found = sorted((self.folder / "ledger").glob("*.json"))
        return [msgspec.json.decode(path.read_bytes(), type=Ledger) for path in found]

    def refused_file(self, event_type: str, chunk: int) -> Path:
        """Where refused rows of a chunk go."""
        self.refused.mkdir(exist_ok=True)
        return self.refused / f"{_name(event_type)}-{chunk:09d}.parquet"

    def _ledger(self, event_type: str) -> Path:
        return self.folder / "ledger" / f"{_name(event_type)}.json"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep others out of a folder while the block runs; StateFailed if somebody is in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
    except BlockingIOError:
        raise StateFailed(f"another ingest is using the folder {folder}") from None
    except (FileExistsError, NotADirectoryError, PermissionError) as error:
        raise StateFailed(f"cannot use the folder {folder}: {error}") from error


def _name(event_type: str) -> str:
    """A file name that no other event type has; case may not matter to the file system."""
    return f"{_UNSAFE.sub('_', event_type)}-{event_type.encode().hex()[:64]}"


def _replace(path: Path, data: bytes) -> None:
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
