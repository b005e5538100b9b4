"""How the archive job is shown: a live line for people, JSON lines for programs."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from aviso_server.core.json import compact
from aviso_server.pipeline.archive.progress import ArchiveSnapshot, as_json

Style: TypeAlias = Literal["auto", "live", "json", "none"]
Show: TypeAlias = Callable[[ArchiveSnapshot], None]

PLAIN_S = 60.0
"""How often a line is written if there is no terminal."""


@contextmanager
def show_progress(style: Style) -> Iterator[Show]:
    """A function that shows snapshots, while the block runs."""
    if style == "json":
        yield _json
    elif style == "live" or (style == "auto" and sys.stderr.isatty()):
        with live(Console(stderr=True)) as show:
            yield show
    elif style == "auto":
        yield _Sparse().show
    else:
        yield lambda _: None


@contextmanager
def live(console: Console) -> Iterator[Show]:
    """One line that replaces itself, never longer than the terminal is wide."""
    with Live(console=console, refresh_per_second=4) as shown_line:
        yield lambda snapshot: shown_line.update(
            Text(line(snapshot), no_wrap=True, overflow="ellipsis")
        )


def line(snapshot: ArchiveSnapshot) -> str:
    """The job in one line."""
    names = sorted(snapshot.event_types)
    kinds = ", ".join(names) if len(names) <= 3 else f"{len(names)} event types"
    parts = [
        f"archive {snapshot.stage}",
        kinds,
        f"{snapshot.archived:,} archived",
        f"{snapshot.rate:,.0f}/s",
        f"lag {snapshot.lag:,}" + (f" ({_age(snapshot.lag_s)})" if snapshot.lag_s >= 1 else ""),
    ]
    if snapshot.letters:
        parts.append(f"{snapshot.letters:,} dead letters")
    if snapshot.committed_at is not None:
        clock = time.strftime("%H:%M:%S", time.localtime(snapshot.committed_at))
        parts.append(f"last commit {clock}")
    # What ends the job is said on stderr, once.
    if snapshot.error is not None and snapshot.stage != "failed":
        parts.append(snapshot.error)
    return "  ".join(part for part in parts if part)


class _Sparse:
    """A line when the state changes, and now and then between."""

    def __init__(self) -> None:
        self._stage = ""
        self._error: str | None = None
        self._written = 0.0

    def show(self, snapshot: ArchiveSnapshot) -> None:
        """Write a line if there is something to say."""
        now = time.monotonic()
        changed = snapshot.stage != self._stage or snapshot.error != self._error
        if changed or now - self._written >= PLAIN_S:
            self._stage, self._error, self._written = snapshot.stage, snapshot.error, now
            typer.echo(line(snapshot), err=True)


def _json(snapshot: ArchiveSnapshot) -> None:
    typer.echo(compact(as_json(snapshot)).decode())
    sys.stdout.flush()


def _age(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
