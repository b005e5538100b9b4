"""The command ``aviso-server pipeline ingest``."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from aviso_server.cli import sparked
from aviso_server.cli.loading import ConfigFile, load
from aviso_server.core.errors import AvisoError

if TYPE_CHECKING:
    from aviso_server.lake.layout import Place
    from aviso_server.pipeline.ingest.job import IngestOptions, IngestOutcome
    from aviso_server.pipeline.ingest.staging import Source
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
Every row is judged by the rules of the configuration. Rows that are not notifications go to the
folder of dead letters with source, line, field and reason. Good ones are published in the order of
time, or, with --to lake, written under the sequences and times they bring. Running it again is
harmless: what is in stays in once.

\b
Exit code 0: done; rejected rows are told. 1: it failed or too many rows were rejected, one line on
stderr says why. 2: wrong usage.
"""

Format: TypeAlias = Literal["ndjson", "csv", "parquet", "jetstream", "lake"]
_SUFFIXES: dict[str, Format] = {
    ".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "ndjson", ".csv": "csv",
    ".parquet": "parquet",
}  # fmt: skip


_Source: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(metavar="SOURCE...", help="Files, folders, patterns; NATS address; lake."),
]
_Format: TypeAlias = Annotated[
    Format | None,
    typer.Option(
        "--format",
        metavar="ndjson|csv|parquet|jetstream|lake",
        help="What the source is; by its name if not said.",
    ),
]
_To: TypeAlias = Annotated[
    Literal["server", "lake"], typer.Option(metavar="server|lake", help="Where it goes.")
]
_Url: TypeAlias = Annotated[
    str | None, typer.Option(metavar="URL", help="The server; application.base_url.")
]
_Lake: TypeAlias = Annotated[
    str | None, typer.Option(metavar="PATH", help="Folder or URL of the lake; lake.path.")
]
_Mapping: TypeAlias = Annotated[
    str | None,
    typer.Option("--map", metavar="PART=COLUMN,...", help="Columns of CSV and Parquet."),
]
_EventType: TypeAlias = Annotated[
    str | None, typer.Option(metavar="T", help="Of every row, or the one to read.")
]
_DeadLetters: TypeAlias = Annotated[
    str | None, typer.Option(metavar="PATH", help="Rejected rows; STATE/rejected.")
]
_MaxRejected: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="Fail if more rows are rejected.")
]
_State: TypeAlias = Annotated[
    Path, typer.Option(metavar="PATH", help="Folder that remembers what is done.")
]
_Rate: TypeAlias = Annotated[
    float | None, typer.Option(metavar="N", min=0.001, help="Per second and event type.")
]
_Token: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="T", envvar="AVISO_TOKEN", help="Bearer token for the server."),
]


def ingest(  # noqa: PLR0913 - the options of a command
    source: _Source = None,
    config: ConfigFile = None,
    *,
    format_: _Format = None,
    to: _To = "server",
    url: _Url = None,
    lake: _Lake = None,
    mapping: _Mapping = None,
    event_type: _EventType = None,
    dead_letters: _DeadLetters = None,
    max_rejected: _MaxRejected = None,
    state: _State = Path(".aviso-ingest"),
    rate: _Rate = None,
    token: _Token = None,
    storage_option: sparked.StorageOption = None,
    master: sparked.Master = None,
    conf: sparked.Conf = None,
    packages: sparked.Packages = None,
    remote: sparked.Remote = None,
    verbose: sparked.Verbose = False,
) -> None:
    """Take a legacy history in: NDJSON, CSV, Parquet, JetStream or another lake."""
    settings = load(config)
    kind = format_ or _guessed(source)
    given = _Given(source or [], kind, mapping, event_type, storage_option)
    with sparked.told("ingest", verbose=verbose):
        from aviso_server.pipeline.ingest.job import IngestOptions, earlier_outcome, run  # noqa: PLC0415

        options = IngestOptions(
            source=_source(settings, given, to),
            catalogue=settings.catalogue,
            state=state.absolute(),
            server=None
            if to == "lake"
            else sparked.server(url or settings.application.base_url, token=token, rate=rate),
            lake=None if to == "server" else _lake(settings, lake, storage_option),
            dead_letters=dead_letters and sparked.absolute(dead_letters),
            max_rejected=max_rejected,
        )
        chosen = sparked.spark_options(
            master=master,
            conf=conf,
            packages=packages,
            remote=remote,
            app_name="aviso-server ingest",
        )
        outcome = earlier_outcome(options)  # before Spark is started for nothing
        if outcome is None:
            with sparked.session(chosen) as spark:
                outcome = run(options, spark, report=_say)
    _summary(options, outcome)


class _Given:
    """What the command line says of the source."""

    def __init__(
        self,
        sources: list[str],
        kind: Format,
        mapping: str | None,
        event_type: str | None,
        storage_option: list[str] | None,
    ) -> None:
        self.sources = sources
        self.kind = kind
        self.mapping = mapping
        self.event_type = event_type
        self.storage_option = storage_option


def _source(settings: "Settings", given: _Given, to: str) -> "Source":
    from aviso_server.pipeline.ingest import files, staging  # noqa: PLC0415 - loaded when used
    from aviso_server.pipeline.ingest.table import read_mapping  # noqa: PLC0415

    if given.kind == "jetstream":
        return staging.FromLog(_log_options(settings, given, to))
    if not given.sources:
        raise typer.BadParameter("say what to take in", param_hint="SOURCE")
    if given.kind == "lake":
        if len(given.sources) > 1:
            raise typer.BadParameter("one lake at a time", param_hint="SOURCE")
        names = None if given.event_type is None else (given.event_type,)
        return staging.FromLake(sparked.place(given.sources[0], given.storage_option), names)
    if given.kind == "ndjson" and (given.mapping or given.event_type):
        raise typer.BadParameter("lines of NDJSON say themselves what is what", param_hint="--map")
    fields = {field.name for item in settings.catalogue.schemas.values() for field in item.fields}
    mapping = read_mapping(given.mapping, event_type=given.event_type, fields=fields)
    return staging.FromFiles(tuple(files.files(given.sources)), given.kind, mapping)


def _log_options(settings: "Settings", given: _Given, to: str) -> dict[str, str]:
    wanted = {"eventType": given.event_type or "*"}
    if given.sources:
        from aviso_server.core.declaration import declaration  # noqa: PLC0415 - loaded when used

        rules = [declaration(schema) for schema in settings.catalogue.schemas.values()]
        return {"servers": ",".join(given.sources), "schemas": json.dumps(rules), **wanted}
    if to == "server":
        raise typer.BadParameter(
            "say which NATS to read: the configuration names the log of the server itself",
            param_hint="SOURCE",
        )
    from aviso_server.server.joboptions import source_options  # noqa: PLC0415

    return {**source_options(settings), **wanted}


def _lake(settings: "Settings", path: str | None, storage_option: list[str] | None) -> "Place":
    found = sparked.configured_place(settings, path, storage_option)
    if found is None:
        raise AvisoError("there is no lake to write to: set lake.path, or give --lake PATH")
    return found


def _guessed(sources: list[str] | None) -> Format:
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


def _summary(options: "IngestOptions", outcome: "IngestOutcome") -> None:
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
