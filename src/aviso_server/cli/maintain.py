"""``aviso-server pipeline maintain``: the lake's files kept few and clean."""

from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import typer

from aviso_server.cli.jobs import (
    LakeGroup,
    SparkGroup,
    bar,
    event_type_option,
    pairs,
)
from aviso_server.cli.options import flag, option
from aviso_server.cli.runs import RunGroup
from aviso_server.cli.shared import ConfigGroup, output, table
from aviso_server.lake.inventory import Inventory
from aviso_server.lake.layout import NOTIFICATIONS, Place
from aviso_server.pipeline.maintain import job as maintenance
from aviso_server.pipeline.maintain.job import MaintainOptions, MaintainOutcome
from aviso_server.pipeline.maintain.plan import MaintainPlan, MaintainPolicy
from aviso_server.pipeline.runs.run import Dataset
from aviso_server.pipeline.spark.session import job_session
from aviso_server.settings.literals import LiteralError, duration_s, size_bytes

EPILOG = """\
\b
Examples:
  aviso-server pipeline maintain --config examples/config.yaml --dry-run
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


@dataclass(frozen=True, kw_only=True)
class MaintainGroup:
    """What is done to the files."""

    event_type: list[str] | None = event_type_option()
    dry_run: bool = flag("Print what would be done, and do nothing.", "--dry-run")
    target_size: str = option("128Mi", "SIZE", "Largest size of a merged file.")
    min_files: int = option(2, "N", "Merge if there are at least this many files.", min=2)
    sort: Literal["sequence", "box"] = option(
        "sequence",
        "sequence|box",
        "Order of rows: by sequence, or by place within short ranges of sequences.",
    )
    everything: bool = flag("Rewrite every file, for instance to change the order.", "--all")
    retention: list[str] | None = option(
        None,
        "EVENT_TYPE=DAYS",
        "Remove what is older, such as mars=400d; '*' is every other event type. May be repeated.",
    )
    keep_days: float = option(7.0, "DAYS", "How long replaced files are kept for readers.", min=0)
    force: bool = flag("Allow --keep-days of less than an hour.", "--force")

    def options(self, place: Place) -> MaintainOptions:
        """The job."""
        return MaintainOptions(
            place,
            tuple(self.event_type or ()),
            MaintainPolicy(
                _size(self.target_size), self.min_files, _retention(self.retention), self.everything
            ),
            self.sort,
            timedelta(days=self.keep_days),
            self.force,
            self.dry_run,
        )


def maintain(
    *,
    config: ConfigGroup,
    lake: LakeGroup,
    job: MaintainGroup,
    spark: SparkGroup,
    observe: RunGroup,
) -> None:
    """Do it and print what was done, or only what would be."""
    if lake.lake is None and config.config is None:
        raise typer.BadParameter("give --lake PATH, or --config FILE with lake.path in it")
    spark_options = spark.options("maintain")
    settings = config.load_if_given()
    with observe.job("maintain") as noted:
        options = job.options(lake.existing(settings))
        noted.reads(Dataset.at(options.place.table(NOTIFICATIONS)))
        noted.writes(*noted.inputs)
        maintenance.check(options)  # before Spark is started for nothing
        with job_session(spark_options) as session, ExitStack() as stack:
            outcome = maintenance.run(session, options, tell=_bar(stack))
        noted.rows.update(
            files_before=outcome.files_before,
            files_after=outcome.files_after,
            problems=len(outcome.problems),
        )
        noted.problem = next(iter(outcome.problems), None)
    _show(outcome, dry_run=job.dry_run)
    for problem in outcome.problems:
        typer.echo(f"aviso-server pipeline maintain: {problem}", err=True)
    if outcome.problems:
        raise typer.Exit(1)


def _bar(stack: ExitStack) -> Callable[[int, int], None]:
    """A bar that begins when it is known how much there is to do."""
    advance: list[Callable[[int], None]] = []
    shown = 0

    def advance_to(done: int, total: int) -> None:
        nonlocal shown
        if not advance and total:
            advance.append(stack.enter_context(bar("files", total)))
        if advance:
            advance[0](done - shown)
            shown = done

    return advance_to


def _show(outcome: MaintainOutcome, *, dry_run: bool) -> None:
    if dry_run:
        _show_plan(outcome.plan)
        typer.echo(f"{len(outcome.swept):,} files that are not needed would be removed")
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
        typer.echo(f"left alone, because another job was faster: {outcome.overtaken:,}")


def _show_plan(plan: MaintainPlan) -> None:
    console = output()
    counted = ("files", "size", "becomes", "rows", "hidden")
    rows = table(console, "event type", "day", "what", numbers=counted)
    steps: defaultdict[tuple[str, str, str], list[tuple[Inventory, int, int]]]
    steps = defaultdict(list)
    for item in plan.removals:
        what = f"remove ({item.why})"
        hidden = item.files.rows if item.why == "hidden" else 0
        steps[item.event_type, item.day.isoformat(), what].append((item.files, 0, hidden))
    for rewrite in plan.rewrites:
        key = (rewrite.event_type, rewrite.day.isoformat(), "rewrite")
        steps[key].append((rewrite.files, 1, rewrite.hidden))
    for key in sorted(steps):
        parts = [part for part, _, _ in steps[key]]
        rows.add_row(
            *key,
            f"{sum(map(len, parts)):,}",
            _amount(sum(part.size for part in parts)),
            f"{sum(made for _, made, _ in steps[key]):,}",
            f"{sum(max(0, part.rows) for part in parts):,}",
            f"{sum(hidden for _, _, hidden in steps[key]):,}",
        )
    console.print(rows if steps else "nothing to remove or to put together")


def _size(text: str) -> int:
    try:
        return size_bytes(text.removesuffix("B"))
    except LiteralError as error:
        raise typer.BadParameter(str(error), param_hint="--target-size") from None


def _retention(given: list[str] | None) -> dict[str, int]:
    """Days by event type."""
    kept = {}
    for name, text in pairs("--retention", given).items():
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
