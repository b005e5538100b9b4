"""Commands that are loaded when they are used.

``--help`` lists them without importing them: most load Spark, Arrow or the web server.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from aviso_server.cli.options import ungroup

if TYPE_CHECKING:
    from typer._click import Command, HelpFormatter

_MISSING = {
    "pyspark": "PySpark is not installed; install it with: pip install 'aviso-server[spark]'",
    "duckdb": "DuckDB is not installed; install it with: pip install 'aviso-server[query]'",
}
_MISSING["py4j"] = _MISSING["pyspark"]


def plain_app(*, group: type[TyperGroup] | None = None, **texts: str) -> typer.Typer:
    """An application whose help and errors are plain text.

    They are read in logs and pipes as often as in terminals.
    """
    return typer.Typer(
        cls=group,
        no_args_is_help=group is not None,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"max_content_width": 100, "help_option_names": ["-h", "--help"]},
        help=texts.get("help"),
        epilog=texts.get("epilog"),
    )


class LazyGroup(TyperGroup):
    """Commands that are listed here; each is the function NAME of ``aviso_server.cli.NAME``."""

    summaries: ClassVar[Mapping[str, str]] = {}
    """What each command does, in a sentence."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]
        listed = {name: TyperCommand(name, help=text) for name, text in self.summaries.items()}
        self.commands = {**listed, **self.commands}

    def get_command(self, ctx: object, cmd_name: str) -> "Command | None":
        """A command, loaded now."""
        del ctx
        if cmd_name in self.summaries:
            self.commands[cmd_name] = _load(cmd_name, self.summaries[cmd_name])
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: object, formatter: "HelpFormatter") -> None:
        """Every command with its whole sentence."""
        del ctx
        rows = [(name, command.help or "") for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _load(name: str, summary: str) -> "Command":
    try:
        module = import_module(f"aviso_server.cli.{name}")
    except ModuleNotFoundError as error:
        words = _MISSING.get((error.name or "").partition(".")[0])
        if words is None:
            raise
        typer.echo(words, err=True)
        raise typer.Exit(1) from None
    app = plain_app()
    app.command(name, help=summary, epilog=module.EPILOG)(ungroup(getattr(module, name)))
    return typer.main.get_command(app)
