"""Several servers under the same load, in turn: A, B, A, B, so that they share what disturbs them.

Every reader's count is checked, as everywhere; a peer that cannot do a part is left out of it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.census import raise_file_limit
from bench.figures import Figure, Item, Run, Skipped, Value
from bench.peers import Peer, Rivals, present
from bench.plots import bars
from bench.rates import Progress, Sizes
from bench.report import number
from bench.served import Conditions
from bench.worker import (
    Aim,
    Gather,
    LoadFailed,
    Publish,
    Replay,
    Span,
    Watch,
    Worker,
    worker,
)

FIRST = 20
"""Watchers that pay for what all share."""
PRODUCERS = 8


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement, by peer."""

    what: str
    cells: dict[str, Item]


@dataclass(frozen=True, slots=True)
class Contest:
    """One go at comparing."""

    peers: Sequence[Peer]
    sizes: Sizes
    producers: Worker
    readers: Worker
    progress: Progress

    def rows(self) -> Iterator[Row]:
        """Everything, one after the other."""
        sizes = self.sizes
        yield from self._memory()  # while they hold nothing else
        for peer in self.peers:
            self.progress(f"storing {sizes.compared} notifications: {peer.name}")
            self._publish(peer, sizes.compared, sizes.connections)
        name = f"replay of {sizes.compared}, 1 reader"
        yield self._alternated(name, "msg/s", self._replayed)
        for connections in (1, sizes.connections):
            count = sizes.compared if connections > 1 else sizes.compared // 4
            name = f"notify, {connections} connection{'s'[: connections != 1]}"
            once = partial(self._notified, count=count, connections=connections)
            yield self._alternated(name, "notify/s", once)
        for peer in self.peers:
            _watch(self.readers, peer, sizes.crowd, sizes.timeout_s)
        for connections in (PRODUCERS, 1):
            name = f"fan-out to {sizes.crowd}, {connections} producer{'s'[: connections != 1]}"
            once = partial(self._fanned, connections=connections)
            yield self._alternated(name, "deliveries/s", once)

    def _alternated(self, what: str, unit: str, once: Callable[[Peer], Run]) -> Row:
        """Every peer once, then all again; the first round only warms up."""
        runs: dict[str, list[Run]] = {peer.name: [] for peer in self.peers}
        failed: dict[str, str] = {}
        for turn in range(self.sizes.runs + 1):
            for peer in self.peers:
                if peer.name in failed:
                    continue
                self.progress(f"{what}, round {turn} of {self.sizes.runs}: {peer.name}")
                try:
                    runs[peer.name].append(once(peer))
                except LoadFailed as error:
                    failed[peer.name] = str(error)
        cells: dict[str, Item] = {}
        for name, made in runs.items():
            line = f"{what}: {name}"
            if name in failed:
                cells[name] = Skipped(line, failed[name])
            else:
                cells[name] = Figure(line, unit, tuple(made[1:]))
        return Row(what, cells)

    def _notified(self, peer: Peer, count: int, connections: int) -> Run:
        before = self._cpu(peer)
        span = self._publish(peer, count, connections)
        return self._run(count, span, before, peer)

    def _replayed(self, peer: Peer) -> Run:
        if not peer.speech.replay:
            raise LoadFailed("has no replay")
        before = self._cpu(peer)
        job = Replay(peer.port, 1, self.sizes.compared, peer.speech)
        span = self.readers.do(job, self.sizes.timeout_s)
        return self._run(job.expected, span, before, peer)

    def _fanned(self, peer: Peer, connections: int) -> Run:
        timeout_s, watchers = self.sizes.timeout_s, self.sizes.crowd
        count = max(connections, self.sizes.deliveries // 2 // watchers)
        self.readers.do(Aim(peer.port, count), timeout_s)
        before = self._cpu(peer)
        self.readers.start(Gather(peer.port))
        try:
            sent = self._publish(peer, count, connections)
        finally:  # they answer in any case, and the next answer must be to the next job
            seen = self.readers.finish(timeout_s)
        span = Span(sent.began_at, max(seen.ended_at, sent.ended_at))
        return self._run(count * watchers, span, before, peer)

    def _memory(self) -> Iterator[Row]:
        each: dict[str, Item] = {}
        whole: dict[str, Item] = {}
        one, all_of_it = "memory per idle watcher", f"memory with {self.sizes.crowd} watchers"
        for peer in self.peers:
            self.progress(f"{self.sizes.crowd} watchers: {peer.name}")
            rest, timeout_s = self.sizes.crowd - FIRST, self.sizes.timeout_s
            with worker() as idle:
                _watch(idle, peer, FIRST, timeout_s)
                before = peer.rss_bytes()
                _watch(idle, peer, rest, timeout_s)
                after = peer.rss_bytes()
            grown = (after - before) / rest / 1024
            each[peer.name] = Value(f"{one}: {peer.name}", "KiB", (grown,))
            whole[peer.name] = Value(f"{all_of_it}: {peer.name}", "MiB", (after / 1024**2,))
        yield Row(one, each)
        yield Row(all_of_it, whole)

    def _publish(self, peer: Peer, count: int, connections: int) -> Span:
        job = Publish(peer.port, count, connections, peer.speech)
        return self.producers.do(job, self.sizes.timeout_s)

    def _cpu(self, peer: Peer) -> tuple[float, float, float]:
        return peer.cpu_s(), self.producers.cpu_s(), self.readers.cpu_s()

    def _run(self, items: int, span: Span, before: tuple[float, ...], peer: Peer) -> Run:
        spent = zip(before, self._cpu(peer), strict=True)
        server, *clients = (late - early for early, late in spent)
        return Run(items, span.ended_at - span.began_at, server, tuple(clients))


def _watch(readers: Worker, peer: Peer, watchers: int, timeout_s: float) -> None:
    readers.do(Watch(peer.port, watchers, peer.speech), timeout_s)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was measured, and who was not there."""

    rows: Sequence[Row]
    absent: Sequence[Skipped]

    def items(self) -> Iterator[Item]:
        """As lines of the report."""
        for row in self.rows:
            yield from row.cells.values()
        yield from self.absent

    def markdown(self) -> str:
        """The table of the documentation: per second of the server's CPU, and by the wall clock."""
        names = list(self.rows[0].cells)
        lines = ["| | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
        for row in self.rows:
            cells = " | ".join(_cell(item) for item in row.cells.values())
            lines.append(f"| {row.what} | {cells} |")
        return "\n".join(lines)

    def draw(self, path: Path) -> None:
        """The rates of the table as a picture."""
        panels = {}
        for row in self.rows:
            rates = {
                name: _per_cpu(item) for name, item in row.cells.items() if isinstance(item, Figure)
            }
            if rates:
                panels[f"{row.what}, per second of CPU time"] = rates
        bars(panels, path)


def contested(
    rivals: Rivals, conditions: Conditions, sizes: Sizes, progress: Progress
) -> Comparison:
    """Compare, with one process that produces and one that reads."""
    raise_file_limit()
    with present(rivals, conditions) as (peers, absent), worker() as sending, worker() as reading:
        rows = list(Contest(peers, sizes, sending, reading, progress).rows())
        return Comparison(rows, absent)


def _cell(item: Item) -> str:
    match item:
        case Figure():
            return f"{number(_per_cpu(item))} ({number(item.middle.rate)})"
        case Value():
            return f"{number(item.middle)} {item.unit}"
    return "-"


def _per_cpu(figure: Figure) -> float:
    """The median of its own: the run of the middle by the clock may be a bad one by CPU."""
    return sorted(run.rate_per_cpu for run in figure.runs)[(len(figure.runs) - 1) // 2]
