"""``aviso-server pipeline audit``: compare log and lake."""

from dataclasses import dataclass
from pathlib import Path

import typer

from aviso_server.cli.jobs import FINDINGS, LakeGroup, SparkGroup, event_type_option
from aviso_server.cli.options import flag, option
from aviso_server.cli.runs import RunGroup
from aviso_server.cli.shared import ConfigGroup, output, table
from aviso_server.core.json import compact
from aviso_server.lake.layout import NOTIFICATIONS
from aviso_server.pipeline.audit.job import Audited, AuditOptions, AuditReport, check, run
from aviso_server.pipeline.runs.run import Dataset
from aviso_server.pipeline.spark.session import job_session
from aviso_server.process import replace_file
from aviso_server.server.joboptions import source_options

EPILOG = """\
\b
Examples:
  aviso-server pipeline audit --lake var/lake
  aviso-server pipeline audit --config examples/config.yaml
  aviso-server pipeline audit --lake var/lake --servers nats://127.0.0.1:4222 --event-type mars
  aviso-server pipeline audit --lake var/lake --report audit.json

\b
With --config or --servers every sequence that the log still has is compared, by content. Without
them only the lake is examined. Nothing is written but the report.

\b
Exit code 0: complete. 3: there are findings, named on stdout and in the report. 1: the audit could
not be made, and one line on stderr says why. 2: wrong usage.
"""


@dataclass(frozen=True, kw_only=True)
class AuditGroup:
    """What is compared, and where the result goes."""

    servers: str | None = option(
        None, "nats://HOST:PORT", "NATS server with the log.", otherwise="as configured by --config"
    )
    event_type: list[str] | None = event_type_option()
    report: Path | None = option(None, "FILE", "Write the result to this file, as JSON.")
    accept_lost: bool = flag(
        "Do not count sequences that are recorded as lost as findings.", "--accept-lost"
    )


def audit(
    *, config: ConfigGroup, lake: LakeGroup, job: AuditGroup, spark: SparkGroup, observe: RunGroup
) -> None:
    """Compare, print, and end with the exit code of the result."""
    if lake.lake is None and config.config is None:
        raise typer.BadParameter("give --lake PATH, or --config FILE with lake.path in it")
    if job.servers is not None and config.config is not None:
        raise typer.BadParameter("give --config or --servers, not both", param_hint="--servers")
    spark_options = spark.options("audit")
    with observe.job("audit") as noted:
        settings = config.load_if_given()
        log = None if job.servers is None else {"servers": job.servers}
        options = AuditOptions(
            lake.existing(settings),
            tuple(job.event_type or ()),
            log if settings is None else source_options(settings),
            job.accept_lost,
        )
        noted.reads(Dataset.at(options.place.table(NOTIFICATIONS)))
        if options.source is not None:
            noted.reads(Dataset.of_log(options.source))
        check(options)  # before Spark is started for nothing
        with job_session(spark_options) as session:
            result = run(session, options)
        noted.rows["read"] = sum(item.tally.present for item in result.event_types)
        noted.rows["findings"] = sum(
            finding.count for item in result.event_types for finding in item.findings
        )
        if job.report is not None:
            replace_file(job.report, compact(result.as_json()) + b"\n")
    show(result)
    if not result.complete:
        raise typer.Exit(FINDINGS)


def show(report: AuditReport) -> None:
    console = output()
    counted = ("first", "through", "present", "letters", "deleted", "absent", "lost", "compared")
    rows = table(console, "event type", numbers=(*counted, "findings"))
    for item in report.event_types:
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
        rows.add_row(item.event_type or "-", *(f"{n:,}" for n in counts), f"{findings:,}")
    console.print(rows)
    for item in report.event_types:
        for line in lines(item):
            console.print(line, soft_wrap=True, markup=False, highlight=False)
    agrees = ", and log and lake agree" if report.with_log else ""
    console.print(f"complete{agrees}" if report.complete else "not complete", highlight=False)


def lines(item: Audited) -> list[str]:
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
