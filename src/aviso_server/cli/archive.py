"""``aviso-server pipeline archive``: from the log into the lake."""

import traceback
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from aviso_server.cli.loading import ConfigFile, load
from aviso_server.cli.progress import Style, shown
from aviso_server.cli.sparked import (
    Conf,
    Master,
    Packages,
    Remote,
    StorageOption,
    Verbose,
    pairs,
    seconds,
)
from aviso_server.core.errors import AvisoError

if TYPE_CHECKING:
    from aviso_server.pipeline.archive.progress import ArchiveSnapshot
    from aviso_server.server.joboptions import Chosen
    from aviso_server.settings import Settings

Once: TypeAlias = Annotated[
    bool, typer.Option("--once", help="Archive what is there now, then end.")
]
Wait: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="30s", help="How long --once waits for NATS; without it, for ever."),
]
Lake: TypeAlias = Annotated[
    str | None, typer.Option(metavar="PATH", help="Folder or URL of the lake; lake.path.")
]
Interval: TypeAlias = Annotated[
    str | None, typer.Option(metavar="10s", help="Time between two commits.")
]
EventType: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="T", help="Only this one; may be repeated.")
]
Checkpoint: TypeAlias = Annotated[
    str | None, typer.Option(metavar="PATH", help="Spark's bookkeeping; in the lake.")
]
MaxRecords: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Notifications in one commit; 200000.")
]
FailOnDataLoss: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--fail-on-data-loss/--no-fail-on-data-loss",
        help="Stop if the log was trimmed before it was archived; lake.fail_on_data_loss.",
    ),
]
MetricsPort: TypeAlias = Annotated[
    int | None,
    typer.Option(metavar="PORT", min=0, max=65_535, help="Serve Prometheus metrics here."),
]
Progress: TypeAlias = Annotated[
    Style, typer.Option(metavar="auto|live|json|none", help="How progress is shown.")
]
EPILOG = """\
\b
Examples:
  aviso-server pipeline archive --config examples/config.yaml
  aviso-server pipeline archive --config examples/config.yaml --once --lake var/lake
  aviso-server pipeline archive --config examples/config.yaml --master spark://head:7077
  aviso-server pipeline archive --config examples/config.yaml --remote sc://head:15002
  aviso-server pipeline archive --config examples/config.yaml --lake s3://bucket/aviso
      --storage-option AWS_REGION=eu-west-1 --packages org.apache.hadoop:hadoop-aws:3.5.0

\b
It reads the log in NATS JetStream that the configuration names and adds to the Delta table
LAKE/notifications. It may be killed at any moment and started again: each notification is in the
table exactly once. It waits for a NATS that is not there yet, or goes away. SIGTERM or Ctrl-C ends
it with exit code 0; exit code 1 comes with one line on stderr that says why.

\b
On a terminal one line shows what is going on; --progress json writes one object per line:
  {"state": "running", "archived": 1200, "rate": 96.5, "lag": 4, "lag_seconds": 0.8, ...}
"""


def archive(  # noqa: PLR0913 - the options of a command
    config: ConfigFile = None,
    *,
    once: Once = False,
    wait: Wait = None,
    lake: Lake = None,
    storage_option: StorageOption = None,
    interval: Interval = None,
    event_type: EventType = None,
    checkpoint: Checkpoint = None,
    max_records: MaxRecords = None,
    master: Master = None,
    conf: Conf = None,
    packages: Packages = None,
    remote: Remote = None,
    fail_on_data_loss: FailOnDataLoss = None,
    metrics_port: MetricsPort = None,
    progress: Progress = "auto",
    verbose: Verbose = False,
) -> None:
    """Carry every notification from the log into the lake, each exactly once."""
    settings = load(config)
    chosen = _chosen(
        lake=lake,
        storage_options=pairs("--storage-option", storage_option),
        event_types=tuple(event_type or ()),
        once=once,
        wait_s=None if wait is None else float(seconds("--wait", wait)),
        interval_s=None if interval is None else float(seconds("--interval", interval)),
        checkpoint=checkpoint,
        max_records=max_records,
        fail_on_data_loss=fail_on_data_loss,
        master=master,
        conf=pairs("--conf", conf),
        packages=tuple(part.strip() for part in (packages or "").split(",") if part.strip()),
        remote=remote,
    )
    try:
        _run(settings, chosen, progress, metrics_port)
    except (AvisoError, OSError) as error:
        if verbose:
            typer.echo("".join(traceback.format_exception(error)), err=True)
        why = next(iter(str(error).splitlines()), type(error).__name__)
        typer.echo(f"aviso-server pipeline archive: {why}", err=True)
        raise typer.Exit(1) from None


def _chosen(**options: object) -> "Chosen":
    try:
        from aviso_server.server.joboptions import Chosen  # noqa: PLC0415 - serve and check need no Spark
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "py4j"):
            raise
        typer.echo(
            "PySpark is not installed; install it with: pip install 'aviso-server[spark]'",
            err=True,
        )
        raise typer.Exit(1) from None
    return Chosen(**options)  # type: ignore[arg-type]


def _run(settings: "Settings", chosen: "Chosen", style: Style, metrics_port: int | None) -> None:
    from aviso_server.pipeline.archive.metrics import ArchiveMetrics, serve_metrics  # noqa: PLC0415
    from aviso_server.server import joboptions  # noqa: PLC0415 - as above

    metrics = ArchiveMetrics()
    options = joboptions.archive_options(settings, chosen)
    spark = joboptions.spark_options(settings, chosen)
    if metrics_port is not None:
        host = settings.metrics.host
        port = serve_metrics(metrics, metrics_port, host)
        typer.echo(f"metrics on http://{host}:{port}/metrics", err=True)
    with shown(style) as show:

        def tell(snapshot: "ArchiveSnapshot") -> None:
            metrics.show(snapshot)
            show(snapshot)

        joboptions.run_archive(options, spark, tell=tell)
