"""Deep replay: what reading the lake costs, against reading the same files with pyarrow.

Histories of three sizes, each ten times the one before, cut into commits of the same size, as an
archive job leaves them. A pruned read must not cost more in an older table; a filtered scan is
given as a share of what pyarrow needs just to decode the same columns of the same files.
"""

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

import pyarrow.parquet as pq
from bench.figures import Value
from bench.past import lake
from bench.served import CONFIG

from aviso_server.core.filter import Filter
from aviso_server.core.identifier import compile_filter
from aviso_server.core.json import Json
from aviso_server.core.operation import Operation
from aviso_server.lake.lake import Lake
from aviso_server.lake.layout import NOTIFICATIONS, Place
from aviso_server.settings import load

PER_COMMIT = 10_000
PIECE = 1000
"""Sequences of a pruned read."""

_Progress = Callable[[str], None]


def deep_replay(sizes: tuple[int, ...], runs: int, progress: _Progress) -> Iterator[Value]:
    """Costs and rates for every size of history."""
    for places in (False, True):
        name = "test_polygon" if places else "mars"
        wanted = _wanted(places=places)
        for size in sizes:
            progress(f"{size} archived notifications of {name}")
            with tempfile.TemporaryDirectory() as folder:
                lake(Place(folder), size, per_commit=PER_COMMIT, places=places)
                yield from asyncio.run(_measure(Place(folder), name, size, wanted, runs))


async def _measure(
    place: Place, name: str, size: int, wanted: dict[str, Filter], runs: int
) -> list[Value]:
    about = f"{name}, {size:,} archived"
    opened, pruned = [], []
    for run in range(runs):
        # Nothing is kept from one run to the next: every read opens its files again.
        archive = Lake(place, cache_bytes=0, refresh_s=3600)
        opened.append(await _timed(lambda a=archive: a.bounds(name)))  # type: ignore[misc]
        begin = max(1, (size // (runs + 1)) * (run + 1) - PIECE)
        pruned.append(
            await _timed(
                lambda a=archive, b=begin: a.read(name, b, b + PIECE - 1, limit=PIECE)  # type: ignore[misc]
            )
        )
        await archive.close()
    values = [
        Value(f"open the table ({about})", "ms", tuple(s * 1000 for s in opened)),
        Value(f"read {PIECE} sequences ({about})", "ms", tuple(s * 1000 for s in pruned)),
    ]
    for label, filter_ in wanted.items():
        rates, shares = [], []
        for _ in range(runs):
            archive = Lake(place, refresh_s=3600)
            await archive.bounds(name)
            ours = await _timed(lambda a=archive, f=filter_: _scan(a, name, size, f))  # type: ignore[misc]
            await archive.close()
            theirs = _decode(place)
            rates.append(size / ours)
            shares.append(theirs / ours)
        values += [
            Value(f"{label} scan ({about})", "rows/s", tuple(rates)),
            Value(f"{label} scan v. pyarrow ({about})", "times", tuple(shares)),
        ]
    return values


async def _scan(archive: Lake, name: str, size: int, wanted: Filter) -> None:
    position = 1
    while position <= size:
        piece = await archive.read(name, position, size, limit=250, wanted=wanted)
        position = piece.following


def _decode(place: Place) -> float:
    """Seconds pyarrow needs for the columns a filter and a record are made of."""
    began = perf_counter()
    for path in Path(place.table(NOTIFICATIONS)).rglob("*.parquet"):
        pq.read_table(path, partitioning=None, use_threads=False)
    return perf_counter() - began


async def _timed(work: Callable[[], object]) -> float:
    began = perf_counter()
    await work()  # type: ignore[misc]
    return perf_counter() - began


def _wanted(*, places: bool) -> dict[str, Filter]:
    schemas = load(config_file=CONFIG, environ={}, cwd=Path.cwd(), home=None).catalogue.schemas
    if places:
        area: Json = [[0.0, 0.0], [0.0, 20.0], [10.0, 20.0], [10.0, 0.0], [0.0, 0.0]]
        asked: dict[str, dict[str, Json]] = {"area": {"polygon": area}}
    else:
        asked = {
            "exact": {"class": "od", "stream": "oper", "step": 12},
            "range": {"class": "od", "step": {"lte": 6}},
        }
    schema = schemas["test_polygon" if places else "mars"]
    return {label: compile_filter(schema, one, Operation.REPLAY) for label, one in asked.items()}
