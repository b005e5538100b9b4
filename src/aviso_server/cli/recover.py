"""``aviso-server pipeline recover``: log and lake in line again."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import typer

from aviso_server.cli.jobs import FINDINGS, LakeGroup, bar
from aviso_server.cli.options import argument, flag, option
from aviso_server.cli.runs import RunGroup
from aviso_server.cli.shared import ConfigGroup, output, table
from aviso_server.lake.layout import NOTIFICATIONS
from aviso_server.pipeline.recover.job import RecoverOptions, RecoverOutcome, settled
from aviso_server.pipeline.recover.job import recover as run
from aviso_server.pipeline.runs.run import Dataset
from aviso_server.server.joboptions import source_options

EPILOG = """\
\b
Examples:
  aviso-server pipeline recover --config examples/config.yaml
  aviso-server pipeline recover mars --config examples/config.yaml
  aviso-server pipeline recover mars --config examples/config.yaml --apply

\b
Log and lake are two copies of one history. When one of them was restored from an older copy, the
server stores nothing for the event types that contradict each other. This command shows where they
do; with --apply it settles it:
  - what is only in the log is saved to a file in --save,
  - the log goes on above every sequence that was handed out; all below is replayed from the lake,
  - what was saved is stored again, in order, under new sequences.
A log that was lost altogether needs none of this: the server goes on where the lake ends.

\b
It may be interrupted and run again. Spark and Java are not needed. With the embedded NATS the
server must be running; it takes notifications again seconds after the command is done.

\b
Exit code 0: log and lake agree. 3: they do not, and --apply would settle it. 1: it could not be
done, and one line on stderr says why. 2: wrong usage.
"""


@dataclass(frozen=True, kw_only=True)
class RecoverGroup:
    """What is compared, and what is done about it."""

    event_types: list[str] | None = argument(None, "EVENT_TYPE")
    save: Path = option(
        Path("recovered"), "FOLDER", "Folder where what is only in the log is saved."
    )
    apply: bool = flag("Settle it. Without this nothing is changed.", "--apply")


def recover(job: RecoverGroup, *, config: ConfigGroup, lake: LakeGroup, observe: RunGroup) -> None:
    """Compare, settle it if asked to, print, and end with the exit code of the result."""
    with observe.job("recover") as noted:
        settings = config.load()
        options = RecoverOptions(
            lake.existing(settings),
            source_options(settings),
            tuple(job.event_types or ()),
            job.save,
            job.apply,
        )
        noted.reads(Dataset.of_log(options.source), Dataset.at(options.place.table(NOTIFICATIONS)))
        with bar("comparing", None) as step:
            recoveries = asyncio.run(run(options, step=step))
        noted.rows["restored"] = sum(item.restored for item in recoveries)
    _show(recoveries)
    if not settled(recoveries):
        raise typer.Exit(FINDINGS)


def _show(recoveries: list[RecoverOutcome]) -> None:
    console = output()
    counted = ("log", "lake through", "only in the log", "stored again")
    rows = table(console, "event type", numbers=counted)
    for item in recoveries:
        stand = item.stand
        held = "empty" if stand.empty else f"{stand.first:,} to {stand.last:,}"
        counts = (stand.mark.through, item.only_here, item.restored)
        rows.add_row(stand.schema.event_type, held, *(f"{n:,}" for n in counts))
    console.print(rows)
    for item in recoveries:
        console.print(_words(item), soft_wrap=True, markup=False, highlight=False)


def _words(item: RecoverOutcome) -> str:
    stand = item.stand
    name = stand.schema.event_type
    if stand.why is not None:
        saved = f"saves {item.only_here:,} of the log, " if item.only_here else ""
        return (
            f"{name}: {stand.why}. --apply {saved}lets the log continue at {stand.continues:,} and "
            "leaves the rest to the lake"
        )
    if item.pending:
        return f"{name}: {item.pending:,} are saved and not yet stored again; --apply does it"
    if item.changed or item.restored:
        where = f", saved in {item.file}" if item.file else ""
        again = f"; {item.restored:,} stored again under new sequences{where}"
        return (
            f"{name}: reconciled: the log continues at {stand.continues:,}, everything below is "
            f"replayed from the lake{again if item.restored else ''}"
        )
    if stand.empty and stand.mark.through:
        return (
            f"{name}: nothing to do: the log is empty, continues at {stand.continues:,}, and "
            "everything below is replayed from the lake"
        )
    return f"{name}: nothing to do, log and lake agree"
