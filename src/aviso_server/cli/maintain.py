r"""The command ``aviso-server pipeline maintain``."""

import sys
from collections import defaultdict
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from aviso_server.cli import sparked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aviso_server.lake.inventory import TableFile
    from aviso_server.pipeline.maintain.job import MaintainOutcome
    from aviso_server.pipeline.maintain.plan import MaintainPlan

EPILOG = """\
\b
Examples:
  aviso-server pipeline maintain --lake var/lake --dry-run
  aviso-server pipeline maintain --lake var/lake
  aviso-server pipeline maintain --lake var/lake --retention mars=400d --retention '*=60d'
  aviso-server pipeline maintain --lake s3://bucket/aviso --target-size 256Mi --sort box --all

\b
It may run beside the archive job, replays and another maintain. Files it has replaced stay for
--keep-days, for whoever still reads them. What it has committed stays when it is killed.

\b
Exit code 0: done. 1: some of it could not be done, and stderr says what and why. 2: wrong usage.
"""

_DAY_S = 86_400


EventTypes: TypeAlias = Annotated[
    list[str] | None, typer.Option("--event-type", metavar="T", help="Only this; may be repeated.")
]
DryRun: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")
]
TargetSize: TypeAlias = Annotated[
    str, typer.Option(metavar="SIZE", help="How large files become, at most.")
]
MinFiles: TypeAlias = Annotated[
    int, typer.Option(metavar="N", min=2, help="Small files that are worth putting together.")
]
Order: TypeAlias = Annotated[
    Literal["sequence", "box"],
    typer.Option(
        metavar="sequence|box", help="Order of rows; box is by place within short stretches."
    ),
]
Everything: TypeAlias = Annotated[
    bool, typer.Option("--all", help="Write every file again, say to change the order.")
]
Retention: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="T=400d", help="How long an event type is kept; '*' is the others."),
]
KeepDays: TypeAlias = Annotated[
    float, typer.Option(metavar="DAYS", min=0, help="How long replaced files stay.")
]
Force: TypeAlias = Annotated[
    bool, typer.Option("--force", help="Allow --keep-days below one hour.")
]


def maintain(  # noqa: PLR0913 - the options of a command
    *,
    lake: Annotated[str, typer.Option(metavar="PATH", help="Folder or URL of the lake.")],
    event_type: EventTypes = None,
    dry_run: DryRun = False,
    target_size: TargetSize = "128Mi",
    min_files: MinFiles = 2,
    sort: Order = "sequence",
    everything: Everything = False,
    retention: Retention = None,
    keep_days: KeepDays = 7.0,
    force: Force = False,
    storage_option: sparked.StorageOption = None,
    master: sparked.Master = None,
    conf: sparked.Conf = None,
    packages: sparked.Packages = None,
    remote: sparked.Remote = None,
    verbose: sparked.Verbose = False,
) -> None:
    """Put small files together; remove what is deleted, expired, or left over."""
    target, kept = _size(target_size), _retention(retention)
    name = "aviso-server maintain"
    spark_options = sparked.spark_options(
        master=master, conf=conf, packages=packages, remote=remote, app_name=name
    )
    with sparked.told("maintain", verbose=verbose):
        # Loaded when they are used: help needs no Spark.
        from aviso_server.pipeline.maintain import job, plan  # noqa: PLC0415

        options = job.MaintainOptions(
            sparked.place(lake, storage_option),
            tuple(event_type or ()),
            plan.MaintainPolicy(target, min_files, kept, everything),
            sort,
            timedelta(days=keep_days),
            force,
            dry_run,
        )
        job.check(options)  # before Spark is started for nothing
        with sparked.session(spark_options) as spark, ExitStack() as stack:
            outcome = job.run(spark, options, tell=_bar(stack))
    _show(outcome, dry_run=dry_run)
    for problem in outcome.problems:
        typer.echo(f"aviso-server pipeline maintain: {problem}", err=True)
    if outcome.problems:
        raise typer.Exit(1)


def _bar(stack: ExitStack) -> "Callable[[int, int], None]":
    """A bar that begins when it is known how much there is to do."""
    advance: list[Callable[[int], None]] = []
    shown = 0

    def tell(done: int, total: int) -> None:
        nonlocal shown
        if not advance and total:
            advance.append(stack.enter_context(sparked.bar("files", total)))
        if advance:
            advance[0](done - shown)
            shown = done

    return tell


def _show(outcome: "MaintainOutcome", *, dry_run: bool) -> None:
    if dry_run:
        _show_plan(outcome.plan)
        typer.echo(f"{len(outcome.swept):,} files that nobody needs would be removed")
        return
    saved = outcome.bytes_before - outcome.bytes_after
    typer.echo(
        f"files {outcome.files_before:,} -> {outcome.files_after:,}, "
        f"{_amount(outcome.bytes_before)} -> {_amount(outcome.bytes_after)} "
        f"({_amount(abs(saved))} {'less' if saved >= 0 else 'more'})"
    )
    typer.echo(
        f"notifications removed: {outcome.rows_hidden:,} deleted or wiped, "
        f"{outcome.rows_expired:,} expired (and {outcome.letters_expired:,} dead letters)"
    )
    typer.echo(f"files swept: {len(outcome.swept):,}")
    if outcome.overtaken:
        typer.echo(f"left alone, for somebody else was quicker: {outcome.overtaken:,}")


def _show_plan(plan: "MaintainPlan") -> None:
    console = Console() if sys.stdout.isatty() else Console(width=160, color_system=None)
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    for heading in ("event type", "day", "what"):
        table.add_column(heading)
    for heading in ("files", "size", "becomes", "rows", "hidden"):
        table.add_column(heading, justify="right")
    steps: defaultdict[tuple[str, str, str], list[tuple[Sequence[TableFile], int, int]]]
    steps = defaultdict(list)
    for item in plan.removals:
        what = f"remove ({item.why})"
        hidden = sum(file.rows for file in item.files) if item.why == "hidden" else 0
        steps[item.event_type, item.day.isoformat(), what].append((item.files, 0, hidden))
    for rewrite in plan.rewrites:
        key = (rewrite.event_type, rewrite.day.isoformat(), "rewrite")
        steps[key].append((rewrite.files, 1, rewrite.hidden))
    for key in sorted(steps):
        files = [file for part, _, _ in steps[key] for file in part]
        table.add_row(
            *key,
            f"{len(files):,}",
            _amount(sum(file.size for file in files)),
            f"{sum(made for _, made, _ in steps[key]):,}",
            f"{sum(max(0, file.rows) for file in files):,}",
            f"{sum(hidden for _, _, hidden in steps[key]):,}",
        )
    console.print(table if steps else "nothing to remove or to put together")


def _size(text: str) -> int:
    from aviso_server.settings.literals import LiteralError, size_bytes  # noqa: PLC0415 - as below

    try:
        return size_bytes(text.removesuffix("B"))
    except LiteralError as error:
        raise typer.BadParameter(str(error), param_hint="--target-size") from None


def _retention(given: list[str] | None) -> dict[str, int]:
    """Days by event type."""
    from aviso_server.settings.literals import LiteralError, duration_s  # noqa: PLC0415

    kept = {}
    for name, text in sparked.pairs("--retention", given).items():
        try:
            seconds = duration_s(text)
        except LiteralError as error:
            raise typer.BadParameter(f"{name}: {error}", param_hint="--retention") from None
        if seconds < _DAY_S or seconds % _DAY_S:
            raise typer.BadParameter(f"{name}: whole days, at least 1d", param_hint="--retention")
        kept[name] = seconds // _DAY_S
    return kept


def _amount(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
