"""The commands and their options."""

import signal
import sys
from typing import TYPE_CHECKING, Annotated

import typer
import yaml
from rich.console import Console

from aviso_server import __version__
from aviso_server.cli import help as texts
from aviso_server.cli import pipeline
from aviso_server.cli.faults import log_faults
from aviso_server.cli.loading import ConfigFile, load, report
from aviso_server.core.json import Json

if TYPE_CHECKING:
    from aviso_server.server.serve import Running

# What takes long to load is imported when a command needs it: help and other commands come sooner.

app = typer.Typer(
    name="aviso-server",
    help=texts.MAIN,
    epilog=texts.MAIN_EPILOG,
    no_args_is_help=True,
    add_completion=False,
    # Help and errors as plain text: they are read in logs and pipes as often as in terminals.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"max_content_width": 100, "help_option_names": ["-h", "--help"]},
)
app.add_typer(pipeline.app, name="pipeline")


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
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


@app.command(epilog=texts.SERVE_EPILOG)
def serve(
    config: ConfigFile = None,
    host: Annotated[
        str | None, typer.Option(metavar="HOST", help="Bind address; wins over the settings.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(metavar="PORT", min=0, max=65_535, help="Port; 0 picks one and prints it."),
    ] = None,
    workers: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=256, help="Processes that share the port; needs jetstream."
        ),
    ] = 1,
) -> None:
    """Run the server until it is told to stop."""
    # Until the server can reload, a request to do so must not end it.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    chosen: dict[str, Json] = {"host": host, "port": port}
    given: dict[str, Json] = {key: value for key, value in chosen.items() if value is not None}
    overrides: dict[str, Json] = {"application": given}
    loaded = load(config, overrides=overrides, failed=log_faults)
    from aviso_server.cli.banner import banner  # noqa: PLC0415
    from aviso_server.server import workers as crew  # noqa: PLC0415
    from aviso_server.server.reload import Origin  # noqa: PLC0415
    from aviso_server.server.serve import run  # noqa: PLC0415

    origin = Origin(config, overrides)

    def started(running: "Running") -> None:
        # On stderr: stdout belongs to the log.
        text = banner(running.url, loaded.catalogue, kept=running.kept, archive=running.archive)
        typer.echo(text, err=True)

    if workers > 1:
        raise typer.Exit(crew.run(loaded, workers, started=started, origin=origin))
    raise typer.Exit(run(loaded, started=started, origin=origin))


@app.command(epilog=texts.CHECK_EPILOG)
def check(config: ConfigFile = None) -> None:
    """List every fault, or print the effective settings."""
    from aviso_server import settings  # noqa: PLC0415

    loaded = load(config)
    if faults := settings.unreadable(loaded):
        report(settings.SettingsError(faults))
        raise typer.Exit(1)
    for warning in loaded.warnings:
        typer.echo(f"warning: {warning.path}: {warning.message}", err=True)
    dump = yaml.safe_dump(settings.redacted(loaded), sort_keys=False, allow_unicode=True)
    typer.echo(dump, nl=False)


@app.command(epilog=texts.SCHEMA_EPILOG)
def schema(
    event_type: Annotated[
        str | None, typer.Argument(metavar="[EVENT_TYPE]", help="Only this event type.")
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Show the event types and their fields."""
    from aviso_server.cli import tables  # noqa: PLC0415

    loaded = load(config)
    known = loaded.catalogue.schemas
    if event_type is not None and event_type not in known:
        names = ", ".join(sorted(known)) or "none"
        typer.echo(f"unknown event type '{event_type}'; configured: {names}", err=True)
        raise typer.Exit(1)
    shown = [item for name, item in known.items() if event_type in {None, name}]
    tables.show(_console(), shown, url=loaded.application.base_url)


def _console() -> Console:
    if sys.stdout.isatty():
        return Console()
    # Wide enough that no cell of a realistic schema is folded in a file or a pipe.
    return Console(width=160, color_system=None, highlight=False)
