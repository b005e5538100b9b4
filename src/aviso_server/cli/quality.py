"""``aviso-server pipeline quality``: are notifications as expected?"""

from dataclasses import dataclass

import typer

from aviso_server.cli.jobs import (
    FINDINGS,
    LakeGroup,
    SparkGroup,
    bar,
    event_type_option,
    target,
    token_option,
)
from aviso_server.cli.options import option
from aviso_server.cli.runs import RunGroup
from aviso_server.cli.shared import ConfigGroup, output, table
from aviso_server.lake.layout import NOTIFICATIONS
from aviso_server.pipeline.quality.job import QualityOptions, check, run
from aviso_server.pipeline.quality.verdict import TABLE_NAME, QualityVerdict
from aviso_server.pipeline.runs.run import Dataset
from aviso_server.pipeline.spark.session import job_session
from aviso_server.settings import Settings

EPILOG = """\
\b
Examples:
  aviso-server pipeline quality --config examples/config.yaml
  aviso-server pipeline quality --config examples/config.yaml --days 7 --event-type mars
  aviso-server pipeline quality --config examples/config.yaml --url http://127.0.0.1:8000

\b
What is expected of an event type is declared beside its schema:
  notification_schema:
    mars:
      expectations:
        values: {step: {between: [0, 240]}, stream: [oper, enfo]}
        present: [payload.location]
        every: 12h
        per_cycle: 41

\b
Nothing is refused or removed for it. The verdicts are added to the Delta table LAKE/quality. With
--url an aviso_alert of the kind `quality` is published for each expectation that is not met.

\b
Exit code 0: all is as expected. 3: something is not, and is named on stdout. 1: it could not be
checked, and one line on stderr says why. 2: wrong usage.
"""


@dataclass(frozen=True, kw_only=True)
class QualityGroup:
    """What is checked, and who is told."""

    event_type: list[str] | None = event_type_option()
    days: float = option(1.0, "N", "Number of days to check, up to now.", min=0.01)
    url: str | None = option(None, "URL", "Server to publish alerts to.", otherwise="none")
    token: str | None = token_option()

    def options(self, settings: Settings, lake: LakeGroup) -> QualityOptions:
        """The job."""
        schemas = settings.catalogue.schemas
        for name in self.event_type or ():
            if name not in schemas:
                raise typer.BadParameter(
                    f"there is no event type '{name}'", param_hint="--event-type"
                )
        return QualityOptions(
            place=lake.existing(settings),
            schemas={
                name: schema
                for name, schema in schemas.items()
                if schema.expectations and name in (self.event_type or schemas)
            },
            days=self.days,
            url=None if self.url is None else target(self.url, token=None).url,
            token=self.token,
        )


def quality(
    *,
    config: ConfigGroup,
    lake: LakeGroup,
    job: QualityGroup,
    spark: SparkGroup,
    observe: RunGroup,
) -> None:
    """Check, print, and end with the exit code of the result."""
    settings = config.load()
    spark_options = spark.options("quality")
    with observe.job("quality") as noted:
        options = job.options(settings, lake)
        noted.reads(Dataset.at(options.place.table(NOTIFICATIONS)))
        noted.writes(Dataset.at(options.place.table(TABLE_NAME)))
        check(options)  # before Spark is started for nothing
        with (
            job_session(spark_options) as session,
            bar("event types", len(options.schemas)) as advance,
        ):
            verdicts = run(session, options, advance=advance)
        noted.rows["written"] = len(verdicts)
        for item in verdicts:
            noted.rows[f"unexpected {item.event_type} {item.expectation}"] = item.unexpected
    _show(verdicts)
    if any(item.unexpected for item in verdicts):
        raise typer.Exit(FINDINGS)


def _show(verdicts: list[QualityVerdict]) -> None:
    console = output()
    rows = table(
        console, "event type", "expectation", "expected", numbers=("checked", "unexpected")
    )
    for item in verdicts:
        counts = (f"{item.checked:,}", f"{item.unexpected:,}")
        rows.add_row(item.event_type, item.expectation, item.expected, *counts)
    console.print(rows)
    for item in verdicts:
        if item.unexpected:
            line = f"{item.event_type}: {item.expectation}, such as {item.example}"
            console.print(line, soft_wrap=True, markup=False, highlight=False)
