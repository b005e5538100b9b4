"""The command ``aviso-server pipeline report``."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aviso_server.cli import sparked
from aviso_server.cli.loading import ConfigFile, load
from aviso_server.core.cursor import parse_moment
from aviso_server.core.errors import AvisoError

if TYPE_CHECKING:
    from aviso_server.pipeline.report.job import ReportOptions
    from aviso_server.pipeline.spark.session import SparkOptions

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


def report(  # noqa: PLR0913 - the options of a command
    config: ConfigFile = None,
    *,
    output: Annotated[Path, typer.Option(metavar="FILE", help="The page, as HTML.")],
    lake: Annotated[
        str | None, typer.Option(metavar="PATH", help="Folder or URL of the lake; lake.path.")
    ] = None,
    days: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Days before the end; 30.")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="T", help="First storage time, or day.")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="T", help="Before this time; the newest.")
    ] = None,
    event_type: Annotated[
        list[str] | None, typer.Option(metavar="T", help="Only this one; may be repeated.")
    ] = None,
    tables: Annotated[
        str | None, typer.Option(metavar="PATH", help="Keep the figures here, as Delta tables.")
    ] = None,
    storage_option: sparked.StorageOption = None,
    master: sparked.Master = None,
    conf: sparked.Conf = None,
    packages: sparked.Packages = None,
    remote: sparked.Remote = None,
    verbose: sparked.Verbose = False,
) -> None:
    """Analyse what was announced: volume, delays, late and missing products, areas."""
    if lake is None and config is None:
        raise typer.BadParameter("give --lake PATH, or --config FILE with lake.path in it")
    if days is not None and start is not None:
        raise typer.BadParameter("give --days or --from, not both", param_hint="--days")
    since, until = _moment("--from", start), _moment("--to", end)
    spark = sparked.spark_options(
        master=master, conf=conf, packages=packages, remote=remote, app_name="aviso-server report"
    )
    settings = None if config is None else load(config)
    with sparked.told("report", verbose=verbose):
        from aviso_server.pipeline.report.job import DAYS, ReportOptions  # noqa: PLC0415 - as below

        place = sparked.place_to_read(settings, lake, storage_option)
        options = ReportOptions(
            place,
            output,
            tables=None if tables is None else replace(place, path=sparked.absolute(tables)),
            event_types=tuple(event_type or ()),
            days=days or DAYS,
            start=since,
            end=until,
            schemas={} if settings is None else settings.catalogue.schemas,
        )
        _run(options, spark)


def _run(options: "ReportOptions", spark_options: "SparkOptions") -> None:
    from aviso_server.pipeline.report.job import (  # noqa: PLC0415 - loaded when it is used
        STEPS,
        check,
        run,
    )

    check(options)  # before Spark is started for nothing
    with sparked.session(spark_options) as spark, sparked.bar("report", STEPS) as advance:
        outcome = run(spark, options, told=lambda _: advance(1))
    shown = f"{outcome.period.start:%Y-%m-%d %H:%M} to {outcome.period.end:%Y-%m-%d %H:%M}"
    typer.echo(
        f"{outcome.notifications:,} notifications of {outcome.event_types} event types, {shown}: "
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
