"""``aviso-server pipeline archive``: from the log into the lake."""

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

import typer

from aviso_server.cli.jobs import (
    LakeGroup,
    SparkGroup,
    data_loss_option,
    event_type_option,
    metrics_port_option,
    seconds,
)
from aviso_server.cli.options import flag, option
from aviso_server.cli.progress import Style, show_progress
from aviso_server.cli.runs import RunGroup, serve_metrics
from aviso_server.cli.shared import ConfigGroup
from aviso_server.core.errors import AvisoError
from aviso_server.lake.layout import NOTIFICATIONS
from aviso_server.lake.typed.follow import following
from aviso_server.pipeline.archive.job import (
    JAVA,
    ArchiveFailed,
    ArchiveJob,
    ArchiveOptions,
    wait_for_log,
)
from aviso_server.pipeline.archive.metrics import ArchiveMetrics
from aviso_server.pipeline.archive.progress import ArchiveSnapshot, ArchiveTally
from aviso_server.pipeline.maintain.metrics import UpkeepMetrics
from aviso_server.pipeline.maintain.upkeep import Upkeep
from aviso_server.pipeline.runs.run import Dataset
from aviso_server.pipeline.sink.options import absolute
from aviso_server.pipeline.spark.session import SparkOptions, job_session
from aviso_server.process import set_by_signals
from aviso_server.server.joboptions import source_options
from aviso_server.settings import Settings

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


@dataclass(frozen=True, kw_only=True)
class ArchiveGroup:
    """What is archived, and how often; what is None is left to the settings."""

    once: bool = flag("Archive what the log holds now, then exit.", "--once")
    wait: str = option(
        "30s", "DURATION", "How long --once waits for NATS. Without --once the job waits for ever."
    )
    interval: str | None = option(
        None,
        "DURATION",
        "Shortest time between two commits; a few notifications wait up to six times as long.",
        otherwise="lake.archive_interval_seconds",
    )
    event_type: list[str] | None = event_type_option()
    checkpoint: str | None = option(
        None, "PATH", "Folder or URL where Spark keeps its own records.", otherwise="in the lake"
    )
    max_records: int = option(200000, "N", "Most notifications in one commit.", min=1)
    fail_on_data_loss: bool | None = data_loss_option(None)
    metrics_port: int | None = metrics_port_option()
    upkeep: bool = option(
        True,  # noqa: FBT003 - as typer wants it
        None,
        "Put small files of the lake together meanwhile; not with --once or --remote.",
        "--upkeep/--no-upkeep",
    )
    tables: bool | None = option(
        None,
        None,
        "Keep a typed table for each event type meanwhile; not with --once or --remote.",
        "--tables/--no-tables",
        otherwise="lake.typed_tables",
    )
    progress: Style = option("auto", "auto|live|json|none", "How progress is shown.")

    def options(self, settings: Settings, lake: LakeGroup) -> ArchiveOptions:
        """The job."""
        wait_s = seconds("--wait", self.wait)
        interval_s = float(settings.lake.archive_interval_seconds)
        if self.interval is not None:
            interval_s = seconds("--interval", self.interval)
        fail = self.fail_on_data_loss
        return ArchiveOptions(
            lake.existing(settings, purpose="write to"),
            source_options(settings),
            event_types=tuple(self.event_type or ()),
            once=self.once,
            interval_s=interval_s,
            checkpoint=None if self.checkpoint is None else absolute(self.checkpoint),
            max_records=self.max_records,
            fail_on_data_loss=settings.lake.fail_on_data_loss if fail is None else fail,
            wait_s=wait_s,
            expected={
                name: schema.expectations
                for name, schema in settings.catalogue.schemas.items()
                if schema.expectations
            },
        )


def archive(
    *,
    config: ConfigGroup,
    job: ArchiveGroup,
    lake: LakeGroup,
    spark: SparkGroup,
    observe: RunGroup,
) -> None:
    """Run the job, show how it is doing, and count it."""
    settings = config.load()
    with observe.job("archive") as noted:
        session = replace(spark.options("archive", settings), java=JAVA)
        options = job.options(settings, lake)
        noted.reads(Dataset.of_log(options.source))
        noted.writes(Dataset.at(options.place.table(NOTIFICATIONS)))
        metrics = ArchiveMetrics()
        serve_metrics(metrics, job.metrics_port, settings)
        with show_progress(job.progress) as show:

            def report(snapshot: ArchiveSnapshot) -> None:
                noted.rows.update(written=snapshot.archived, dead_letters=snapshot.letters)
                metrics.show(snapshot)
                show(snapshot)

            # Through Connect the lake may not be reachable from here.
            beside = not job.once and not session.remote
            typed = settings.lake.typed_tables if job.tables is None else job.tables
            schemas = list(settings.catalogue.schemas.values())
            with ExitStack() as stack:
                if beside and job.upkeep:
                    work = Upkeep(options.place, tell=_warn)
                    metrics.add(UpkeepMetrics(work.tally))
                    stack.enter_context(work.running())
                if beside and typed:
                    stack.enter_context(following(options.place, schemas, tell=_warn))
                run(options, session, report=report)


def _warn(words: str) -> None:
    typer.echo(f"aviso-server pipeline archive: {words}", err=True)


def run(
    options: ArchiveOptions, spark: SparkOptions, *, report: Callable[[ArchiveSnapshot], None]
) -> None:
    """Run until it is done or the process is asked to end; AvisoError if it cannot continue."""
    stop = threading.Event()
    try:
        with set_by_signals(stop):
            # Through Connect, log and lake are for the server to reach, and may not be for us.
            known = None if spark.remote else wait_for_log(options, stop, tell=report)
            if stop.is_set():
                report(ArchiveTally(known).snapshot("stopped", time.time()))
                return
            report(ArchiveTally(known).snapshot("starting", time.time()))
            with job_session(spark) as session, set_by_signals(stop):
                ArchiveJob(session, options, tell=report, known=known, stop=stop).run()
    except AvisoError as error:
        if not isinstance(error, ArchiveFailed):  # which has reported already, and knows more
            report(ArchiveSnapshot("failed", error=error.message))
        raise
