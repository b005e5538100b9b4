r"""The command ``aviso-server pipeline recover``."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from aviso_server.cli import sparked
from aviso_server.cli.audit import FINDINGS
from aviso_server.cli.loading import ConfigFile, load

if TYPE_CHECKING:
    from aviso_server.pipeline.recover.job import RecoverOutcome

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


def recover(
    event_types: Annotated[
        list[str] | None, typer.Argument(metavar="[EVENT_TYPE]...", help="Only these.")
    ] = None,
    config: ConfigFile = None,
    *,
    lake: Annotated[
        str | None, typer.Option(metavar="PATH", help="Folder or URL of the lake; lake.path.")
    ] = None,
    save: Annotated[
        Path, typer.Option(metavar="DIR", help="Where what is only in the log is saved.")
    ] = Path("recovered"),
    apply: Annotated[
        bool, typer.Option("--apply", help="Settle it; without this nothing is changed.")
    ] = False,
    storage_option: sparked.StorageOption = None,
    verbose: sparked.Verbose = False,
) -> None:
    """Bring log and lake back in line after one of them was restored or lost."""
    with sparked.told("recover", verbose=verbose):
        from aviso_server.pipeline.recover.job import (  # noqa: PLC0415
            RecoverOptions,
            settled,
        )
        from aviso_server.pipeline.recover.job import recover as run  # noqa: PLC0415
        from aviso_server.server.joboptions import source_options  # noqa: PLC0415 - loaded when it is used

        settings = load(config)
        options = RecoverOptions(
            sparked.place_to_read(settings, lake, storage_option),
            source_options(settings),
            tuple(event_types or ()),
            save,
            apply,
        )
        with sparked.bar("comparing", None) as step:
            found = asyncio.run(run(options, step=step))
    _show(found)
    if not settled(found):
        raise typer.Exit(FINDINGS)


def _show(found: "list[RecoverOutcome]") -> None:
    console = Console() if sys.stdout.isatty() else Console(width=160, color_system=None)
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    table.add_column("event type")
    for heading in ("log", "lake through", "only in the log", "stored again"):
        table.add_column(heading, justify="right")
    for item in found:
        stand = item.stand
        held = "empty" if stand.empty else f"{stand.first:,} to {stand.last:,}"
        counts = (stand.mark.through, item.only_here, item.restored)
        table.add_row(stand.schema.event_type, held, *(f"{n:,}" for n in counts))
    console.print(table)
    for item in found:
        console.print(_words(item), soft_wrap=True, markup=False, highlight=False)


def _words(item: "RecoverOutcome") -> str:
    stand = item.stand
    name = stand.schema.event_type
    if stand.why is not None:
        saved = f"saves {item.only_here:,} of the log, " if item.only_here else ""
        return (
            f"{name}: {stand.why}. --apply {saved}lets the log go on at {stand.continues:,} and "
            "leaves the rest to the lake"
        )
    if item.pending:
        return f"{name}: {item.pending:,} are saved and not yet stored again; --apply does it"
    if item.changed or item.restored:
        where = f", saved in {item.file}" if item.file else ""
        again = f"; {item.restored:,} stored again under new sequences{where}"
        return (
            f"{name}: settled: the log goes on at {stand.continues:,}, everything below is "
            f"replayed from the lake{again if item.restored else ''}"
        )
    if stand.empty and stand.mark.through:
        return (
            f"{name}: nothing to do: the log is empty, goes on at {stand.continues:,}, and "
            "everything below is replayed from the lake"
        )
    return f"{name}: nothing to do, log and lake agree"
