"""The archive job: carries every notification from the log into the lake, exactly once.

Theory of operation
- A streaming query reads the log from where the lake ends (source) and commits each micro-batch
  to the lake once (sink). It can be killed at any moment: the lake's marks tell where to go on.
- A query that fails is started again, with growing pauses, if waiting may help: for ever while NATS
  is away, a few times for anything else. What waiting cannot mend ends the job at once.
- A checkpoint that Spark would refuse, or that no micro-batch can be done with, is set aside
  (checkpoint.py): the marks tell all that it told.
- A NATS that is not there yet is waited for before Spark is started; with ``once`` only so long.
- With ``once`` it ends when what was there at its start is archived, and nothing is tried again.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, repeat

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.query import StreamingQuery

from aviso_server.core.errors import AvisoError
from aviso_server.lake.commit import archived_through
from aviso_server.lake.layout import CHECKPOINTS, NOTIFICATIONS, Place
from aviso_server.lake.table import ensure
from aviso_server.pipeline.archive.progress import (
    LETTERS,
    NEWEST,
    OBSERVED,
    ROWS,
    Known,
    Reach,
    Snapshot,
    Stage,
    Tally,
)
from aviso_server.pipeline.archive.source import (
    FORMAT,
    LakeBehind,
    LakeStream,
    stream_options,
)
from aviso_server.pipeline.source.agreement import LogReplaced
from aviso_server.pipeline.source.columns import LOSS
from aviso_server.pipeline.source.failure import BadOption, DataLost, StreamReplaced, Unreached
from aviso_server.pipeline.source.log import Log
from aviso_server.pipeline.source.options import read_options
from aviso_server.pipeline.source.plan import ends
from aviso_server.pipeline.source.ranges import Range
from aviso_server.pipeline.source.reading import ask
from aviso_server.pipeline.spark.checkpoint import Checkpoint
from aviso_server.pipeline.spark.failure import ENDED, Failure, failure_of
from aviso_server.pipeline.spark.hadoop import hadoop_options, hadoop_url

HOPELESS = (BadOption, DataLost, StreamReplaced, LakeBehind, LogReplaced)
"""What is the same however often it is tried."""

ATTEMPTS = 5
"""Failures in a row, without a micro-batch between them, after which the job gives up; an
unreachable NATS does not count."""

BACKOFF_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
POLL_S = 0.25
"""How often the query is looked at."""
IDLE_S = 5.0
"""How often the state is told when nothing happens."""


GONE = "Spark has ended unexpectedly"

LOSS_REMEDY = ": lake.fail_on_data_loss in the settings, or --no-fail-on-data-loss"
"""Where that option is, for the archive."""


class ArchiveFailed(AvisoError):
    """The job cannot go on; the message says why in one line."""


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """What is archived, where to and how often."""

    place: Place
    source: Mapping[str, str] = field(repr=False)
    """Options of the source that say where NATS is; may hold secrets."""
    event_types: tuple[str, ...] = ()
    """Empty is all there are, also those that appear later."""
    once: bool = False
    interval_s: float = 10.0
    """Time between the beginnings of two micro-batches."""
    checkpoint: str | None = None
    """Where Spark keeps its books; in the lake unless said."""
    max_records: int = 200_000
    """Notifications in one micro-batch: bounds what is lost when one is tried again."""
    fail_on_data_loss: bool = True
    wait_s: float = 30.0
    """How long ``once`` waits for NATS."""

    @property
    def source_options(self) -> dict[str, str]:
        """Everything the source is told."""
        return {
            **self.source,
            "eventType": ",".join(self.event_types) or "*",
            "maxRecordsPerTrigger": str(self.max_records),
            "failOnDataLoss": str(self.fail_on_data_loss).lower(),
            "withMarks": "true",
        }

    @property
    def books(self) -> Checkpoint:
        """Where Spark keeps its books,"""
        path = self.checkpoint or f"{self.place.table(CHECKPOINTS)}/archive"
        return Checkpoint(path, self.place.options)

    @property
    def checkpoint_url(self) -> str:
        """as Hadoop spells it."""
        return hadoop_url(self.books.path)


def look(options: ArchiveOptions) -> Known:
    """Where log and lake are now; fails at once if one of them cannot be used."""
    table = ensure(options.place, NOTIFICATIONS)
    asked = read_options(options.source_options)

    async def answer(log: Log) -> Known:
        found: dict[str, Reach] = {}
        oldest: list[int] = []
        for name, end in (await ends(log, asked)).items():
            # Where nothing is archived yet, what the log no longer has is not lag.
            through = archived_through(table, name) or end.first - 1
            found[name] = Reach(through, max(through, end.last))
            begin = max(through + 1, end.first)
            if begin <= end.last:
                async for part in log.read(Range(name, begin, begin)):
                    oldest += [entry.stored_at_ns for entry in part.entries]
        return Known(found, min(oldest) / 1e9 if oldest else None)

    try:
        return ask(asked, answer)
    except Unreached as error:
        where = ", ".join(asked.access.addresses) or asked.access.address_file
        raise Unreached(f"{error.message} ({where})") from error


def wait_for_log(
    options: ArchiveOptions, stop: threading.Event, *, tell: Callable[[Snapshot], None]
) -> Known | None:
    """Where log and lake are, once NATS can be reached; None if told to stop before."""
    began = time.monotonic()
    for pause_s in chain(BACKOFF_S, repeat(BACKOFF_S[-1])):
        try:
            return look(options)
        except Unreached as error:
            if options.once and time.monotonic() - began + pause_s > options.wait_s:
                raise
            words = f"{error.message}; trying again in {pause_s:.0f} s"
            tell(Snapshot("starting", error=words))
        if stop.wait(pause_s):
            break
    return None


class Archive:
    """One run of the job on a session."""

    def __init__(
        self,
        spark: SparkSession,
        options: ArchiveOptions,
        *,
        tell: Callable[[Snapshot], None] = lambda _: None,
        known: Known | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        self._spark = spark
        self._options = options
        self._tell = tell
        self._tally = Tally(known)
        self._looks = known is not None
        """Whether log and lake can be reached from here: through Connect they may not."""
        self._seen = ""
        """When the last micro-batch began whose progress was taken."""
        self._failures = 0
        self._given_up = False
        """Whether a checkpoint was set aside because nothing could be done with it."""
        self._stop = stop or threading.Event()
        """Ends the job soon; the micro-batch in hand is abandoned."""

    def run(self) -> None:
        """Work until all is archived (once) or until stopped; ArchiveFailed if it cannot go on."""
        self._prepare()
        while not self._stop.is_set():
            failure = self._attempt()
            if failure is None or self._stop.is_set():
                break
            self._failures += 1
            if not self._worth_trying(failure):
                if self._begin_anew(failure):
                    continue
                text = failure.text
                if failure.kind is not None and issubclass(failure.kind, DataLost):
                    text += LOSS_REMEDY
                self._show("failed", text)
                raise ArchiveFailed(text)
            pause_s = BACKOFF_S[min(self._failures, len(BACKOFF_S)) - 1]
            self._show("running", f"{failure.text}; trying again in {pause_s:.0f} s")
            self._stop.wait(pause_s)
        self._show("stopped")

    def _prepare(self) -> None:
        self._spark.dataSource.register(LakeStream)
        # On the session, not on a command line, where any user of the machine could read them.
        for name, value in hadoop_options(self._options.place.options).items():
            self._spark.conf.set(name, value)

    def _begin_anew(self, failure: Failure) -> bool:
        """Set the checkpoint aside if it may be why Spark failed: not one of our own errors, and no
        micro-batch in this run; once."""
        if self._given_up or self._seen or failure.kind is not None:
            return False
        self._given_up, self._failures = True, 0
        done = self._options.books.set_aside(failure.text)
        if done is not None:
            self._show("running", done)
        return done is not None

    def _attempt(self) -> Failure | None:
        """Run the query until it ends; why, if not as it should."""
        if (done := self._options.books.repair()) is not None:
            self._show("running", done)
        try:
            with self._query() as query:
                self._tally.started(time.time())
                self._follow(query)
                return None if self._stop.is_set() else self._why(query)
        except (PySparkException, Py4JJavaError, AvisoError) as error:
            return failure_of(error)
        except (Py4JError, OSError) as error:
            if self._stop.is_set():  # a signal to all of the group ends Spark's JVM too
                return None
            self._show("failed", GONE)
            raise ArchiveFailed(GONE) from error

    def _why(self, query: StreamingQuery) -> Failure | None:
        """Why a query ended that nobody told to; None if it was done."""
        error = query.exception()
        if error is not None:
            return failure_of(error)
        return None if self._options.once else ENDED

    @contextmanager
    def _query(self) -> Iterator[StreamingQuery]:
        options = self._options
        rows = (
            self._spark.readStream.format(FORMAT)
            .options(**options.source_options, **stream_options(options.place))
            .load()
        )
        good = fn.col("time").isNotNull() & fn.col("problem").isNull()
        bad = fn.col("problem").isNotNull() & ~fn.col("problem").startswith(LOSS)
        counted = rows.observe(
            OBSERVED,
            fn.count(fn.when(good, 1)).alias(ROWS),
            fn.count(fn.when(bad, 1)).alias(LETTERS),
            fn.max(fn.unix_micros("time")).alias(NEWEST),
        )
        writer = (
            counted.writeStream.format(FORMAT)
            .options(**stream_options(options.place))
            .option("checkpointLocation", options.checkpoint_url)
            .outputMode("append")
        )
        interval = f"{round(options.interval_s * 1000)} milliseconds"
        writer = (
            writer.trigger(availableNow=True)
            if options.once
            else writer.trigger(processingTime=interval)
        )
        query = writer.start()
        try:
            yield query
        finally:
            _end(query)

    def _follow(self, query: StreamingQuery) -> None:
        """Tell what the query does until it ends or is to be stopped."""
        told = 0.0
        while True:
            active = query.isActive
            news = self._take(query)
            now = time.monotonic()
            if news or now - told >= IDLE_S:
                told = now
                if self._looks and not news:
                    self._look()
                self._show("running")
            if not active or self._stop.wait(POLL_S):
                return

    def _take(self, query: StreamingQuery) -> bool:
        """Take the progress of micro-batches that ended since the last look."""
        newest = query.lastProgress
        if newest is None or newest.timestamp <= self._seen:
            return False
        # Short micro-batches may follow each other faster than we look.
        for progress in query.recentProgress:
            if progress.timestamp > self._seen:
                self._seen = progress.timestamp
                self._tally.add(progress.json, time.time())
        self._failures = 0
        return True

    def _look(self) -> None:
        """Look how far behind the lake is; if that cannot be seen, the query will say why."""
        try:
            self._tally.look(look(self._options), time.time())
        except (AvisoError, OSError):
            return

    def _worth_trying(self, failure: Failure) -> bool:
        if self._options.once or (failure.kind and issubclass(failure.kind, HOPELESS)):
            return False
        away = failure.kind is not None and issubclass(failure.kind, Unreached)
        return away or self._failures < ATTEMPTS

    def _show(self, stage: Stage, error: str | None = None) -> None:
        self._tell(self._tally.snapshot(stage, time.time(), error))


def _end(query: StreamingQuery) -> None:
    """Stop a query; one that failed, or whose Spark is gone, is stopped already."""
    try:
        query.stop()
    except (PySparkException, Py4JError, OSError):
        return
