"""A lake that grows old: what a look and a commit cost by commits, files and event types.

The log of the table is written here, not by commits: a hundred thousand of them take seconds. There
are no Parquet files, because nothing that is measured opens one. All is CPU time of this process,
delta-rs included. *Opened anew* is what a look would cost if nothing were kept between looks.
"""

import asyncio
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from statistics import median
from time import process_time

from bench.figures import Value
from bench.plots import growth
from deltalake import DeltaTable

from aviso_server.lake.commit import commit
from aviso_server.lake.files import Written
from aviso_server.lake.index import FileIndex
from aviso_server.lake.lake import Lake
from aviso_server.lake.layout import NOTIFICATIONS, Place, mark
from aviso_server.lake.table import ensure, find

COMMITS = (100, 1_000, 10_000, 100_000)
FILES = (1_000, 10_000, 100_000)
EVENT_TYPES = (5, 50, 500)
"""Each is varied while the others are at their lowest."""

TOGETHER = 5
"""Event types that a commit has news of."""

_DAY = "2026-01-01"
_PER_COMMIT = 1_000
_CHECKPOINT = 10_000
_EDGES = {"min_lat": 1.0, "min_lon": 1.0, "max_lat": 2.0, "max_lon": 2.0}


def _name(number: int) -> str:
    return f"type{number:03d}"


def _statistics(first: int) -> str:
    low = {"sequence": first, "time_ns": first * 10**9, **_EDGES}
    high = {"sequence": first + 9, "time_ns": (first + 9) * 10**9, **_EDGES}
    told = {"numRecords": 10, "minValues": low, "maxValues": high, "nullCount": {}}
    return json.dumps(told)


@dataclass
class Aged:
    """A table whose log is made up."""

    place: Place
    commits: int
    event_types: int
    version: int = 0
    reached: dict[str, int] = field(default_factory=dict)
    """By event type, the last sequence."""

    def fill(self, files: int) -> None:
        """Make the log: files in as few commits as may be, and marks in all of them."""
        ensure(self.place, NOTIFICATIONS)
        left = files
        while self.version < self.commits:
            now = min(left, max(_PER_COMMIT, left // (self.commits - self.version)))
            self.grow([_name(n % self.event_types) for n in range(left - now, left)])
            left -= now
            if self.version % _CHECKPOINT == 0 or self.version == self.commits:
                DeltaTable(self.place.table(NOTIFICATIONS)).create_checkpoint()

    def grow(self, names: Sequence[str]) -> None:
        """One more commit, with a file for each of these."""
        self.version += 1
        lines = []
        for number, name in enumerate(names):
            first = self.reached.get(name, 0) + 1
            self.reached[name] = first + 9
            added = {
                "path": f"event_type={name}/day={_DAY}/{self.version}-{number}.parquet",
                "partitionValues": {"event_type": name, "day": _DAY},
                "size": 1000,
                "modificationTime": 0,
                "dataChange": True,
                "stats": _statistics(first),
            }
            lines.append(json.dumps({"add": added}))
        for name in set(names) or {_name(0)}:
            made = {"appId": mark(name), "version": self.reached.get(name, 0), "lastUpdated": 0}
            lines.append(json.dumps({"txn": made}))
        log = Path(self.place.table(NOTIFICATIONS), "_delta_log")
        (log / f"{self.version:020d}.json").write_text("\n".join(lines))

    def written(self) -> Written:
        """A file for a commit of delta-rs."""
        name = _name(0)
        first = self.reached.get(name, 0) + 1
        self.reached[name] = first + 9
        path = f"event_type={name}/day={_DAY}/{first}.parquet"
        told = _statistics(first)
        day = date.fromisoformat(_DAY)
        return Written(path, 1000, name, day, 10, first, first + 9, first * 10**9, told)


@dataclass
class Ages:
    """The curves."""

    panels: dict[str, dict[str, list[tuple[int, float]]]] = field(default_factory=dict)

    def measure(self, runs: int, progress: Callable[[str], None]) -> Iterator[Value]:
        """Look and commit, while one of the three grows."""
        for what, sizes in (("commits", COMMITS), ("files", FILES), ("event types", EVENT_TYPES)):
            for size in sizes:
                progress(f"a lake with {size:,} {what}")
                commits = size if what == "commits" else COMMITS[0]
                files = size if what == "files" else FILES[0]
                types = size if what == "event types" else EVENT_TYPES[0]
                with tempfile.TemporaryDirectory() as folder:
                    aged = Aged(Place(folder), commits, types)
                    aged.fill(files)
                    found = asyncio.run(_costs(aged, runs))
                for cost, values in found.items():
                    yield Value(f"{cost} ({size:,} {what})", "ms CPU", tuple(values))
                    if cost in _DRAWN:
                        panel = self.panels.setdefault(f"ms of CPU, by {what}", {})
                        panel.setdefault(cost, []).append((size, median(values)))

    def draw(self, path: Path) -> None:
        """Write the picture."""
        growth(self.panels, path)


_ANEW, _AFTER, _COMMIT = "opened anew", "look after a commit", "commit"
_DRAWN = (_ANEW, _AFTER, _COMMIT)


async def _costs(aged: Aged, runs: int) -> dict[str, list[float]]:
    """Milliseconds of CPU."""
    names = [_name(n) for n in range(min(TOGETHER, aged.event_types))]
    found: dict[str, list[float]] = {
        name: [] for name in ("look, nothing new", _AFTER, _ANEW, _COMMIT)
    }
    lake = Lake(aged.place, refresh_s=0)
    await lake.mark(names[0])
    for _ in range(runs):
        began = process_time()
        await lake.mark(names[0])
        found["look, nothing new"].append(1000 * (process_time() - began))
        aged.grow(names)
        began = process_time()
        await lake.mark(names[0])
        found[_AFTER].append(1000 * (process_time() - began))
        began = process_time()
        index = FileIndex(find(aged.place, NOTIFICATIONS))
        index.files(names[0])
        index.mark(names[0])
        found[_ANEW].append(1000 * (process_time() - began))
    await lake.close()
    commit(aged.place, [], {names[0]: aged.reached[names[0]]})
    for _ in range(runs):
        file = aged.written()
        began = process_time()
        commit(aged.place, [file], {file.event_type: file.last})
        found[_COMMIT].append(1000 * (process_time() - began))
    return found
