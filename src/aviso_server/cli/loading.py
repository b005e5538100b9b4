"""Loading the configuration for a command, and telling what is wrong with it."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from aviso_server import __version__
from aviso_server.core.json import Json

if TYPE_CHECKING:
    from aviso_server.settings import Settings, SettingsError

ConfigFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", metavar="FILE", help="Configuration file; only this one is read."
    ),
]


def load(
    config: Path | None,
    overrides: Mapping[str, Json] | None = None,
    *,
    failed: "Callable[[SettingsError], None]" = lambda _: None,
) -> "Settings":
    """The effective settings; with faults they are listed and the command ends."""
    # Loaded when used: whoever asks for help need not wait for it.
    from aviso_server import settings  # noqa: PLC0415

    home = os.environ.get("HOME")
    try:
        return settings.load(
            config_file=config,
            environ=os.environ,
            cwd=Path.cwd(),
            home=Path(home) if home else None,
            overrides=overrides,
        )
    except settings.SettingsError as error:
        report(error)
        failed(error)
        raise typer.Exit(1) from None


def report(error: "SettingsError") -> None:
    """List the faults."""
    typer.echo(
        "Failed to load configuration"
        f" (service_name=aviso-server, service_version={__version__}): ",
        err=True,
    )
    for fault in error.faults:
        typer.echo(f"  {fault}", err=True)
