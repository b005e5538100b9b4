"""``aviso-server pipeline report``: a page about what was announced."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import typer

from aviso_server.cli.jobs import (
    LakeGroup,
    SparkGroup,
    bar,
    event_type_option,
)
from aviso_server.cli.options import REQUIRED, option
from aviso_server.cli.runs import RunGroup
from aviso_server.cli.shared import ConfigGroup
from aviso_server.core.cursor import parse_moment
from aviso_server.core.errors import AvisoError
from aviso_server.lake.layout import NOTIFICATIONS
from aviso_server.pipeline.report.job import DAYS, STEPS, ReportOptions, check, run
from aviso_server.pipeline.runs.run import Dataset
from aviso_server.pipeline.sink.options import absolute
from aviso_server.pipeline.spark.session import job_session

EPILOG = """\
\b
Examples:
  aviso-server pipeline report --lake var/lake --output report.html
  aviso-server pipeline report --config examples/config.yaml --days 7 --output week.html
  aviso-server pipeline report --lake var/lake --from 2026-01-01 --to 2026-02-01 \\
      --event-type mars --output january.html --tables var/report

\b
The page needs no network and no scripts. It ends with the newest notification unless --to says
otherwise. Late and missing products are learned from the 28 days before each day.

\b
Exit code 0: the page is there. 1: it is not, and one line on stderr says why. 2: wrong usage.
"""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class ReportGroup:
    """The subject of the page, and where it is written."""

    output: Path = option(REQUIRED, "FILE", "File for the page, as HTML.")
    days: int | None = option(
        None, "N", "Number of days to report on, up to --to.", otherwise=str(DAYS), min=1
    )
    start: str | None = option(None, "TIME", "First storage time or day to report on.", "--from")
    end: str | None = option(
        None,
        "TIME",
        "Report on what was stored before this time or day.",
        "--to",
        otherwise="after the newest notification",
    )
    event_type: list[str] | None = event_type_option()
    tables: str | None = option(None, "PATH", "Also write the figures here, as Delta tables.")


def report(
    *, config: ConfigGroup, job: ReportGroup, lake: LakeGroup, spark: SparkGroup, observe: RunGroup
) -> None:
    """Write the page, and print what it says in a line."""
    if lake.lake is None and config.config is None:
        raise typer.BadParameter("give --lake PATH, or --config FILE with lake.path in it")
    if job.days is not None and job.start is not None:
        raise typer.BadParameter("give --days or --from, not both", param_hint="--days")
    start, end = _moment("--from", job.start), _moment("--to", job.end)
    spark_options = spark.options("report")
    settings = config.load_if_given()
    with observe.job("report") as noted:
        place = lake.existing(settings)
        options = ReportOptions(
            place,
            job.output,
            tables=None if job.tables is None else replace(place, path=absolute(job.tables)),
            event_types=tuple(job.event_type or ()),
            days=job.days or DAYS,
            start=start,
            end=end,
            schemas={} if settings is None else settings.catalogue.schemas,
        )
        noted.reads(Dataset.at(place.table(NOTIFICATIONS)))
        noted.writes(Dataset.at(str(options.output.absolute())))
        check(options)  # before Spark is started for nothing
        with job_session(spark_options) as session, bar("report", STEPS) as advance:
            outcome = run(session, options, told=lambda _: advance(1))
        noted.rows.update(read=outcome.notifications, late=outcome.late, missing=outcome.missing)
    period = f"{outcome.period.start:%Y-%m-%d %H:%M} to {outcome.period.end:%Y-%m-%d %H:%M}"
    typer.echo(
        f"{outcome.notifications:,} notifications of {outcome.event_types} event types, {period}: "
        f"{outcome.late:,} products late, {outcome.missing:,} missing; {outcome.output}"
    )


def _moment(option: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    # A day is what people type; the API wants a time with it.
    whole = f"{text}T00:00:00Z" if len(text) == len("2026-01-01") and "-" in text else text
    try:
        return _EPOCH + timedelta(microseconds=parse_moment(option, whole) // 1000)
    except (AvisoError, OverflowError) as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
