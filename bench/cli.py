"""The benchmark's command line."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer
from bench import report
from bench.age import Ages
from bench.bare import bare
from bench.compare import contested
from bench.costs import log_cost, request_cost
from bench.deep import deep_replay
from bench.figures import Failed, Item, Skipped, Value
from bench.filters import publish_cost
from bench.peers import Rivals
from bench.rates import QUICK, Bench, Sizes
from bench.scans import barren_replays
from bench.served import HERE, Conditions
from bench.stalls import stalls
from bench.starts import starts
from rich.console import Console

HELP = """Measure the server on this machine.

A fresh server (example configuration, loopback) is started for every part and loaded from
processes of their own. Figures are printed as a table and written as JSON. Nothing is
judged: figures depend on the machine and on who else is using it. Compare figures taken one after
the other, and compare "per CPU s" when the machine is busy.

\b
  make bench                                       everything, some four minutes
  .venv/bin/python bench/run.py --quick            everything, smaller, some two minutes
  .venv/bin/python bench/run.py replay --stored 200000
  .venv/bin/python bench/run.py fanout --watchers 200 --watchers 1000
  .venv/bin/python bench/run.py memory --idle 10000
  .venv/bin/python bench/run.py notify replay fanout --backend jetstream
  .venv/bin/python bench/run.py notify batch --backend jetstream --workers 2
  .venv/bin/python bench/run.py notify batch replay bare --backend jetstream
  .venv/bin/python bench/run.py notify --log-level info --profile /tmp/profiles
  .venv/bin/python bench/run.py jobs --history 100000 --history 1000000 --budget 300
  .venv/bin/python bench/run.py jobs --history 10000000 --job synth --job audit --job search
  .venv/bin/python bench/run.py compare --against http://127.0.0.1:8001 --mercure /tmp/mercure
  .venv/bin/python bench/run.py soak --seconds 60 --scenario crowd --scenario overload

The console is measured in a headless Chromium, and left out where there is none. The jobs of the
pipeline, a lake that grows old (age), the soak and the comparison with other servers take long, and
are measured only when they are asked for. The soak is the one part that fails, when a server does
not end where it began.
"""


class Part(StrEnum):
    """What can be measured by itself."""

    START = "start"
    NOTIFY = "notify"
    BATCH = "batch"
    REPLAY = "replay"
    BARE = "bare"
    FANOUT = "fanout"
    MEMORY = "memory"
    FILTERS = "filters"
    COSTS = "costs"
    SCANS = "scans"
    DEEP = "deep"
    AGE = "age"
    STALLS = "stalls"
    ARCHIVE = "archive"
    CONSOLE = "console"
    JOBS = "jobs"
    SOAK = "soak"
    COMPARE = "compare"


LONG = (Part.AGE, Part.BARE, Part.JOBS, Part.SOAK, Part.COMPARE)
"""Measured only when they are asked for."""


def bench(  # noqa: PLR0913 - one parameter per option
    parts: Annotated[
        list[Part] | None,
        typer.Argument(
            metavar="[PART]...", help="Default: all but age, bare, jobs, soak and compare."
        ),
    ] = None,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes.")] = False,
    notifications: Annotated[
        int | None, typer.Option(min=100, help="Notify requests per run.")
    ] = None,
    connections: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Producer connections.")
    ] = None,
    stored: Annotated[
        int | None, typer.Option(min=1, max=1_000_000, help="Notifications in the history.")
    ] = None,
    watchers: Annotated[
        list[int] | None, typer.Option(min=1, max=5000, help="Watchers; may be repeated.")
    ] = None,
    idle: Annotated[
        int | None, typer.Option(min=1, max=20_000, help="Idle watchers for memory.")
    ] = None,
    deliveries: Annotated[
        int | None, typer.Option(min=1000, help="Deliveries per fan-out run, at the most.")
    ] = None,
    history: Annotated[
        list[int] | None,
        typer.Option(min=100, max=100_000_000, help="Notifications for the jobs; may be repeated."),
    ] = None,
    budget: Annotated[
        int | None, typer.Option(min=1, help="Seconds a job may be expected to take.")
    ] = None,
    job: Annotated[
        list[str] | None,
        typer.Option(help="First word of a job's name, search or duckdb; may be repeated."),
    ] = None,
    seconds: Annotated[
        int, typer.Option(min=5, max=3600, help="How long a load of the soak lasts.")
    ] = 180,
    scenario: Annotated[
        list[str] | None,
        typer.Option(help="crowd, overload, cycles or slow, of the soak; may be repeated."),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]URL",
            help="Compare with a server of this machine that has our API; may be repeated.",
        ),
    ] = None,
    against_pid: Annotated[
        int | None,
        typer.Option(metavar="PID", help="Its process, if it cannot be found by its port."),
    ] = None,
    nginx: Annotated[
        str, typer.Option(metavar="PATH", help="Nginx with nchan, to compare with.")
    ] = "nginx",
    mercure: Annotated[
        str, typer.Option(metavar="PATH", help="A Mercure hub, to compare with.")
    ] = "mercure",
    pictures: Annotated[Path, typer.Option(metavar="DIR", help="Where plots go.")] = HERE
    / "results",
    runs: Annotated[int, typer.Option(min=1, max=20, help="Measured runs per figure.")] = 3,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="replay_batch_size of the server.")
    ] = None,
    log_level: Annotated[str, typer.Option(help="logging.level of the server.")] = "warn",
    backend: Annotated[
        str, typer.Option(help="in_memory, or jetstream (embedded, synced to disk).")
    ] = "in_memory",
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Processes of the server, with jetstream.")
    ] = 1,
    profile: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write a cProfile file per server; figures suffer."),
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the table as Markdown.")
    ] = False,
    results: Annotated[Path, typer.Option(metavar="DIR", help="Where the JSON file goes.")] = HERE
    / "results",
) -> None:
    """Measure the parts asked for."""
    # Servers that were started end with us, also when somebody's patience does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    chosen: dict[str, int | tuple[int, ...] | None] = {
        "notifications": notifications,
        "connections": connections,
        "stored": stored,
        "watchers": tuple(watchers) if watchers else None,
        "idle_watchers": idle,
        "deliveries": deliveries,
        "history": tuple(history) if history else None,
        "budget_s": budget,
        "runs": runs,
    }
    given = {name: value for name, value in chosen.items() if value is not None}
    sizes: Sizes = replace(QUICK if quick else Sizes(), **given)  # type: ignore[arg-type]
    if profile is not None:
        profile.mkdir(parents=True, exist_ok=True)
    conditions = Conditions(log_level, batch_size, backend, workers, profile)
    texts: list[str] = []
    load = os.getloadavg()[0]
    console = Console() if Console().is_terminal else Console(width=140)
    with console.status("starting") as status:

        def progress(text: str) -> None:
            status.update(text)

        asked = parts or [part for part in Part if part not in LONG]
        if against and not parts:
            asked = [Part.COMPARE]
        measured = list(_measure(Bench(sizes, conditions, progress), asked, job or []))
        if Part.COMPARE in asked:
            rivals = Rivals(tuple(against or ()), against_pid, nginx, mercure)
            contest = contested(rivals, conditions, sizes, progress)
            measured += contest.items()
            contest.draw(pictures / "compare.svg")
            texts.append(contest.markdown())
        if Part.AGE in asked:
            ages = Ages()
            measured += ages.measure(runs, progress)
            ages.draw(pictures / "age.svg")
        if Part.SOAK in asked:
            measured += _soak(seconds, scenario or [], pictures, progress)
    if markdown:
        texts.insert(0, report.markdown(measured))
    else:
        report.table(measured, console, sizes)
    path = report.save(measured, results, datetime.now(UTC), sizes, conditions)
    for text in (*texts, report.circumstances(load)):
        console.print(text, soft_wrap=True, markup=False, highlight=False)
    console.print(f"written to {path}", soft_wrap=True)
    if any(isinstance(item, Failed) for item in measured):
        raise typer.Exit(1)


def _measure(plan: Bench, parts: list[Part], only: list[str]) -> Iterator[Item]:
    sizes = plan.sizes
    measures: dict[Part, Callable[[], Iterator[Item]]] = {
        Part.START: lambda: starts(sizes.runs, plan.conditions, plan.progress),
        Part.NOTIFY: plan.notify,
        Part.BATCH: plan.batch,
        Part.REPLAY: plan.replay,
        Part.BARE: lambda: bare(sizes.notifications, sizes.connections, sizes.runs, plan.progress),
        Part.FANOUT: plan.fanout,
        Part.MEMORY: lambda: _memory(plan),
        Part.FILTERS: lambda: publish_cost(sizes.filters, sizes.runs, plan.progress),
        Part.COSTS: lambda: chain(
            log_cost(sizes.runs, plan.progress),
            request_cost(sizes.points, sizes.runs, plan.progress),
        ),
        Part.SCANS: lambda: barren_replays(
            sizes.scanned, sizes.connections, plan.conditions, plan.progress
        ),
        Part.ARCHIVE: lambda: _archive(sizes, plan.progress),
        Part.CONSOLE: lambda: _console(plan),
        Part.JOBS: lambda: _jobs(sizes, plan.progress, only),
        Part.STALLS: lambda: stalls(sizes.runs, plan.progress),
        Part.DEEP: lambda: deep_replay(sizes.archived, sizes.runs, plan.progress),
    }
    for part in dict.fromkeys(parts):
        if part in measures:
            yield from measures[part]()


def _memory(plan: Bench) -> Iterator[Item]:
    # Loaded when asked for: it needs the helpers of the tests.
    from bench.kinds import memory_of_kinds  # noqa: PLC0415

    yield from plan.memory()
    yield from memory_of_kinds(plan.progress)


def _archive(sizes: Sizes, progress: Callable[[str], None]) -> Iterator[Value]:
    # Loaded when asked for: it needs Java and PySpark, the other parts do not.
    from bench.archived import archive_rate  # noqa: PLC0415

    return archive_rate(sizes.logged, sizes.archived, sizes.runs, progress)


def _console(plan: Bench) -> Iterator[Value | Skipped]:
    # Loaded when asked for: it needs Playwright and the helpers of the tests.
    from bench.console import smoothness  # noqa: PLC0415

    return smoothness(plan.sizes.burst_s, plan.sizes.stored, plan.conditions, plan.progress)


def _jobs(
    sizes: Sizes, progress: Callable[[str], None], only: list[str]
) -> Iterator[Value | Skipped]:
    from bench.jobs import job_costs  # noqa: PLC0415

    return job_costs(sizes.history, sizes.runs, sizes.budget_s, progress, only)


def _soak(
    seconds: int, names: list[str], pictures: Path, progress: Callable[[str], None]
) -> list[Item]:
    # Loaded when asked for: it needs the helpers of the tests.
    from bench.scenarios import Amounts  # noqa: PLC0415
    from bench.soak import soak  # noqa: PLC0415

    return list(soak(names, Amounts(seconds=seconds), pictures, progress))


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(help=HELP, context_settings={"max_content_width": 100})(bench)
    app()
