"""What an ingest remembers in its folder, so that running it again is harmless.

    run.json             which sources, and how far the run is
    staged/              its validated rows, while it lasts
    delivery/NAME/       per event type: the ledger of what the server has, and what it rejected
    published/run=ID     keys of rows that earlier runs published

An interrupted run resumes where it was: its rows are staged, in a fixed order. Rows of earlier runs
are known by their keys.
"""

import re
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from aviso_server.core.errors import AvisoError
from aviso_server.core.json import UNREADABLE
from aviso_server.process import replace_file

Stage: TypeAlias = Literal["staging", "publishing", "done"]

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


class StateFailed(AvisoError):
    """The state folder cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class RejectReason:
    """A kind of rejection, with one example."""

    code: str
    field: str | None
    count: int
    example: str


@dataclass(frozen=True, slots=True)
class IngestRun:
    """One ingest."""

    digest: str
    """Of sources, mapping, rules and target."""
    id: str
    stage: Stage
    read: int = 0
    rejected: int = 0
    published: int = 0
    reasons: tuple[RejectReason, ...] = ()
    """Of what was rejected; known when it is done, as is what follows."""
    dead_letters: str | None = None
    """Where rejected rows are."""


@dataclass(frozen=True, slots=True)
class IngestState:
    """A folder that driver and executors share."""

    folder: Path

    @property
    def staged(self) -> Path:
        """Where validated rows are."""
        return self.folder / "staged"

    @property
    def published(self) -> Path:
        """Where keys of published rows are."""
        return self.folder / "published"

    @property
    def deliveries(self) -> Path:
        """Where the ledgers are."""
        return self.folder / "delivery"

    def ledger(self, event_type: str) -> Path:
        """A folder that no other event type has; case may not matter to the file system."""
        name = f"{_UNSAFE.sub('_', event_type)}-{event_type.encode().hex()[:64]}"
        return self.deliveries / name

    def run(self, digest: str) -> IngestRun | None:
        """The run in the folder if it has these sources; StateFailed if another is unfinished."""
        try:
            run = msgspec.json.decode((self.folder / "run.json").read_bytes(), type=IngestRun)
        except FileNotFoundError:
            return None
        except (OSError, *UNREADABLE) as error:
            raise StateFailed(f"cannot read {self.folder / 'run.json'}: {error}") from error
        if run.stage == "publishing" and (self.folder / "ledger").exists():
            raise StateFailed(
                f"an ingest in {self.folder} was begun by an earlier version and not finished: "
                "finish it with that version, or look at what the server has and ingest the rest "
                "with another folder"
            )
        if run.digest == digest:
            return run
        if run.stage == "publishing":
            raise StateFailed(
                f"an ingest of other sources, or to another server, was not finished in "
                f"{self.folder}: run that one again, or use another folder"
            )
        return None

    def begin(self, digest: str) -> IngestRun:
        """A new run, with nothing of the last one but the keys it published."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.clear()
        except OSError as error:
            raise StateFailed(f"cannot use the folder {self.folder}: {error}") from error
        run = IngestRun(digest, uuid.uuid4().hex, "staging")
        self.note(run)
        return run

    def note(self, run: IngestRun) -> None:
        """Remember how far the run is."""
        replace_file(self.folder / "run.json", msgspec.json.encode(run), durable=True)

    def clear(self) -> None:
        """Remove what only a running ingest needs."""
        for path in (self.staged, self.deliveries, self.folder / "ledger"):
            shutil.rmtree(path, ignore_errors=True)
