"""``aviso-server pipeline replay``: history to files or to another server."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from aviso_server.cli.jobs import (
    LakeGroup,
    SparkGroup,
    data_loss_option,
    pairs,
    target,
    token_option,
)
from aviso_server.cli.options import REQUIRED, argument, flag, option
from aviso_server.cli.runs import RunGroup
from aviso_server.cli.shared import ConfigGroup
from aviso_server.core.cursor import parse_sequence
from aviso_server.core.errors import AvisoError
from aviso_server.lake.layout import NOTIFICATIONS
from aviso_server.pipeline.history import plan
from aviso_server.pipeline.history.plan import Question, make_plan
from aviso_server.pipeline.replay.job import earlier_outcome, run
from aviso_server.pipeline.replay.options import (
    Format,
    ReplayFiles,
    ReplayOptions,
    ReplayOutcome,
    ReplayServer,
)
from aviso_server.pipeline.replay.options import Progress as ReplayProgress
from aviso_server.pipeline.runs.run import Dataset
from aviso_server.pipeline.sink.options import absolute
from aviso_server.pipeline.spark.session import job_session
from aviso_server.server.joboptions import source_options
from aviso_server.settings import Settings

EPILOG = """\
\b
Examples:
  aviso-server pipeline replay mars --config config.yaml --output mars.parquet
  aviso-server pipeline replay mars --lake var/lake --from-date 2026-01-01T00:00:00Z \\
      --filter '{"step": {"lte": 24}}' --format ndjson --output events
  aviso-server pipeline replay mars --lake var/lake --log nats://127.0.0.1:4222 \\
      --to-server https://other.example --rate 2000 --state var/replay-mars

\b
Without --lake and --log the configuration says where the notifications are. Files appear all at
once, or not at all. A replay to a server that was stopped or killed goes on where it was when the
command is repeated with the same state folder: nothing is published twice, nothing is left out.

\b
Exit code 0: done. 1: one line on stderr says what is wrong. 2: wrong usage. 130: interrupted.
"""


@dataclass(frozen=True, kw_only=True)
class QuestionGroup:
    """What is replayed, and where it is."""

    event_type: str = argument(REQUIRED, "EVENT_TYPE")
    filter: str | None = option(None, "JSON", "Filter, as the identifier of a replay request.")
    from_id: str | None = option(None, "ID", "First sequence.", otherwise="the first there is")
    from_date: str | None = option(None, "TIME", "Only what was stored at or after this time.")
    to_id: str | None = option(
        None, "ID", "Last sequence.", otherwise="the last one when the job starts"
    )
    to_date: str | None = option(None, "TIME", "Only what was stored at or before this time.")
    log: str | None = option(
        None,
        "URL",
        "Server with the log: nats://... or http://...",
        otherwise="as configured, unless --lake is given",
    )
    log_option: list[str] | None = option(
        None,
        "NAME=VALUE",
        "Option of the Spark source for the log, such as token=SECRET. May be repeated.",
    )
    fail_on_data_loss: bool = data_loss_option(default=True)

    def check(self) -> None:
        """End the command if the options do not go together."""
        _point(from_id=self.from_id, from_date=self.from_date)
        _point(to_id=self.to_id, to_date=self.to_date)
        pairs("--log-option", self.log_option)

    def ask(self, lake: LakeGroup, settings: Settings | None) -> Question:
        """The question, to be asked where the command line says, else where the settings say."""
        log = self._log(lake, settings)
        extra = pairs("--log-option", self.log_option)
        asked = plan.question(
            self.event_type,
            lake=None if lake.lake is None and self.log is not None else lake.place(settings),
            log=None if log is None else {**log, **extra},
            schemas={} if settings is None else settings.catalogue.schemas,
            start=_point(from_id=self.from_id, from_date=self.from_date),
            end=_point(to_id=self.to_id, to_date=self.to_date),
            fail_on_data_loss=self.fail_on_data_loss,
        )
        return replace(asked, identifier=self.filter)

    def _log(self, lake: LakeGroup, settings: Settings | None) -> dict[str, str] | None:
        if self.log is not None:
            return plan.log_options(self.log)
        if lake.lake is not None or settings is None:
            return None
        if settings.notification_backend.kind != "jetstream":
            return None
        return source_options(settings)


@dataclass(frozen=True, kw_only=True)
class FilesGroup:
    """Files to write."""

    output: str | None = option(
        None, "PATH", "Folder or URL to write to, which must not exist yet."
    )
    format: Format = option("parquet", "parquet|delta|ndjson", "Format of the files.")
    typed: bool = flag("Add a column with its own type for each field.", "--typed")
    base_url: str | None = option(
        None, "URL", "Source of CloudEvents.", otherwise="application.base_url"
    )
    polygon_text: bool = flag(
        "Write polygons in CloudEvents as producers spelled them.", "--polygon-text"
    )

    def files(self, path: str, lake: LakeGroup, settings: Settings | None) -> ReplayFiles:
        """The target."""
        if self.typed and self.format == "ndjson":
            raise typer.BadParameter("CloudEvents have no columns", param_hint="--typed")
        configured = "http://localhost:8000"
        if settings is not None:
            configured = settings.application.base_url
        return ReplayFiles(
            path=absolute(path),
            format=self.format,
            base_url=self.base_url or configured,
            typed=self.typed,
            polygon_text=self.polygon_text,
            storage=lake.storage,
        )


@dataclass(frozen=True, kw_only=True)
class ServerGroup:
    """A server to publish to."""

    to_server: str | None = option(None, "URL", "Publish to this server, write no files.")
    state: Path | None = option(
        None, "FOLDER", "Folder that records what is published, needed for --to-server."
    )
    rate: float | None = option(None, "N", "Most notifications to publish in a second.", min=0.001)
    batch_size: int = option(500, "N", "Most notifications in one request.", min=1, max=5000)
    token: str | None = token_option()
    skip_rejected: bool = flag("Skip what the server rejects, and continue.", "--skip-rejected")

    def server(self, url: str) -> ReplayServer:
        """The target."""
        if self.state is None:
            raise typer.BadParameter(
                "a replay to a server keeps a ledger: say in which folder", param_hint="--state"
            )
        sink = replace(target(url, token=self.token, rate=self.rate), batch_size=self.batch_size)
        return ReplayServer(target=sink, state=self.state, skip_rejected=self.skip_rejected)


def replay(
    *,
    config: ConfigGroup,
    question: QuestionGroup,
    lake: LakeGroup,
    files: FilesGroup,
    server: ServerGroup,
    spark: SparkGroup,
    observe: RunGroup,
) -> None:
    """Write or publish, and print what was done in a line."""
    if (files.output is None) == (server.to_server is None):
        raise typer.BadParameter("give one of --output and --to-server")
    question.check()
    pairs("--storage-option", lake.storage_option)
    begun = time.monotonic()
    with observe.job("replay") as noted:
        # With explicit places no configuration is needed.
        named = lake.lake is not None or question.log is not None
        settings = None if named and config.config is None else config.load()
        asked = question.ask(lake, settings)
        if files.output is not None:
            files_ = files.files(files.output, lake, settings)
            options, where = ReplayOptions(question=asked, target=files_), files_.path
        else:
            server_ = server.server(server.to_server or "")
            options, where = ReplayOptions(question=asked, target=server_), server_.target.url
        if asked.place is not None:
            noted.reads(Dataset.at(asked.place.table(NOTIFICATIONS)))
        if asked.log is not None:
            noted.reads(Dataset.of_log({**asked.log, "eventType": asked.event_type}))
        noted.writes(Dataset.at(where))
        spark_options = spark.options("replay")
        reads = make_plan(asked)
        outcome = earlier_outcome(options, reads)
        if outcome is None:
            with job_session(spark_options) as session, _show_progress(question.event_type) as show:
                outcome = run(session, options, report=show, plan=reads)
        noted.rows.update(written=outcome.rows, rejected=outcome.rejected)
    typer.echo(_summary(question.event_type, outcome, where, time.monotonic() - begun))


def _point(**points: str | None) -> int | str | None:
    """A sequence or a time: the first or the second of two options, not both."""
    (one, sequence), (other, moment) = points.items()
    options = [f"--{name.replace('_', '-')}" for name in (one, other)]
    if sequence is None:
        return moment
    if moment is not None:
        raise typer.BadParameter(f"give one of {options[0]} and {options[1]}")
    try:
        return parse_sequence(options[0], sequence)
    except AvisoError as error:
        raise typer.BadParameter(error.message, param_hint=options[0]) from None


@contextmanager
def _show_progress(event_type: str) -> Iterator[Callable[[ReplayProgress], None]]:
    """A function that shows progress; a bar on a terminal, nothing in a pipe."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[rows]:,} rows"),
        TextColumn("{task.fields[rate]:,.0f}/s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(f"replay {event_type}", total=None, rows=0, rate=0.0)
        begun = time.monotonic()

        def show(progress: ReplayProgress) -> None:
            seconds = max(time.monotonic() - begun, 0.001)
            bar.update(
                task,
                total=progress.all,
                completed=progress.done,
                rows=progress.rows,
                rate=(progress.rows - progress.resumed) / seconds,
            )

        yield show


def _summary(event_type: str, outcome: ReplayOutcome, target: str, seconds: float) -> str:
    parts = [f"{outcome.rows:,} notifications of {event_type}"]
    if outcome.last >= outcome.first:
        parts.append(f"from sequences {outcome.first} to {outcome.last}")
    files = f" ({outcome.files} files)" if outcome.files else ""
    parts.append(f"to {target}{files} in {seconds:.1f} s")
    if outcome.resumed:
        parts.append(f"{outcome.resumed:,} of them by earlier runs")
    if outcome.rejected:
        parts.append(f"{outcome.rejected:,} rejected, see rejected.ndjson in the state folder")
    return ", ".join(parts)
