"""``aviso-server pipeline ingest``: import an existing history."""

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

import typer

from aviso_server.cli.jobs import (
    LakeGroup,
    SparkGroup,
    target,
    token_option,
)
from aviso_server.cli.options import argument, option
from aviso_server.cli.runs import RunGroup
from aviso_server.cli.shared import ConfigGroup
from aviso_server.core.declaration import declaration
from aviso_server.lake.layout import NOTIFICATIONS
from aviso_server.pipeline.ingest import files, staging
from aviso_server.pipeline.ingest.job import IngestOptions, IngestOutcome, earlier_outcome, run
from aviso_server.pipeline.ingest.table import read_mapping
from aviso_server.pipeline.runs.run import Dataset
from aviso_server.pipeline.spark.session import job_session
from aviso_server.server.joboptions import source_options
from aviso_server.settings import Settings

EPILOG = """\
\b
Examples:
  aviso-server pipeline ingest old/*.ndjson --config examples/config.yaml
      --url http://127.0.0.1:8000 --state var/ingest
  aviso-server pipeline ingest old.csv --config examples/config.yaml --event-type mars
      --map identifier.class=klasse,time=stored_at --url http://127.0.0.1:8000
  aviso-server pipeline ingest nats://old:4222 --format jetstream --config examples/config.yaml
      --to lake --lake var/lake
  aviso-server pipeline ingest other/lake --format lake --config examples/config.yaml
      --to lake --lake var/lake

\b
Every row is validated by the rules of the configuration. Rows that are not notifications go to the
folder of dead letters with source, line, field and reason. Good ones are published in the order of
time, or, with --to lake, written under the sequences and times they bring. Running it again is
harmless: what is in stays in once.

\b
Exit code 0: done; rejected rows are listed. 1: it failed or too many rows were rejected, one line
on stderr says why. 2: wrong usage.
"""

Format: TypeAlias = Literal["ndjson", "csv", "parquet", "jetstream", "lake"]
_SUFFIXES: dict[str, Format] = {
    ".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "ndjson", ".csv": "csv",
    ".parquet": "parquet",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SourceGroup:
    """What is read."""

    source: list[str] | None = argument(None, "SOURCE")
    format_: Format | None = option(
        None,
        "ndjson|csv|parquet|jetstream|lake",
        "What the source is.",
        "--format",
        otherwise="by the suffix of its name",
    )
    mapping: str | None = option(
        None,
        "PART=COLUMN,...",
        "Which columns of CSV or Parquet hold which parts of a notification.",
        "--map",
        otherwise="columns are named like the parts",
    )
    event_type: str | None = option(
        None,
        "EVENT_TYPE",
        "Event type of every row of CSV or Parquet; of a log or lake, the one to read.",
    )

    def read(self, settings: Settings, lake: LakeGroup, *, to_server: bool) -> staging.Source:
        """The source; ends the command if the options do not go together."""
        sources = self.source or []
        kind = self.format_ or _guess_format(sources)
        if kind == "jetstream":
            return staging.FromLog(self._log(settings, to_server=to_server))
        if not sources:
            raise typer.BadParameter("say what to take in", param_hint="SOURCE")
        if kind == "lake":
            if len(sources) > 1:
                raise typer.BadParameter("one lake at a time", param_hint="SOURCE")
            names = None if self.event_type is None else (self.event_type,)
            return staging.FromLake(replace(lake, lake=sources[0]).existing(), names)
        if kind == "ndjson" and (self.mapping or self.event_type):
            raise typer.BadParameter(
                "lines of NDJSON say themselves what is what", param_hint="--map"
            )
        fields = {
            field.name for item in settings.catalogue.schemas.values() for field in item.fields
        }
        mapping = read_mapping(self.mapping, event_type=self.event_type, fields=fields)
        return staging.FromFiles(tuple(files.files(sources)), kind, mapping)

    def _log(self, settings: Settings, *, to_server: bool) -> dict[str, str]:
        wanted = {"eventType": self.event_type or "*"}
        if self.source:
            rules = [declaration(schema) for schema in settings.catalogue.schemas.values()]
            return {"servers": ",".join(self.source), "schemas": json.dumps(rules), **wanted}
        if to_server:
            raise typer.BadParameter(
                "say which NATS to read: the configuration names the log of the server itself",
                param_hint="SOURCE",
            )
        return {**source_options(settings), **wanted}


@dataclass(frozen=True, kw_only=True)
class IngestGroup:
    """Where it goes, and what becomes of rows that are no notifications."""

    to: Literal["server", "lake"] = option(
        "server", "server|lake", "Publish to a server, or write into a lake directly."
    )
    url: str | None = option(None, "URL", "Server to publish to.", otherwise="application.base_url")
    token: str | None = token_option()
    rate: float | None = option(
        None, "N", "Most notifications to publish in a second, of each event type.", min=0.001
    )
    dead_letters: str | None = option(
        None,
        "PATH",
        "Folder or URL of the Delta table for rejected rows.",
        otherwise="rejected, in the folder of --state",
    )
    max_rejected: int | None = option(None, "N", "Fail if more rows are rejected.", min=0)
    state: Path = option(Path(".aviso-ingest"), "FOLDER", "Folder that records what is done.")


def ingest(
    *,
    config: ConfigGroup,
    source: SourceGroup,
    job: IngestGroup,
    lake: LakeGroup,
    spark: SparkGroup,
    observe: RunGroup,
) -> None:
    """Ingest, and print the results."""
    settings = config.load()
    to_server = job.to == "server"
    with observe.job("ingest") as noted:
        url = job.url or settings.application.base_url
        options = IngestOptions(
            source=source.read(settings, lake, to_server=to_server),
            catalogue=settings.catalogue,
            state=job.state.absolute(),
            server=target(url, token=job.token, rate=job.rate) if to_server else None,
            lake=None if to_server else lake.existing(settings, purpose="write to"),
            dead_letters=lake.place_of(job.dead_letters, settings),
            max_rejected=job.max_rejected,
        )
        noted.reads(*_origins(options.source))
        target_ = url if options.lake is None else options.lake.table(NOTIFICATIONS)
        noted.writes(Dataset.at(target_))
        spark_options = spark.options("ingest")
        outcome = earlier_outcome(options)  # before Spark is started for nothing
        if outcome is None:
            with job_session(spark_options) as session:
                outcome = run(options, session, report=_say)
        noted.rows.update(read=outcome.read, written=outcome.added, rejected=outcome.rejected)
    _summary(options, outcome)


def _origins(source: staging.Source) -> list[Dataset]:
    match source:
        case staging.FromFiles():
            return [Dataset.at(item.path) for item in source.files]
        case staging.FromLog():
            return [Dataset.of_log(source.options)]
        case staging.FromLake():
            return [Dataset.at(source.place.table(NOTIFICATIONS))]


def _guess_format(sources: list[str]) -> Format:
    kinds = {
        _SUFFIXES.get(Path(name.removesuffix(".gz")).suffix.lower()) for name in sources or [""]
    }
    found = kinds.pop()
    if kinds or found is None:
        raise typer.BadParameter("say what the source is", param_hint="--format")
    return found


def _say(what: str) -> None:
    if sys.stderr.isatty():
        typer.echo(f"ingest: {what}", err=True)


def _summary(options: IngestOptions, outcome: IngestOutcome) -> None:
    done = "published" if options.lake is None else "written"
    rows = [
        ("read", outcome.read),
        (done, outcome.added),
        ("repeated", outcome.repeated),
        ("rejected", outcome.rejected),
    ]
    if options.lake is not None:
        rows.append(("missing", outcome.missing))
    for name, count in rows:
        typer.echo(f"{name:<10}{count:>14,}")
    for reason in outcome.reasons:
        what = reason.code if reason.field is None else f"{reason.code} {reason.field}"
        typer.echo(f"  {reason.count:>12,}  {what}: {reason.example}")
    if outcome.dead_letters is not None:
        typer.echo(f"rejected rows are in {outcome.dead_letters}")
