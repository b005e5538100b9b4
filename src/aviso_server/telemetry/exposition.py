"""The metrics page: the numbers of one or several processes as Prometheus text."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import assert_never

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from aviso_server.telemetry import cells
from aviso_server.telemetry.cells import CellKey, Snapshot
from aviso_server.telemetry.series import SERIES, Growth, Series

_BY_NAME = {item.name: item for item in SERIES}
_GROWING = (Growth.COUNTER, Growth.HISTOGRAM)

_LEAST = ("process_start_time_seconds", "process_max_fds")
"""Of the process series these say the least of all processes; the others are sums."""

_SPENT = "process_cpu_seconds"

_Members = Iterable[tuple[tuple[str, ...], tuple[float, ...]]]
"""Labels and values."""


class Ledger:
    """The numbers of processes that come and go, as if they were one.

    Nothing that was counted is forgotten: when a process has ended, what only grows is kept and
    its gauges go, so that no total ever falls.
    """

    def __init__(self) -> None:
        self._folders: list[Path] = []
        self._ended: Snapshot = {}

    def join(self, folder: Path) -> None:
        """Read the cells of one more process."""
        self._folders.append(folder)

    def leave(self, folder: Path) -> None:
        """A process has ended: take what it counted and remove its files."""
        self._folders.remove(folder)
        last = cells.read(folder)
        grown = {key: value for key, value in last.items() if _BY_NAME[key.name].kind in _GROWING}
        self._ended = merge([self._ended, grown])
        for file in ("names", "values"):
            (folder / file).unlink(missing_ok=True)

    def snapshot(self) -> Snapshot:
        """All processes together."""
        return merge([self._ended, *map(cells.read, self._folders)])


def merge(snapshots: Sequence[Snapshot]) -> Snapshot:
    """Several processes as one, each series in its own way."""
    gathered: defaultdict[CellKey, list[tuple[float, ...]]] = defaultdict(list)
    for snapshot in snapshots:
        for key, values in snapshot.items():
            gathered[key].append(values)
    return {key: _together(_BY_NAME[key.name].kind, each) for key, each in gathered.items()}


def _together(kind: Growth, each: list[tuple[float, ...]]) -> tuple[float, ...]:
    if kind is Growth.MIN:
        return min(each)
    if kind is Growth.MAX:
        return max(each)
    return tuple(map(sum, zip(*each, strict=True)))


class Processes:
    """The ``process_*`` series of some processes as one; on Linux only, elsewhere nothing."""

    def __init__(self) -> None:
        self._spent: dict[int, float] = {}
        """Processor seconds by process, as last seen; kept so that the total never falls."""

    def families(self, pids: Iterable[int]) -> list[Metric]:
        """What the kernel reports of them."""
        gathered: dict[str, list[float]] = defaultdict(list)
        shapes: dict[str, Metric] = {}
        for pid in pids:
            for family in _process_metrics(pid):
                shapes[family.name] = family
                for sample in family.samples:
                    gathered[family.name].append(sample.value)
                    if family.name == _SPENT:
                        # A process id that is reused starts again; the total stays.
                        self._spent[pid] = max(sample.value, self._spent.get(pid, 0.0))
        if _SPENT in gathered:
            gathered[_SPENT] = list(self._spent.values())
        return [
            _single(shapes[name], min(values) if name in _LEAST else sum(values))
            for name, values in gathered.items()
        ]


def _process_metrics(pid: int) -> list[Metric]:
    """What the kernel reports of one process; nothing if it is gone."""
    collector = ProcessCollector(pid=lambda: pid, registry=CollectorRegistry())
    return list(collector.collect())


def _single(shape: Metric, value: float) -> Metric:
    made = Metric(shape.name, shape.documentation, shape.type)
    made.add_sample(shape.samples[0].name, {}, value)
    return made


class _Page(Collector):
    """One rendering of everything."""

    def __init__(self, snapshot: Snapshot, processes: Iterable[Metric] = ()) -> None:
        self._snapshot = snapshot
        self._processes = processes

    def collect(self) -> Iterator[Metric]:
        """The families, in the order of the table; a series without members has its heading."""
        members: defaultdict[str, list[tuple[tuple[str, ...], tuple[float, ...]]]]
        members = defaultdict(list)
        for key, values in self._snapshot.items():
            members[key.name].append((key.labels, values))
        for series in SERIES:
            yield _family(series, sorted(members[series.name]))
        yield from self._processes


def render(snapshot: Snapshot, pids: Iterable[int], *, processes: Processes | None = None) -> bytes:
    """The page of a snapshot and of the processes it was taken from."""
    return generate_latest(_Page(snapshot, (processes or Processes()).families(pids)))


def _family(series: Series, members: _Members) -> Metric:
    match series.kind:
        case Growth.HISTOGRAM:
            return _histogram(series, members)
        case Growth.DISTINCT:
            return _distinct(series, members)
        case Growth.COUNTER:
            return _plain(CounterMetricFamily(series.name, series.help), series, members)
        case Growth.SUM | Growth.MIN | Growth.MAX:
            return _plain(GaugeMetricFamily(series.name, series.help), series, members)
    assert_never(series.kind)


def _plain(made: Metric, series: Series, members: _Members) -> Metric:
    for labels, (value,) in members:
        made.add_sample(series.name, dict(zip(series.labels, labels, strict=True)), value)
    return made


def _histogram(series: Series, members: _Members) -> Metric:
    made = HistogramMetricFamily(series.name, series.help, labels=series.labels)
    bounds = [*map(floatToGoString, series.buckets), "+Inf"]
    for labels, (total, *counts) in members:
        made.add_metric(labels, list(zip(bounds, accumulate(counts), strict=True)), total)
    return made


def _distinct(series: Series, members: _Members) -> Metric:
    """Members present, counted by all labels but the last."""
    there: defaultdict[tuple[str, ...], int] = defaultdict(int)
    for labels, (value,) in members:
        there[labels[:-1]] += value > 0
    made = GaugeMetricFamily(series.name, series.help, labels=series.labels[:-1])
    for labels, count in there.items():
        made.add_metric(labels, count)
    return made
