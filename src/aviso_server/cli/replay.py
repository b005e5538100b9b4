"""The command ``aviso-server pipeline replay``."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from aviso_server.cli import sparked
from aviso_server.cli.loading import ConfigFile, load
from aviso_server.core.cursor import parse_sequence
from aviso_server.core.errors import AvisoError

if TYPE_CHECKING:
    from aviso_server.lake.layout import Place
    from aviso_server.pipeline.history.plan import Question
    from aviso_server.pipeline.replay.options import (
        Progress,
        ReplayFiles,
        ReplayOutcome,
        ReplayServer,
    )
    from aviso_server.pipeline.spark.session import SparkOptions

APP = "aviso-server replay"

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

Format: TypeAlias = Literal["parquet", "delta", "ndjson"]
_EventType: TypeAlias = Annotated[str, typer.Argument(metavar="EVENT_TYPE", help="What to replay.")]
_Filter: TypeAlias = Annotated[
    str | None, typer.Option(metavar="JSON", help="The identifier of a replay request.")
]
_FromId: TypeAlias = Annotated[
    str | None, typer.Option(metavar="ID", help="First sequence; else the beginning.")
]
_FromDate: TypeAlias = Annotated[
    str | None, typer.Option(metavar="TIME", help="Stored at or after this time.")
]
_ToId: TypeAlias = Annotated[
    str | None, typer.Option(metavar="ID", help="Last sequence; else the end of now.")
]
_ToDate: TypeAlias = Annotated[
    str | None, typer.Option(metavar="TIME", help="Stored at or before this time.")
]
_Lake: TypeAlias = Annotated[
    str | None, typer.Option(metavar="PATH", help="Folder or URL of the lake.")
]
_Log: TypeAlias = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="The log: nats://... or http://...")
]
_LogOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="K=V", help="Option of the Spark source, such as token=T."),
]
_Output: TypeAlias = Annotated[
    str | None, typer.Option(metavar="PATH", help="Folder or URL to write to; must be new.")
]
_Format: TypeAlias = Annotated[
    Format, typer.Option(metavar="parquet|delta|ndjson", help="What the files are.")
]
_Typed: TypeAlias = Annotated[
    bool, typer.Option("--typed", help="Identifier fields as columns with types, too.")
]
_BaseUrl: TypeAlias = Annotated[
    str | None, typer.Option(metavar="URL", help="Source of CloudEvents; from the settings.")
]
_PolygonText: TypeAlias = Annotated[
    bool, typer.Option("--polygon-text", help="Polygons in CloudEvents as producers spell them.")
]
_ToServer: TypeAlias = Annotated[
    str | None, typer.Option(metavar="URL", help="Publish to this server instead.")
]
_State: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="What is done, kept for another run.")
]
_Rate: TypeAlias = Annotated[
    float | None, typer.Option(metavar="N", min=0.001, help="Notifications per second.")
]
_BatchSize: TypeAlias = Annotated[
    int, typer.Option(metavar="N", min=1, max=5000, help="Notifications in one request.")
]
_Token: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="T", envvar="AVISO_TOKEN", help="Bearer token for the server."),
]
_SkipRejected: TypeAlias = Annotated[
    bool, typer.Option("--skip-rejected", help="Go on without what the server does not take.")
]
_FailOnDataLoss: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--fail-on-data-loss/--no-fail-on-data-loss",
        help="Stop if the log was trimmed before it was archived.",
    ),
]


def replay(  # noqa: PLR0913 - the options of a command
    event_type: _EventType,
    config: ConfigFile = None,
    *,
    filter: _Filter = None,  # noqa: A002 - as the source calls it
    from_id: _FromId = None,
    from_date: _FromDate = None,
    to_id: _ToId = None,
    to_date: _ToDate = None,
    lake: _Lake = None,
    log: _Log = None,
    log_option: _LogOption = None,
    output: _Output = None,
    format: _Format = "parquet",  # noqa: A002 - what everybody calls it
    typed: _Typed = False,
    base_url: _BaseUrl = None,
    polygon_text: _PolygonText = False,
    to_server: _ToServer = None,
    state: _State = None,
    rate: _Rate = None,
    batch_size: _BatchSize = 500,
    token: _Token = None,
    skip_rejected: _SkipRejected = False,
    fail_on_data_loss: _FailOnDataLoss = True,
    storage_option: sparked.StorageOption = None,
    master: sparked.Master = None,
    conf: sparked.Conf = None,
    packages: sparked.Packages = None,
    remote: sparked.Remote = None,
    verbose: sparked.Verbose = False,
) -> None:
    """Write a part of the past to files, or publish it to another server."""
    if (output is None) == (to_server is None):
        raise typer.BadParameter("give one of --output and --to-server")
    storage = sparked.pairs("--storage-option", storage_option)
    extra = sparked.pairs("--log-option", log_option)
    start = _point(from_id=from_id, from_date=from_date)
    end = _point(to_id=to_id, to_date=to_date)
    with sparked.told("replay", verbose=verbose):
        need_spark()
        sources = _Sources(config, lake, log, extra, storage_option)
        target: ReplayFiles | ReplayServer
        if output is not None:
            target = _files(output, format, base_url or sources.base_url, storage, typed=typed)
            target = replace(target, polygon_text=polygon_text)
        else:
            target = _server(to_server or "", state, token, rate, batch_size)
            target = replace(target, skip_rejected=skip_rejected)
        asked = sources.question(event_type)
        asked = replace(asked, fail_on_data_loss=fail_on_data_loss)
        _run(
            replace(asked, identifier=filter, start=start, end=end),
            target,
            sparked.spark_options(
                master=master, conf=conf, packages=packages, remote=remote, app_name=APP
            ),
        )


class _Sources:
    """Where the notifications are: what the command line says, else the settings."""

    def __init__(
        self,
        config: Path | None,
        lake: str | None,
        log: str | None,
        extra: Mapping[str, str],
        storage_option: list[str] | None,
    ) -> None:
        self._lake, self._log = lake, log
        self._extra, self._storage_option = extra, storage_option
        # Whoever says where to look needs no configuration.
        self._settings = load(config) if config is not None or not (lake or log) else None

    @property
    def base_url(self) -> str:
        """What CloudEvents name as their source."""
        known = None if self._settings is None else self._settings.application.base_url
        return known or "http://localhost:8000"

    def question(self, event_type: str) -> "Question":
        """The event type, to be asked where it is."""
        from aviso_server.pipeline.history import plan  # noqa: PLC0415 - loaded when used

        settings = self._settings
        said = self._lake is not None or self._log is not None
        log = self._stream() if not said else plan.log_options(self._log) if self._log else None
        return plan.question(
            event_type,
            lake=self._place(),
            log=None if log is None else {**log, **self._extra},
            schemas={} if settings is None else settings.catalogue.schemas,
        )

    def _place(self) -> "Place | None":
        if self._lake is None and self._log is not None:
            return None
        if self._settings is not None:
            return sparked.configured_place(self._settings, self._lake, self._storage_option)
        return None if self._lake is None else sparked.place(self._lake, self._storage_option)

    def _stream(self) -> dict[str, str] | None:
        from aviso_server.server.joboptions import source_options  # noqa: PLC0415 - loaded when used

        if self._settings is None or self._settings.notification_backend.kind != "jetstream":
            return None
        return source_options(self._settings)


def need_spark() -> None:
    """AvisoError, in words, where there is no PySpark."""
    if find_spec("pyspark") is None:
        raise AvisoError(
            "PySpark is not installed; install it with: pip install 'aviso-server[spark]'"
        )


def _run(question: "Question", target: "ReplayFiles | ReplayServer", spark: "SparkOptions") -> None:
    from aviso_server.pipeline.history.plan import make_plan  # noqa: PLC0415 - loaded when used
    from aviso_server.pipeline.replay.job import earlier_outcome, run  # noqa: PLC0415
    from aviso_server.pipeline.replay.options import ReplayFiles, ReplayOptions  # noqa: PLC0415

    begun = time.monotonic()
    plan, options = make_plan(question), ReplayOptions(question=question, target=target)
    outcome = earlier_outcome(options, plan)
    if outcome is None:
        with sparked.session(spark) as session, _shown(question.event_type) as report:
            outcome = run(session, options, report=report, plan=plan)
    where = target.path if isinstance(target, ReplayFiles) else target.target.url
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


def _files(
    path: str,
    format: Format,  # noqa: A002
    base_url: str,
    storage: Mapping[str, str],
    *,
    typed: bool,
) -> "ReplayFiles":
    from aviso_server.pipeline.replay.options import ReplayFiles  # noqa: PLC0415 - loaded when used

    if typed and format == "ndjson":
        raise typer.BadParameter("CloudEvents have no columns", param_hint="--typed")
    return ReplayFiles(
        path=sparked.absolute(path), format=format, base_url=base_url, typed=typed, storage=storage
    )


def _server(
    url: str, state: Path | None, token: str | None, rate: float | None, batch_size: int
) -> "ReplayServer":
    from aviso_server.pipeline.replay.options import ReplayServer  # noqa: PLC0415 - loaded when used

    if state is None:
        raise typer.BadParameter(
            "a replay to a server keeps a ledger: say in which folder", param_hint="--state"
        )
    target = replace(sparked.server(url, token=token, rate=rate), batch_size=batch_size)
    return ReplayServer(target=target, state=state)


@contextmanager
def _shown(event_type: str) -> Iterator[Callable[["Progress"], None]]:
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
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(f"replay {event_type}", total=None, rows=0, rate=0.0)
        begun = time.monotonic()

        def tell(progress: "Progress") -> None:
            seconds = max(time.monotonic() - begun, 0.001)
            bar.update(
                task,
                total=progress.all,
                completed=progress.done,
                rows=progress.rows,
                rate=(progress.rows - progress.resumed) / seconds,
            )

        yield tell


def _summary(event_type: str, outcome: "ReplayOutcome", target: str, seconds: float) -> str:
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
