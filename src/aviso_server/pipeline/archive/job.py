"""The archive job: carries every notification from the log into the lake, exactly once.

Theory of operation
- A streaming query reads the log from where the lake ends (source) and commits each micro-batch to
  the lake once (sink). It can be killed at any moment: the lake's marks say where to resume.
- A query that fails is started again if waiting may help (spark/query).
- A checkpoint that Spark would refuse, or that no micro-batch can be done with, is set aside
  (spark/checkpoint): the marks say all that it said.
- An unreachable NATS is waited for before Spark is started; with ``once`` only for a time.
- With ``once`` it ends when what was there at its start is archived.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, repeat

from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from aviso_server.core.errors import AvisoError
from aviso_server.core.expectation import Expectations
from aviso_server.lake.layout import CHECKPOINTS, Place
from aviso_server.lake.marks import marks_of
from aviso_server.pipeline.archive.expected import RowCounts
from aviso_server.pipeline.archive.progress import (
    OBSERVED,
    ArchiveSnapshot,
    ArchiveTally,
    Known,
    Reach,
    Stage,
)
from aviso_server.pipeline.archive.report import LETTERS, NEWEST, ROWS, UNEXPECTED
from aviso_server.pipeline.archive.sink import LakeWriter
from aviso_server.pipeline.archive.source import (
    FORMAT,
    LakeBehind,
    LakeStream,
    stream_options,
)
from aviso_server.pipeline.source.agreement import LogReplaced
from aviso_server.pipeline.source.bridge import ask
from aviso_server.pipeline.source.failure import BadOption, DataLost, StreamReplaced, Unreached
from aviso_server.pipeline.source.log import SourceLog
from aviso_server.pipeline.source.options import read_options
from aviso_server.pipeline.source.plan import bounds
from aviso_server.pipeline.source.ranges import Range
from aviso_server.pipeline.spark.checkpoint import Checkpoint
from aviso_server.pipeline.spark.failure import Failure
from aviso_server.pipeline.spark.hadoop import hadoop_options
from aviso_server.pipeline.spark.query import BACKOFF_S, Progress, QuerySpec, StreamingJob

LOSS_REMEDY = ": lake.fail_on_data_loss in the settings, or --no-fail-on-data-loss"
"""Where that option is, for the archive."""


PATIENCE = 6
"""Intervals for which a few notifications wait to be committed with others (patience)."""

JAVA = ("-XX:TieredStopAtLevel=1",)
"""Options of its JVM, through which no rows pass: what the optimising compiler would do is half of
the work of a start, and never pays."""


class ArchiveFailed(AvisoError):
    """The job cannot continue; the message says why in one line."""


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
    """Shortest time between the beginnings of two micro-batches."""
    checkpoint: str | None = None
    """Where Spark keeps its books; in the lake unless said."""
    max_records: int = 200_000
    """Notifications in one micro-batch: bounds what is lost when one is tried again."""
    fail_on_data_loss: bool = True
    wait_s: float = 30.0
    """How long ``once`` waits for NATS."""
    expected: Mapping[str, Expectations] = field(default_factory=dict)
    """What is expected of event types. What is not as expected is archived too, and counted."""

    @property
    def source_options(self) -> dict[str, str]:
        """All options of the source."""
        return {
            **self.source,
            "eventType": ",".join(self.event_types) or "*",
            "maxRecordsPerTrigger": str(self.max_records),
            "failOnDataLoss": str(self.fail_on_data_loss).lower(),
        }

    @property
    def books(self) -> Checkpoint:
        """Where Spark keeps its books."""
        path = self.checkpoint or f"{self.place.table(CHECKPOINTS)}/archive"
        return Checkpoint(path, self.place.options)


def look(options: ArchiveOptions) -> Known:
    """Where log and lake are now; fails at once if one of them cannot be used."""
    marks_of(options.place, ())
    asked = read_options(options.source_options)

    async def answer(log: SourceLog) -> Known:
        found: dict[str, Reach] = {}
        oldest: list[int] = []
        ends = await bounds(log, asked)
        marks = marks_of(options.place, ends)
        for name, end in ends.items():
            # Where nothing is archived yet, what the log no longer has is not lag.
            through = marks[name].through or end.first - 1
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
    options: ArchiveOptions, stop: threading.Event, *, tell: Callable[[ArchiveSnapshot], None]
) -> Known | None:
    """Where log and lake are, once NATS can be reached; None if stopped before."""
    began = time.monotonic()
    for pause_s in chain(BACKOFF_S, repeat(BACKOFF_S[-1])):
        try:
            return look(options)
        except Unreached as error:
            if options.once and time.monotonic() - began + pause_s > options.wait_s:
                raise
            words = f"{error.message}; trying again in {pause_s:.0f} s"
            tell(ArchiveSnapshot("starting", error=words))
        if stop.wait(pause_s):
            break
    return None


class ArchiveJob(StreamingJob):
    """One run of the job on a session."""

    hopeless = (BadOption, DataLost, StreamReplaced, LakeBehind, LogReplaced)

    def __init__(
        self,
        spark: SparkSession,
        options: ArchiveOptions,
        *,
        tell: Callable[[ArchiveSnapshot], None] = lambda _: None,
        known: Known | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        super().__init__(once=options.once, interval_s=options.interval_s, stop=stop)
        self._spark = spark
        self._options = options
        self._tell = tell
        self._tally = ArchiveTally(known, RowCounts(options.expected).names)
        self._looks = known is not None
        """Whether log and lake can be reached from here: through Connect they may not."""
        self._given_up = False
        """Whether a checkpoint was set aside because nothing could be done with it."""

    def run(self) -> None:
        """Work until all is archived (once) or until stopped; ArchiveFailed if it cannot
        continue."""
        self._spark.dataSource.register(LakeStream)
        # On the session, not on a command line, where any user of the machine could read them.
        for name, value in hadoop_options(self._options.place.options).items():
            self._spark.conf.set(name, value)
        failure = self.supervise()
        if failure is None:
            self._show("stopped")
            return
        lost = failure.kind is not None and issubclass(failure.kind, DataLost)
        text = failure.text + (LOSS_REMEDY if lost else "")
        self._show("failed", text)
        raise ArchiveFailed(text)

    def queries(self) -> Iterator[QuerySpec]:
        """The one from the log to the lake."""
        options = self._options
        reports = (
            self._spark.readStream.format(FORMAT)
            .options(
                **options.source_options,
                **stream_options(
                    options.place,
                    patience_s=PATIENCE * options.interval_s,
                    expected=options.expected,
                ),
            )
            .load()
        )
        unexpected = [
            fn.sum(fn.col(UNEXPECTED)[number]).alias(f"{UNEXPECTED}{number}")
            for number in range(len(RowCounts(options.expected).names))
        ]
        counted = reports.observe(
            OBSERVED,
            fn.sum(ROWS).alias(ROWS),
            fn.sum(LETTERS).alias(LETTERS),
            fn.max(NEWEST).alias(NEWEST),
            *unexpected,
        )
        writer = counted.writeStream.foreachBatch(LakeWriter(options.place))
        self._tally.started(time.time())
        yield QuerySpec(OBSERVED, writer, options.books)

    def take(self, name: str, progress: Progress) -> None:  # noqa: ARG002 - there is only one
        """Add up what a micro-batch did."""
        self._tally.add(progress, time.time())

    def show(self, trouble: str | None = None) -> None:
        """Report the state of a job that runs."""
        self._show("running", trouble)

    def idle(self) -> None:
        """Check how far behind the lake is; if that fails, the query will say why."""
        if self._looks:
            with contextlib.suppress(AvisoError, OSError):
                self._tally.look(look(self._options), time.time())
        self.show()

    def mend(self, failure: Failure) -> bool:
        """Set the checkpoint aside if it may be why Spark failed: not one of our own errors, and no
        micro-batch in this run; once."""
        if self._given_up or self._seen or failure.kind is not None:
            return False
        self._given_up = True
        done = self._options.books.set_aside(failure.text)
        if done is not None:
            self.show(done)
        return done is not None

    def _show(self, stage: Stage, error: str | None = None) -> None:
        self._tell(self._tally.snapshot(stage, time.time(), error))
