"""The figures as a table for people and as JSON for later comparison."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

from bench.figures import Failed, Item, Skipped, Value
from bench.rates import Sizes
from bench.served import Conditions
from rich.console import Console
from rich.table import Table

from aviso_server import __version__

NOTE = (
    "Median of {runs} runs. server/client: share of one core used. A client near 100 % limits the "
    "figure; a server below 90 % waited for somebody. Per CPU s: per second of server CPU time."
)


def table(measured: Sequence[Item], console: Console, sizes: Sizes) -> None:
    """Print all figures."""
    shown = Table(title="aviso-server benchmark", caption=NOTE.format(runs=sizes.runs))
    shown.add_column("what")
    for heading in ("median", "unit", "goal", "per CPU s", "server", "client"):
        shown.add_column(heading, justify="left" if heading == "unit" else "right")
    for item in measured:
        shown.add_row(*_row(item))
    console.print(shown)


def markdown(measured: Sequence[Item]) -> str:
    """The figures as the documentation shows them."""
    lines = ["| What | Median | | Per CPU s | Server | Client |", "|---|---|---|---|---|---|"]
    for item in measured:
        what, middle, unit, *rest = (*_row(item), "", "", "", "")[:7]
        lines.append(f"| {' | '.join((what, middle, unit, *rest[1:]))} |")
    return "\n".join(lines)


def circumstances(load_before: float) -> str:
    """What to say beside figures."""
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    load = f"load average {load_before:.1f} before, {os.getloadavg()[0]:.1f} after"
    return f"{machine}, {load} (the benchmark's own included)"


def _row(item: Item) -> tuple[str, ...]:
    if isinstance(item, Skipped):
        return item.name, "skipped", item.reason
    if isinstance(item, Failed):
        return item.name, "FAILED", item.reason
    if isinstance(item, Value):
        return item.name, number(item.middle), item.unit
    run = item.middle
    return (
        item.name,
        number(run.rate),
        item.unit,
        "" if item.goal is None else number(item.goal),
        number(run.rate_per_cpu),
        f"{run.server_share:.0%}",
        f"{run.client_share:.0%}",
    )


def number(value: float) -> str:
    """As the documentation writes numbers."""
    return f"{value:,.0f}".replace(",", " ") if value >= 100 else f"{value:.2f}"


def save(
    measured: Sequence[Item],
    folder: Path,
    now: datetime,
    sizes: Sizes,
    conditions: Conditions,
) -> Path:
    """Write the figures, every single run and what they were measured on; the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{now:%Y%m%dT%H%M%SZ}.json"
    document = {
        "taken_at": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "machine": _machine(),
        "conditions": conditions.overrides(Path("store")),
        "workers": conditions.workers,
        "profiled": conditions.profile_dir is not None,
        "sizes": asdict(sizes),
        "figures": [_document(item) for item in measured],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path


def _document(item: Item) -> dict[str, object]:
    if isinstance(item, Skipped):
        return {"name": item.name, "skipped": item.reason}
    if isinstance(item, Failed):
        return {"name": item.name, "failed": item.reason}
    if isinstance(item, Value):
        return {**asdict(item), "median": item.middle}
    run = item.middle
    return {
        **asdict(item),
        "median": run.rate,
        "per_server_cpu_s": run.rate_per_cpu,
        "server_share": run.server_share,
        "client_share": run.client_share,
    }


def _machine() -> dict[str, object]:
    return {
        "cores": os.cpu_count(),
        "load_average": os.getloadavg(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "aviso_server": __version__,
        "packages": {name: version(name) for name in ("aiohttp", "uvloop", "msgspec")},
    }
