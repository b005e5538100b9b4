"""The archive job, against Spark writing the same rows of the same log to plain Parquet.

Two logs of different length are read again and again: into empty lakes, and the shorter one into
lakes that have a longer and longer past already, of another event type, so that the table is older
and what is added is the same. The plain job is the same source and ``write.parquet``; it keeps no
promises. Both are timed in turn on one warm session. What a run takes is a fixed cost and a cost
for each row: two lengths give both.
"""

import asyncio
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

import structlog
from bench.figures import Value
from bench.past import lake
from bench.served import CONFIG
from pyspark.sql import SparkSession

from aviso_server.backends.jetstream.backend import JetStreamBackend
from aviso_server.backends.jetstream.embedded import EmbeddedServer
from aviso_server.backends.jetstream.options import Embedded, JetStreamOptions
from aviso_server.core.announcement import notification_of
from aviso_server.core.notification import Notification
from aviso_server.core.schema import Catalogue
from aviso_server.core.wire import NotificationRequest
from aviso_server.lake.layout import Place
from aviso_server.pipeline import register
from aviso_server.pipeline.archive.job import ArchiveJob, ArchiveOptions
from aviso_server.pipeline.spark.session import SparkOptions, job_session
from aviso_server.settings import load

UNDER_WAY = 256
"""Appends at the same time while the log is filled."""
PER_COMMIT = 10_000

_Progress = Callable[[str], None]


def archive_rate(
    logged: tuple[int, int], archived: tuple[int, ...], runs: int, progress: _Progress
) -> Iterator[Value]:
    """What both jobs cost, fixed and by row, and their ratio by what the lake has already."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with tempfile.TemporaryDirectory() as name, asyncio.Runner() as runner:
        folder, few, many = Path(name), *logged
        logs = {}
        try:
            for count in logged:
                progress(f"filling a log with {count:,} notifications")
                store = Embedded(folder / f"log{count}", sync_always=False)
                logs[count] = runner.run(EmbeddedServer.start(store))
                runner.run(_fill(logs[count], count))
            progress("starting Spark")
            with job_session(SparkOptions(master="local[2]", app_name="bench")) as spark:
                register(spark)
                short, long = (_Bench(spark, logs[count], folder, count) for count in logged)
                short.plain()
                short.archive(0)
                progress(f"archiving {few:,} and {many:,}")
                yield from _costs(short, long, runs)
                for before in (0, *archived):
                    progress(f"archiving into a lake that has {before:,}")
                    yield from short.compare(before, runs)
        finally:
            for server in logs.values():
                runner.run(server.stop())


def _costs(short: "_Bench", long: "_Bench", runs: int) -> Iterator[Value]:
    """Fixed cost and rate without it, of both jobs."""
    more = long.logged - short.logged
    slopes: dict[str, list[float]] = {"plain Parquet": [], "archive": []}
    fixed: dict[str, list[float]] = {"plain Parquet": [], "archive": []}
    for _ in range(runs):
        for name, job in (("plain Parquet", _Bench.plain), ("archive", _Bench.archive)):
            little, much = job(short), job(long)
            slopes[name].append((much - little) / more)
            fixed[name].append(little - slopes[name][-1] * short.logged)
    about = f"{short.logged:,} and {long.logged:,}"
    for name, found in slopes.items():
        yield Value(f"{name}, fixed cost ({about})", "s", tuple(fixed[name]))
        yield Value(f"{name}, by row ({about})", "rows/s", tuple(1 / taken for taken in found))
    ratios = zip(slopes["plain Parquet"], slopes["archive"], strict=True)
    yield Value(
        f"archive v. plain Parquet, by row ({about})",
        "times",
        tuple(plain / ours for plain, ours in ratios),
    )


class _Bench:
    def __init__(
        self, spark: SparkSession, server: EmbeddedServer, folder: Path, logged: int
    ) -> None:
        self._spark = spark
        self._source = {"servers": server.url, "token": server.token}
        self._folder = folder
        self.logged = logged

    def compare(self, before: int, runs: int) -> Iterator[Value]:
        """Both jobs in turn."""
        ours, theirs = [], []
        for _ in range(runs):
            theirs.append(self.plain())
            ours.append(self.archive(before))
        about = f"{self.logged:,} into a lake with {before:,}"
        rates = tuple(self.logged / taken for taken in ours)
        ratios = tuple(one / other for one, other in zip(theirs, ours, strict=True))
        yield Value(f"archive {about}", "rows/s", rates)
        yield Value(f"archive v. plain Parquet ({about})", "times", ratios)

    def plain(self) -> float:
        """Seconds for the source and ``write.parquet``."""
        target = self._folder / "plain"
        shutil.rmtree(target, ignore_errors=True)
        began = perf_counter()
        rows = self._spark.read.format("aviso").options(**self._source, eventType="mars").load()
        rows.write.parquet(str(target))
        return perf_counter() - began

    def archive(self, before: int = 0) -> float:
        """Seconds for the archive job, with what makes it exact."""
        target = self._folder / "lake"
        shutil.rmtree(target, ignore_errors=True)
        place = Place(str(target))
        lake(place, before, per_commit=PER_COMMIT, places=True)
        options = ArchiveOptions(place, self._source, event_types=("mars",), once=True)
        began = perf_counter()
        ArchiveJob(self._spark, options).run()
        return perf_counter() - began


async def _fill(server: EmbeddedServer, count: int) -> None:
    catalogue = load(config_file=CONFIG, environ={}, cwd=Path.cwd(), home=None).catalogue
    options = JetStreamOptions(servers=(server.url,), token=server.token)
    backend = await JetStreamBackend.open(options, catalogue)
    try:
        for begin in range(0, count, UNDER_WAY):
            numbers = range(begin, min(begin + UNDER_WAY, count))
            await asyncio.gather(
                *(backend.append(_field(catalogue, n), key=str(n)) for n in numbers)
            )
    finally:
        await backend.close()


def _field(catalogue: Catalogue, n: int) -> Notification:
    identifier = {
        "class": "od",
        "expver": "0001",
        "domain": "g",
        "date": "20260101",
        "time": ("0000", "0600", "1200", "1800")[n // 500 % 4],
        "stream": ("oper", "enfo")[n % 2],
        "step": n % 500,
    }
    payload = b'{"location":"s3://bucket/%d.grib2"}' % n
    request = NotificationRequest(event_type="mars", identifier=identifier, payload=payload)  # type: ignore[arg-type]
    return notification_of(catalogue.find("mars"), request)
