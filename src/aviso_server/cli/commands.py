"""The command line: which commands there are."""

from typing import Annotated, ClassVar

import typer

from aviso_server import __version__
from aviso_server.cli.lazy import LazyGroup, plain_app

_HELP = """\
Announce data, follow it live, replay its history.

Start with a configuration file (examples/config.yaml is a commented one), check it, serve it.
"""

_EPILOG = """\
\b
Examples:
  aviso-server check  --config examples/config.yaml
  aviso-server schema --config examples/config.yaml
  aviso-server serve  --config examples/config.yaml

\b
Without --config the file named by AVISOSERVER_CONFIG_FILE is read; without that, each of
  ./configuration/config.yaml
  /etc/aviso_server/config.yaml
  ~/.aviso_server/config.yaml
that exists, later ones over earlier ones.

\b
Any setting can be overridden from the environment, levels joined by two underscores:
  AVISOSERVER_APPLICATION__PORT=8080
  AVISOSERVER_LOGGING__LEVEL=debug
  AVISOSERVER_AUTH__ADMIN_ROLES='{"ecmwf": ["admin"]}'   (lists and maps are JSON)

docs/configuration.md lists every setting.
"""


class _Commands(LazyGroup):
    summaries: ClassVar = {
        "serve": "Run the server until it is stopped.",
        "check": "Check the configuration and print the effective settings, or list every fault.",
        "schema": "Show the event types and their fields; with EVENT_TYPE, only that one.",
        "query": "Ask the lake in SQL; without SQL, list its tables and columns.",
    }


class _PipelineCommands(LazyGroup):
    summaries: ClassVar = {
        "archive": "Copy every notification from the log into the lake, each exactly once.",
        "tables": "Keep a table for each event type, with a typed column for each field.",
        "maintain": "Merge small files of the lake, and remove what is deleted, expired or unused.",
        "audit": "Prove that the lake is complete, or list what is wrong with it.",
        "recover": "Reconcile log and lake after one of them was restored or lost; "
        "with EVENT_TYPE, only for those event types.",
        "report": "Write a page about what was announced: volume, delays, late and missing "
        "products, areas.",
        "quality": "Check whether notifications are as expected of their event types.",
        "live": "Publish rates and late cycles as notifications, as they happen.",
        "ingest": "Import an existing history from SOURCE: files of NDJSON, CSV or Parquet "
        "(paths, folders or patterns), the address of a NATS server, or another lake.",
        "replay": "Write a part of the history of EVENT_TYPE to files, or publish it to another "
        "server.",
    }


app = plain_app(group=_Commands, help=_HELP, epilog=_EPILOG)
_pipeline = plain_app(
    group=_PipelineCommands,
    help="Run a job of the data pipeline, between the log and the lake, with PySpark and Java 17 "
    "or newer.",
)
app.add_typer(_pipeline, name="pipeline")


def main() -> None:
    """Run the command line; ends the process with the command's exit code."""
    app()


def _version(value: bool) -> None:  # noqa: FBT001 - the shape of a typer callback
    if value:
        typer.echo(f"aviso-server {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@_pipeline.callback()
def _jobs() -> None:
    pass
