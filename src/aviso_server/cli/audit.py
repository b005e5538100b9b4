r"""The command ``aviso-server pipeline audit``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from aviso_server.cli import sparked
from aviso_server.cli.loading import ConfigFile, load
from aviso_server.core.json import compact
from aviso_server.process import replace_file

if TYPE_CHECKING:
    from aviso_server.pipeline.audit.job import Audited, AuditReport
    from aviso_server.settings import Settings

EPILOG = """\
\b
Examples:
  aviso-server pipeline audit --lake var/lake
  aviso-server pipeline audit --config examples/config.yaml
  aviso-server pipeline audit --lake var/lake --servers nats://127.0.0.1:4222 --event-type mars
  aviso-server pipeline audit --lake var/lake --report audit.json

\b
With --config or --servers every sequence that the log still has is compared, by content. Without
them only the lake is looked at. Nothing is written but the report.

\b
Exit code 0: complete. 3: there are findings, named on stdout and in the report. 1: the audit could
not be made, and one line on stderr says why. 2: wrong usage.
"""

FINDINGS = 3


def audit(  # noqa: PLR0913 - the options of a command
    config: ConfigFile = None,
    *,
    lake: Annotated[
        str | None, typer.Option(metavar="PATH", help="Folder or URL of the lake; lake.path.")
    ] = None,
    servers: Annotated[
        str | None, typer.Option(metavar="nats://...", help="The log, if not from --config.")
    ] = None,
    event_type: Annotated[
        list[str] | None, typer.Option(metavar="T", help="Only this one; may be repeated.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the result here, as JSON.")
    ] = None,
    accept_lost: Annotated[
        bool,
        typer.Option("--accept-lost", help="What is known to be lost is no finding."),
    ] = False,
    storage_option: sparked.StorageOption = None,
    master: sparked.Master = None,
    conf: sparked.Conf = None,
    packages: sparked.Packages = None,
    remote: sparked.Remote = None,
    verbose: sparked.Verbose = False,
) -> None:
    """Prove that the lake is complete, or name what is not."""
    if lake is None and config is None:
        raise typer.BadParameter("give --lake PATH, or --config FILE with lake.path in it")
    if servers is not None and config is not None:
        raise typer.BadParameter("give --config or --servers, not both", param_hint="--servers")
    spark_options = sparked.spark_options(
        master=master, conf=conf, packages=packages, remote=remote, app_name="aviso-server audit"
    )
    with sparked.told("audit", verbose=verbose):
        from aviso_server.pipeline.audit.job import (  # noqa: PLC0415 - loaded when it is used
            AuditOptions,
            check,
            run,
        )

        settings = None if config is None else load(config)
        place = sparked.place_to_read(settings, lake, storage_option)
        source = _log(settings, servers)
        options = AuditOptions(place, tuple(event_type or ()), source, accept_lost)
        check(options)  # before Spark is started for nothing
        with sparked.session(spark_options) as spark:
            found = run(spark, options)
        if report is not None:
            replace_file(report, compact(found.as_json()) + b"\n")
    _show(found)
    if not found.complete:
        raise typer.Exit(FINDINGS)


def _log(settings: "Settings | None", servers: str | None) -> dict[str, str] | None:
    """Where the log is; None leaves it out."""
    if settings is None:
        return None if servers is None else {"servers": servers}
    from aviso_server.server.joboptions import source_options  # noqa: PLC0415 - loaded when used

    return source_options(settings)


def _show(found: "AuditReport") -> None:
    console = Console() if sys.stdout.isatty() else Console(width=160, color_system=None)
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    table.add_column("event type")
    headings = ("first", "through", "present", "letters", "deleted", "absent", "lost", "compared")
    for heading in (*headings, "findings"):
        table.add_column(heading, justify="right")
    for item in found.event_types:
        counts = (
            item.first,
            item.through,
            item.tally.present,
            item.tally.letters,
            item.tally.deleted,
            item.tally.absent,
            item.tally.lost,
            item.tally.compared,
        )
        findings = sum(finding.count for finding in item.findings)
        table.add_row(item.event_type or "-", *(f"{n:,}" for n in counts), f"{findings:,}")
    console.print(table)
    for item in found.event_types:
        for line in lines(item):
            console.print(line, soft_wrap=True, markup=False, highlight=False)
    agrees = ", and log and lake agree" if found.with_log else ""
    console.print(f"complete{agrees}" if found.complete else "not complete", highlight=False)


def lines(item: "Audited") -> list[str]:
    """The findings of an event type, a line each."""
    made = []
    for finding in item.findings:
        where = f"{finding.first:,}"
        if finding.last > finding.first:
            where += f" to {finding.last:,}"
        if finding.count != finding.last - finding.first + 1:
            where += f" ({finding.count:,} of them)"
        text = f": {finding.text}" if finding.text else ""
        made.append(f"{item.event_type or '-'}  {finding.kind:<10}  {where}{text}")
    return made
