"""``aviso-server pipeline live``: rates and late cycles as notifications."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import typer
import yaml
from rich.console import Console
from rich.live import Live as Display

from aviso_server.cli.jobs import (
    LakeGroup,
    SparkGroup,
    event_type_option,
    metrics_port_option,
    seconds,
    target,
    token_option,
)
from aviso_server.cli.options import flag, option
from aviso_server.cli.runs import RunGroup, serve_metrics
from aviso_server.cli.shared import ConfigGroup
from aviso_server.core.errors import AvisoError
from aviso_server.lake.layout import CHECKPOINTS, Place
from aviso_server.lake.snapshot import look
from aviso_server.pipeline.live.alert import SCHEMA
from aviso_server.pipeline.live.expected import BadExpectation, CyclePart, parse_expected
from aviso_server.pipeline.live.job import JAVA, LiveJob, LiveOptions, LiveOutcome, check
from aviso_server.pipeline.live.learn import Lesson, learn_from_lake
from aviso_server.pipeline.live.metrics import LiveMetrics
from aviso_server.pipeline.runs.run import Dataset
from aviso_server.pipeline.sink.options import absolute
from aviso_server.pipeline.spark.session import Session, job_session
from aviso_server.process import set_by_signals
from aviso_server.server.joboptions import source_options
from aviso_server.settings import Settings
from aviso_server.settings.literals import duration_s

EPILOG = """\
\b
Examples:
  aviso-server pipeline live --config examples/config.yaml
  aviso-server pipeline live --config examples/config.yaml --above 500
  aviso-server pipeline live --config examples/config.yaml --expect cycles.yaml --no-learn
  aviso-server pipeline live --schema >> config.yaml

\b
Rates of all event types, and cycles that are late, are published as notifications of the event type
aviso_alert, which the server must have. Follow them like any other:
  curl -N http://127.0.0.1:8000/api/v1/watch -d '{"event_type": "aviso_alert",
      "identifier": {"severity": {"gte": 3}}}' -H 'Content-Type: application/json'

\b
Exit code 0: ended by a signal, or done with --once. 1: one line on stderr says what is wrong.
2: wrong usage.
"""


def _print_schema(asked: bool) -> None:  # noqa: FBT001 - typer's way to call it
    if asked:
        typer.echo(SCHEMA, nl=False)
        raise typer.Exit


@dataclass(frozen=True, kw_only=True)
class AlertGroup:
    """What is published, where to, and when."""

    url: str | None = option(None, "URL", "Server to publish to.", otherwise="application.base_url")
    token: str | None = token_option()
    event_type: list[str] | None = event_type_option()
    interval: str = option("10s", "DURATION", "Time between two reads of the log.")
    above: float | None = option(
        None, "N", "Rate per second from which an alert has severity 3, not 1.", min=0
    )
    checkpoint: str | None = option(
        None, "PATH", "Folder or URL where Spark keeps its own records.", otherwise="in the lake"
    )
    metrics_port: int | None = metrics_port_option()
    once: bool = flag("Publish what there is to publish now, then exit.", "--once")
    schema: bool = flag(
        "Print the schema of aviso_alert, then exit.",
        "--schema",
        callback=_print_schema,
        is_eager=True,
    )

    def options(self, settings: Settings, place: Place | None, cycles: "CycleGroup") -> LiveOptions:
        """The job."""
        interval_s = float(seconds("--interval", self.interval))
        if self.checkpoint is not None:
            checkpoint = absolute(self.checkpoint)
        elif place is not None:
            checkpoint = f"{place.table(CHECKPOINTS)}/live"
        else:
            raise AvisoError("there is no lake to keep a checkpoint in: give --checkpoint PATH")
        server = target(self.url or settings.application.base_url, token=None)
        return LiveOptions(
            source_options(settings),
            url=server.url,
            checkpoint=checkpoint,
            storage={} if place is None else place.options,
            token=self.token,
            event_types=tuple(self.event_type or ()),
            limit=self.above,
            once=self.once,
            expected=cycles.configured(),
            interval_s=interval_s,
        )


@dataclass(frozen=True, kw_only=True)
class CycleGroup:
    """What is due when."""

    expect: Path | None = option(
        None, "FILE", "File that says what is due when. It wins over what is learned."
    )
    learn: bool = option(
        True,  # noqa: FBT003 - the default
        None,
        "Learn from the lake what is due when.",
        "--learn/--no-learn",
    )
    days: int = option(28, "N", "Number of days to learn from.", min=3, max=400)

    def configured(self) -> tuple[CyclePart, ...]:
        """What the file says."""
        if self.expect is None:
            return ()
        try:
            document = yaml.safe_load(self.expect.read_text())
        except (yaml.YAMLError, UnicodeError):
            raise BadExpectation(f"{self.expect} is not YAML") from None
        return parse_expected(document, duration_s)

    def lesson(self, place: Place | None) -> Lesson | None:
        """What is to be learned from the lake."""
        return Lesson(place, self.days) if place is not None and self.learn else None


def live(
    *,
    config: ConfigGroup,
    lake: LakeGroup,
    alerts: AlertGroup,
    cycles: CycleGroup,
    spark: SparkGroup,
    observe: RunGroup,
) -> None:
    """Run the job, and print what was published in a line."""
    spark_options = replace(spark.options("live"), java=JAVA)
    settings = config.load()
    with observe.job("live") as noted:
        place = lake.place(settings)
        lesson = cycles.lesson(place)
        options = alerts.options(settings, place, cycles)
        noted.reads(Dataset.of_log(options.source))
        noted.writes(Dataset.at(options.url))
        metrics = LiveMetrics()
        serve_metrics(metrics, alerts.metrics_port, settings)
        check(options)  # before Spark is started for nothing
        if lake.lake is not None and lesson is not None:
            look(lesson.place)  # a lake that was named and is none
        stop = threading.Event()
        with job_session(spark_options) as session, _show_progress() as show, set_by_signals(stop):
            learn = None if lesson is None else _learner(session, options, lesson)

            def report(outcome: LiveOutcome) -> None:
                written = sum(outcome.alerts.values())
                noted.rows.update(read=outcome.notifications, written=written)
                metrics.show(outcome)
                show(outcome)

            outcome = LiveJob(session, options, tell=report, learn=learn, stop=stop).run()
            report(outcome)
    typer.echo(summary(outcome), err=True)


def _learner(
    spark: Session, options: LiveOptions, lesson: Lesson
) -> Callable[[], tuple[CyclePart, ...]]:
    """What is learned from the lake, where the file says nothing else."""
    said = {(item.event_type, item.cycle, item.group) for item in options.expected}

    def learn() -> tuple[CyclePart, ...]:
        more = [
            item
            for item in learn_from_lake(spark, lesson)
            if (item.event_type, item.cycle, item.group) not in said
            and item.event_type in (options.event_types or (item.event_type,))
        ]
        parts = (*options.expected, *more)
        cycles = len({(item.event_type, item.cycle, item.group) for item in parts})
        typer.echo(f"{cycles:,} cycles a day are expected", err=True)
        return parts

    return learn


def summary(outcome: LiveOutcome) -> str:
    """One line of what was done."""
    alerts = ", ".join(f"{count:,} {kind}" for kind, count in sorted(outcome.alerts.items()))
    text = f"{outcome.notifications:,} notifications; alerts: {alerts or 'none'}"
    if outcome.late_rows:
        text += f"; {outcome.late_rows:,} notifications came after the watermark"
    return text


@contextmanager
def _show_progress() -> Iterator[Callable[[LiveOutcome], None]]:
    """A line that changes on a terminal; in a pipe only what went wrong, once."""
    if sys.stderr.isatty():
        with Display(console=Console(stderr=True), refresh_per_second=4) as display:
            yield lambda outcome: display.update(_line(outcome))
        return
    before: list[str | None] = [None]

    def show(outcome: LiveOutcome) -> None:
        if outcome.trouble is not None and outcome.trouble != before[0]:
            typer.echo(_line(outcome), err=True)
        before[0] = outcome.trouble

    yield show


def _line(outcome: LiveOutcome) -> str:
    return summary(outcome) if outcome.trouble is None else outcome.trouble
