"""``aviso-server pipeline tables``: a table for each event type, with a column for each field."""

from dataclasses import dataclass

import typer

from aviso_server.cli.jobs import LakeGroup, event_type_option
from aviso_server.cli.runs import RunGroup
from aviso_server.cli.shared import ConfigGroup, output, table
from aviso_server.core.errors import AvisoError
from aviso_server.core.schema import Schema
from aviso_server.lake.layout import NOTIFICATIONS
from aviso_server.lake.typed.follow import Followed, TypedTables
from aviso_server.lake.typed.table import table_name
from aviso_server.pipeline.runs.run import Dataset
from aviso_server.settings import Settings

EPILOG = """\
\b
Examples:
  aviso-server pipeline tables --config examples/config.yaml
  aviso-server pipeline tables --config examples/config.yaml --event-type mars

\b
It adds to LAKE/tables what the notifications table has and they have not, removes what is deleted,
and merges small files, without Spark or Java. The archive job does it by itself. It may be
killed at any moment, and run beside anything. To have a table made anew, remove its folder.

\b
Exit code 0: done. 1: some of it could not be done, and stderr says what and why. 2: wrong usage.
"""


@dataclass(frozen=True, kw_only=True)
class TablesGroup:
    """Which tables."""

    event_type: list[str] | None = event_type_option()

    def schemas(self, settings: Settings) -> list[Schema]:
        """Of the event types that are meant."""
        known = settings.catalogue.schemas
        for name in self.event_type or ():
            if name not in known:
                names = ", ".join(sorted(known)) or "none"
                raise AvisoError(f"event type '{name}' has no schema; configured: {names}")
        return [known[name] for name in self.event_type or known]


def tables(*, config: ConfigGroup, job: TablesGroup, lake: LakeGroup, observe: RunGroup) -> None:
    """Bring them up to the lake, and say what was done."""
    settings = config.load()
    with observe.job("tables") as noted:
        place = lake.existing(settings)
        noted.reads(Dataset.at(place.table(NOTIFICATIONS)))
        done = list(TypedTables(place).follow(job.schemas(settings)))
        names = [item.updated.event_type for item in done]
        noted.writes(*(Dataset.at(place.table(table_name(name))) for name in names))
        noted.rows["written"] = sum(item.updated.rows for item in done)
        noted.rows["removed"] = sum(item.tidied.removed for item in done)
        noted.rows["unfit"] = sum(item.updated.unfit.total() for item in done)
        problems = [f"{item.updated.event_type}: {item.problem}" for item in done if item.problem]
        noted.problem = next(iter(problems), None)
    _show(done)
    for problem in problems:
        typer.echo(f"aviso-server pipeline tables: {problem}", err=True)
    if problems:
        raise typer.Exit(1)


def _show(done: list[Followed]) -> None:
    console = output()
    counted = ("through", "rows added", "rows removed", "files merged")
    rows = table(console, "event type", "values that did not fit", numbers=counted)
    for item in done:
        unfit = ", ".join(f"{name} {count:,}" for name, count in sorted(item.updated.unfit.items()))
        rows.add_row(
            item.updated.event_type,
            unfit or "-",
            f"{item.updated.through:,}",
            f"{item.updated.rows:,}",
            f"{item.tidied.removed:,}",
            f"{item.tidied.merged:,}",
        )
    console.print(rows if done else "nothing of an event type with a schema is archived yet")
