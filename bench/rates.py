"""The rates of a server under load: notify, replay, fan-out; and what a watcher costs in memory."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from statistics import quantiles

from bench.census import raise_file_limit
from bench.figures import Figure, Run, Value
from bench.served import Conditions, Served, served
from bench.wire import aviso
from bench.worker import Aim, Gather, Publish, Replay, Span, Watch, Worker, worker

REPLAY_GOAL = 50_000
FANOUT_GOAL = 80_000
FANOUT_WATCHERS = 200
"""The goals are stated for two cores, and this one for so many watchers."""
BATCH_CONNECTIONS = (1, 8)

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    notifications: int = 10_000
    """Notify requests per run."""
    connections: int = 64
    """Producer connections."""
    batches: tuple[int, ...] = (100, 500)
    """Notifications per request, where one carries many."""
    stored: int = 50_000
    """Notifications in the replayed history."""
    watchers: tuple[int, ...] = (1, 10, 50, 200)
    deliveries: int = 400_000
    """Deliveries per fan-out run, at the most: notifications times watchers."""
    idle_watchers: int = 1000
    compared: int = 8000
    """Notifications per run where servers are compared; many keep no more than 10 000."""
    crowd: int = 1000
    """Watchers where servers are compared."""
    scanned: int = 20_000
    """Notifications that are read for nothing."""
    filters: tuple[int, ...] = (1, 10, 100, 1000, 10_000)
    points: tuple[int, ...] = (100, 400, 1600, 5000)
    logged: tuple[int, int] = (50_000, 1_000_000)
    """Notifications that the archive job carries."""
    archived: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    """Notifications in the lake: ten and a hundred times the first."""
    burst_s: int = 10
    """Seconds for which the console is flooded."""
    history: tuple[int, ...] = (100_000, 1_000_000, 10_000_000)
    """Notifications of the histories that jobs work on."""
    budget_s: int = 600
    """Longest that a job may be expected to take; it is left out otherwise."""
    runs: int = 3
    """Measured runs per figure, after one run to warm up."""
    timeout_s: float = 60.0
    """Bound on every single run."""


QUICK = Sizes(
    notifications=2000,
    stored=10_000,
    watchers=(1, 50),
    deliveries=50_000,
    idle_watchers=200,
    compared=1000,
    crowd=200,
    scanned=4000,
    filters=(1, 100, 1000),
    points=(100, 400),
    logged=(5000, 20_000),
    archived=(1000, 10_000, 100_000),
    burst_s=3,
    history=(2000, 20_000),
)


@dataclass(frozen=True, slots=True)
class Bench:
    """One go at measuring: how much, and under which conditions."""

    sizes: Sizes
    conditions: Conditions
    progress: Progress

    def notify(self) -> Iterator[Figure | Value]:
        """Notifications per second over keep-alive connections, and how long one takes."""
        sizes = self.sizes
        for guarded, extent in ((False, ""), (True, ", access control and metrics")):
            conditions = replace(self.conditions, guarded=guarded)
            speech = aviso().bearing(conditions.credential)
            with served(conditions, f"notify{extent}") as server, worker() as producers:
                for connections in (1, sizes.connections):
                    job = Publish(server.port, sizes.notifications, connections, speech)
                    name = f"notify, {_connections(job)}{extent}"
                    yield from self._notify(server, producers, job, name)

    def batch(self) -> Iterator[Figure | Value]:
        """The same with many notifications in each request."""
        sizes = self.sizes
        with served(self.conditions, "batch") as server, worker() as producers:
            for size, connections in product(sizes.batches, BATCH_CONNECTIONS):
                count = max(sizes.notifications, 4 * size)
                job = Publish(server.port, count, connections, aviso(size))
                name = f"batches of {size}, {_connections(job)}"
                yield from self._notify(server, producers, job, name)

    def _notify(
        self, server: Served, producers: Worker, job: Publish, name: str
    ) -> Iterator[Figure | Value]:
        self.progress(name)
        runs, latencies = [], list[float]()
        for _ in self._warmed():
            before = _cpu(server, producers)
            span = producers.do(job, self.sizes.timeout_s)
            runs.append(_run(job.notifications, span, before, _cpu(server, producers)))
            latencies = span.latencies_s
        yield Figure(name, "notify/s", tuple(runs[1:]))
        cuts = quantiles(latencies, n=100)
        yield Value(f"{name}: latency p50", "ms", (cuts[49] * 1000,))
        yield Value(f"{name}: latency p99", "ms", (cuts[98] * 1000,))

    def replay(self) -> Iterator[Figure | Value]:
        """Stored notifications per second as SSE, for one reader and for four at once."""
        sizes = self.sizes
        with served(self.conditions, "replay") as server, worker() as load:
            self.progress(f"storing {sizes.stored} notifications")
            load.do(Publish(server.port, sizes.stored, sizes.connections), sizes.timeout_s)
            for readers in (1, 4):
                self.progress(f"replay of {sizes.stored} to {readers} readers")
                job = Replay(server.port, readers, sizes.stored)
                runs = []
                for _ in self._warmed():
                    before = _cpu(server, load)
                    span = load.do(job, sizes.timeout_s)
                    items = sizes.stored * readers
                    runs.append(_run(items, span, before, _cpu(server, load)))
                name = f"replay of {sizes.stored}, {readers} reader{'s'[: readers != 1]}"
                goal = REPLAY_GOAL if readers == 1 else None
                yield Figure(name, "msg/s", tuple(runs[1:]), goal)

    def fanout(self) -> Iterator[Figure | Value]:
        """Deliveries per second, by number of watchers of one filter.

        With many producer connections several notifications arrive per turn of the loop and are
        written together; with one, every notification is a write per watcher: the worst case.
        """
        most = max(self.sizes.watchers)
        for watchers in self.sizes.watchers:
            yield self._fan(watchers, self.sizes.connections)
        yield self._fan(most, 1)

    def memory(self) -> Iterator[Figure | Value]:
        """Resident memory per idle watcher, and how long it takes to open them."""
        sizes = self.sizes
        raise_file_limit()
        self.progress(f"{sizes.idle_watchers} idle watchers")
        with served(self.conditions, "memory") as server, worker() as readers:
            # The first few pay for what all share: imports, caches, buffers.
            readers.do(Watch(server.port, 50), sizes.timeout_s)
            before = server.rss_bytes()
            span = readers.do(Watch(server.port, sizes.idle_watchers), sizes.timeout_s)
            grown = server.rss_bytes() - before
            name = f"memory per idle watcher ({sizes.idle_watchers})"
            yield Value(name, "KiB", (grown / sizes.idle_watchers / 1024,))
            took = span.ended_at - span.began_at
            yield Value(f"opening {sizes.idle_watchers} watchers", "s", (took,))
            yield Value("server memory before watchers", "MiB", (before / 1024 / 1024,))

    def _fan(self, watchers: int, connections: int) -> Figure:
        sizes = self.sizes
        count = max(connections, min(sizes.notifications // 2, sizes.deliveries // watchers))
        name = f"fan-out to {watchers} watcher{'s'[: watchers != 1]}"
        if connections == 1:
            name += ", 1 producer connection"
        self.progress(name)
        with (
            served(self.conditions, f"fanout-{watchers}-{connections}") as server,
            worker() as producers,
            worker() as readers,
        ):
            readers.do(Watch(server.port, watchers), sizes.timeout_s)
            job = Publish(server.port, count, connections)
            runs = []
            for _ in self._warmed():
                readers.do(Aim(server.port, count), sizes.timeout_s)
                before = _cpu(server, producers, readers)
                readers.start(Gather(server.port))
                sent = producers.do(job, sizes.timeout_s)
                seen = readers.finish(sizes.timeout_s)
                span = Span(sent.began_at, max(seen.ended_at, sent.ended_at))
                after = _cpu(server, producers, readers)
                runs.append(_run(count * watchers, span, before, after))
        goal = FANOUT_GOAL if watchers == FANOUT_WATCHERS else None
        return Figure(name, "deliveries/s", tuple(runs[1:]), goal)

    def _warmed(self) -> Iterable[int]:
        """The runs of a figure; the first only warms up."""
        return range(self.sizes.runs + 1)


def _connections(job: Publish) -> str:
    return f"{job.connections} connection{'s'[: job.connections != 1]}"


def _cpu(server: Served, *workers: Worker) -> tuple[float, ...]:
    return (server.cpu_s(), *(each.cpu_s() for each in workers))


def _run(items: int, span: Span, before: tuple[float, ...], after: tuple[float, ...]) -> Run:
    server, *clients = (late - early for early, late in zip(before, after, strict=True))
    return Run(items, span.ended_at - span.began_at, server, tuple(clients))
