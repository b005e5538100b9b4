"""How a job of the pipeline runs on the command line, ends, and lets others know."""

import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn, cast

import typer
from prometheus_client.registry import Collector

from aviso_server.cli.options import flag, option
from aviso_server.core.errors import AvisoError
from aviso_server.pipeline.runs.metrics import serve_collector, write_metrics
from aviso_server.pipeline.runs.run import JobRun, Outcome
from aviso_server.settings import Settings

if TYPE_CHECKING:
    from aviso_server.pipeline.runs.lineage import Lineage


@dataclass(frozen=True, kw_only=True)
class RunGroup:
    """How others learn what became of a run."""

    metrics_file: Path | None = option(
        None, "FILE", "Write what became of the run here, for Prometheus' textfile collector."
    )
    verbose: bool = flag("Show stack traces of errors.", "--verbose")

    @contextmanager
    def job(self, name: str) -> Iterator[JobRun]:
        """One run of a job, which is told what it reads, writes and counts.

        Errors on purpose become one line and exit code 1; SIGTERM ends the block as Ctrl-C does.
        """
        run, began = JobRun(name), time.time()
        outcome: Outcome = "failed"
        why: str | None = None
        lineage: Lineage | None = None
        before = signal.signal(signal.SIGTERM, _interrupt)
        try:
            lineage = _lineage()
            if lineage is not None:
                _attempt(name, lambda: lineage.begin(run))
            yield run
            why = run.problem
            outcome = "complete" if why is None else "failed"
        except (AvisoError, OSError) as error:
            if self.verbose:
                typer.echo("".join(traceback.format_exception(error)), err=True)
            why = next(iter(str(error).splitlines()), type(error).__name__)
            typer.echo(f"aviso-server pipeline {name}: {why}", err=True)
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            outcome = "interrupted"
            typer.echo(f"aviso-server pipeline {name}: interrupted", err=True)
            raise typer.Exit(130) from None
        finally:
            signal.signal(signal.SIGTERM, before)
            if (path := self.metrics_file) is not None:
                ended = time.time()
                _attempt(name, lambda: write_metrics(path, run, outcome, began=began, ended=ended))
            if lineage is not None:
                _attempt(name, lambda: lineage.end(run, outcome, why))


def serve_metrics(metrics: Collector, port: int | None, settings: Settings) -> None:
    """Let Prometheus scrape a job that runs on, if a port is given for it."""
    if port is not None:
        host = settings.metrics.host
        where = serve_collector(metrics, port, host)
        typer.echo(f"metrics on http://{host}:{where}/metrics", err=True)


def _lineage() -> "Lineage | None":
    """Where OpenLineage's own variables say that somebody wants to know."""
    if not any(name.startswith("OPENLINEAGE_") for name in os.environ):
        return None
    try:
        lineage = import_module("aviso_server.pipeline.runs.lineage")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "openlineage":
            raise
        raise AvisoError(
            "OpenLineage is configured, and its client is not installed; install it with: "
            "pip install 'aviso-server[lineage]'"
        ) from None
    return cast("Lineage", lineage.Lineage(os.environ))


def _attempt(job: str, report: Callable[[], None]) -> None:
    """Tell others; a job does not fail because they do not listen."""
    try:
        report()
    except Exception as error:  # noqa: BLE001 - whatever their client raises
        typer.echo(f"aviso-server pipeline {job}: it could not be reported: {error}", err=True)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
