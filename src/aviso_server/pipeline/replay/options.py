"""What a replay is to do, how it went, and how it fails."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from aviso_server.core.errors import AvisoError
from aviso_server.pipeline.delivery.target import Target
from aviso_server.pipeline.history.plan import Question

Format: TypeAlias = Literal["parquet", "delta", "ndjson"]

CHUNK = 1_000_000
"""Sequences of one Spark job: progress is reported, and a server's rows are sorted, by chunk."""


class ReplayFailed(AvisoError):
    """The replay cannot continue; the message says why in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayFiles:
    """Files that do not exist yet."""

    path: str
    """A folder, or the URL of one."""
    format: Format
    base_url: str = "http://localhost:8000"
    """What CloudEvents name as their source; as application.base_url of a server."""
    polygon_text: bool = False
    """Polygons in CloudEvents as the producer spelled them."""
    typed: bool = False
    """Identifier fields as columns too; not in CloudEvents."""
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Credentials and endpoints, as delta-rs calls them."""
    rows: int = 125_000
    """Sequences of one file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayServer:
    """Another server."""

    target: Target
    state: Path
    """Folder on this machine with the ledger of what is done."""
    skip_rejected: bool = False
    """Continue without what the server rejects; it is recorded beside the ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """A replay."""

    question: Question
    target: ReplayFiles | ReplayServer
    chunk: int = CHUNK


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a replay is."""

    done: int
    """Sequences, of ``all``."""
    all: int
    rows: int
    """Notifications written or published, also by the runs before this one."""
    resumed: int = 0
    """How many of them by the runs before."""


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """What a replay did."""

    rows: int
    """Notifications that are in the files, or at the server."""
    first: int
    last: int
    """The sequences that were asked for; none if ``last < first``."""
    files: int = 0
    resumed: int = 0
    """Notifications that earlier runs had published already."""
    rejected: int = 0


def chunks(first: int, last: int, size: int) -> Iterator[tuple[int, int]]:
    """A range cut into pieces, both ends included."""
    for begin in range(first, last + 1, size):
        yield begin, min(begin + size - 1, last)
