"""The archive job, against Spark writing the same rows of the same log to plain Parquet.

One log is read again and again: into an empty lake, then into lakes that have a longer and longer
past already, of another event type, so that the table is older and what is added is the same. The
plain job is the same source and ``write.parquet``; it keeps no promises. Both are timed in turn on
one warm session.
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
    logged: int, archived: tuple[int, ...], runs: int, progress: _Progress
) -> Iterator[Value]:
    """Rates of both jobs, and their ratio, by what the lake has already."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        progress(f"filling a log with {logged:,} notifications")
        server = runner.run(EmbeddedServer.start(Embedded(Path(folder) / "log", sync_always=False)))
        try:
            runner.run(_fill(server, logged))
            source = {"servers": server.url, "token": server.token}
            progress("starting Spark")
            with job_session(SparkOptions(master="local[2]", app_name="bench")) as spark:
                register(spark)
                bench = _Bench(spark, source, Path(folder), logged)
                bench.plain()
                bench.archive(0)
                for before in (0, *archived):
                    progress(f"archiving into a lake that has {before:,}")
                    yield from bench.compare(before, runs)
        finally:
            runner.run(server.stop())


class _Bench:
    def __init__(
        self, spark: SparkSession, source: dict[str, str], folder: Path, logged: int
    ) -> None:
        self._spark = spark
        self._source = source
        self._folder = folder
        self._logged = logged

    def compare(self, before: int, runs: int) -> Iterator[Value]:
        """Both jobs in turn."""
        ours, theirs = [], []
        for _ in range(runs):
            theirs.append(self.plain())
            ours.append(self.archive(before))
        about = f"{self._logged:,} into a lake with {before:,}"
        rates = tuple(self._logged / taken for taken in ours)
        ratios = tuple(one / other for one, other in zip(theirs, ours, strict=True))
        yield Value(f"archive {about}", "rows/s", rates)
        if not before:
            plain = tuple(self._logged / taken for taken in theirs)
            yield Value(f"plain Parquet of the same {self._logged:,}", "rows/s", plain)
        yield Value(f"archive v. plain Parquet ({about})", "times", ratios)

    def plain(self) -> float:
        """Seconds for the source and ``write.parquet``."""
        target = self._folder / "plain"
        shutil.rmtree(target, ignore_errors=True)
        began = perf_counter()
        rows = self._spark.read.format("aviso").options(**self._source, eventType="mars").load()
        rows.write.parquet(str(target))
        return perf_counter() - began

    def archive(self, before: int) -> float:
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
