"""What all commands share: the configuration, and how they print."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from aviso_server import __version__
from aviso_server.cli.options import option
from aviso_server.core.json import Json
from aviso_server.settings import Origin, Settings, SettingsError

# A server prints no tables, and has no use for rich.
if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


@dataclass(frozen=True, kw_only=True)
class ConfigGroup:
    """Where the settings come from."""

    config: Path | None = option(
        None, "FILE", "Configuration file. No other file is read then.", "--config", "-c"
    )

    def load(
        self,
        overrides: Mapping[str, Json] | None = None,
        *,
        failed: Callable[[SettingsError], None] = lambda _: None,
    ) -> Settings:
        """The effective settings; with faults they are listed and the command ends."""
        try:
            return Origin(self.config, overrides or {}).read()
        except SettingsError as error:
            list_faults(error)
            failed(error)
            raise typer.Exit(1) from None

    def load_if_given(self) -> Settings | None:
        """The settings, for a command that does without where no file is named."""
        return None if self.config is None else self.load()


def list_faults(error: SettingsError) -> None:
    """A line for each fault."""
    typer.echo(
        "Failed to load configuration"
        f" (service_name=aviso-server, service_version={__version__}): ",
        err=True,
    )
    for fault in error.faults:
        typer.echo(f"  {fault}", err=True)


def output() -> "Console":
    """Stdout; in a file or a pipe plain, and so wide that no realistic cell is folded."""
    from rich.console import Console  # noqa: PLC0415 - as above

    if sys.stdout.isatty():
        return Console()
    return Console(width=160, color_system=None, highlight=False)


def table(console: "Console", *headings: str, numbers: tuple[str, ...] = ()) -> "Table":
    """A table with columns of text, then columns of numbers."""
    from rich import box  # noqa: PLC0415 - as above
    from rich.table import Table  # noqa: PLC0415

    made = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    for heading in headings:
        made.add_column(heading)
    for heading in numbers:
        made.add_column(heading, justify="right")
    return made
