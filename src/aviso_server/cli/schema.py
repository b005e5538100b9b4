"""``aviso-server schema``: event types as readable tables."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from aviso_server.cli.example import notification
from aviso_server.cli.options import argument
from aviso_server.cli.shared import ConfigGroup, output
from aviso_server.core.fields.field import Field
from aviso_server.core.json import Json
from aviso_server.core.schema import Schema

EPILOG = """\
\b
Examples:
  aviso-server schema --config examples/config.yaml
  aviso-server schema --config examples/config.yaml mars

\b
Topic is the place of a field in the topic, counted after the base.
"""

_NOT_OPTIONS = frozenset({"type", "required", "description"})


@dataclass(frozen=True, kw_only=True)
class SchemaGroup:
    """What is shown."""

    event_type: str | None = argument(None, "EVENT_TYPE")


def schema(wanted: SchemaGroup, config: ConfigGroup) -> None:
    """Print a table per event type, each with a command that notifies it."""
    settings, event_type = config.load(), wanted.event_type
    schemas = settings.catalogue.schemas
    if event_type is not None and event_type not in schemas:
        names = ", ".join(sorted(schemas)) or "none"
        typer.echo(f"unknown event type '{event_type}'; configured: {names}", err=True)
        raise typer.Exit(1)
    chosen = [item for name, item in schemas.items() if event_type in {None, name}]
    show(output(), chosen, url=settings.application.base_url)


def show(console: Console, schemas: Sequence[Schema], *, url: str) -> None:
    """Print one table per event type, each with a command that notifies it."""
    if not schemas:
        console.print("No event types are configured: any event type is accepted.", style="dim")
    for schema in schemas:
        console.print(Text(schema.event_type, style="bold"), Text(_summary(schema), style="dim"))
        for line in _lines(console, _table(schema, boxed=console.is_terminal)):
            console.print(line, soft_wrap=True)
        # Printed as plain, unwrapped text so that it can be copied.
        console.print(Text(curl(schema, url)), soft_wrap=True)
        console.print()


def curl(schema: Schema, url: str) -> str:
    """A shell command that notifies this event type."""
    body = msgspec.json.encode(notification(schema)).decode()
    return (
        f"curl -X POST {url.rstrip('/')}/api/v1/notification"
        f" -H 'Content-Type: application/json' -d {shlex.quote(body)}"
    )


def _summary(schema: Schema) -> str:
    words = {None: "optional", False: "optional", True: "required"}
    parts = [
        f"topic base {schema.base}",
        f"stream {schema.stream}",
        f"payload {words[schema.payload_required]}",
    ]
    if schema.access is not None and schema.access.required:
        parts.append("authentication required")
    return f"({', '.join(parts)})"


def _table(schema: Schema, *, boxed: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD if boxed else None, pad_edge=boxed)
    for heading in ("field", "type", "required", "options", "topic", "description"):
        table.add_column(heading)
    order = schema.token_fields or ()
    for field in schema.fields:
        table.add_row(
            Text(field.name),
            field.type,
            "yes" if field.required else "no",
            Text(_options(field)),
            str(order.index(field.name) + 1) if field.name in order else "-",
            Text(field.description or ""),
        )
    return table


def _options(field: Field) -> str:
    chosen = {
        key: value
        for key, value in field.view().items()
        if key not in _NOT_OPTIONS and value is not None
    }
    return ", ".join(f"{key} {_text(value)}" for key, value in chosen.items())


def _text(value: Json) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _lines(console: Console, table: Table) -> list[Text]:
    """The table's lines without the blanks that only pad them to the console's width."""
    with console.capture() as capture:
        console.print(table)
    lines = [Text.from_ansi(line) for line in capture.get().splitlines()]
    for line in lines:
        line.rstrip()
    return lines
