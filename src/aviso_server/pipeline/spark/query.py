"""Streaming queries under supervision: started, followed, and started again.

Theory of operation
- The queries of a job run together. Their progress is taken as it comes. If one fails, all are
  stopped and started again, with growing pauses, if waiting may help: for ever while NATS is
  unreachable, a few times for anything else. What waiting cannot cure ends the job at once.
- A query that ends unasked has failed too, unless the job is to run once. Then nothing is tried
  again, unless the query could not even begin: Spark gives a Python process ten seconds to report,
  which on a busy machine may be too few.
- A checkpoint that Spark would refuse is set aside before its query starts (checkpoint).
"""

import contextlib
import json
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from aviso_server.core.errors import AvisoError
from aviso_server.core.json import Json
from aviso_server.pipeline.source.failure import Unreached
from aviso_server.pipeline.spark.checkpoint import Checkpoint
from aviso_server.pipeline.spark.failure import Failure, failure_of
from aviso_server.pipeline.spark.hadoop import hadoop_url

BACKOFF_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
POLL_S = 0.25
"""How often queries are checked."""
IDLE_S = 5.0
"""How often a job is reminded that nothing happens."""

ENDED = Failure("the query was ended, and not by us")
"""Of a query that runs for ever: it was stopped, or Spark itself is being stopped."""
GONE = Failure("Spark has ended unexpectedly")
_NOT_BEGUN = "Python worker failed to connect back"
"""How Spark says that a Python process was too slow to begin."""
_AGAIN = Failure("the queries have run for their time")

Progress: TypeAlias = Mapping[str, Json]
"""What Spark reports of a micro-batch."""


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """A query that is yet to be started."""

    name: str
    writer: DataStreamWriter
    checkpoint: Checkpoint


class StreamingJob(ABC):
    """A job of streaming queries; subclasses say which, and take their progress."""

    hopeless: ClassVar[tuple[type[AvisoError], ...]]
    """What is the same however often it is tried."""
    attempts: ClassVar[int] = 5
    """Failures in a row, without a micro-batch between them, after which the job gives up; an
    unreachable NATS does not count."""
    lifetime_s: float = math.inf
    """After that the queries are started again, though nothing is wrong."""

    def __init__(self, *, once: bool, interval_s: float, stop: threading.Event | None) -> None:
        self._once = once
        self._interval_s = interval_s
        """Time between the beginnings of two micro-batches."""
        self._stop = stop or threading.Event()
        """Ends the job soon; the micro-batch in hand is abandoned."""
        self._seen: dict[str, str] = {}
        """By query, when the last micro-batch began whose progress was taken."""
        self._failures = 0

    @abstractmethod
    def queries(self) -> Iterable[QuerySpec]:
        """The queries; asked before every start."""

    @abstractmethod
    def take(self, name: str, progress: Progress) -> None:
        """Take the progress of one micro-batch of a query."""

    @abstractmethod
    def show(self, trouble: str | None = None) -> None:
        """Report how far the job is, and what goes wrong at the moment."""

    def idle(self) -> None:  # noqa: B027 - for those who want it
        """Called at the start, and then every few seconds in which there is no progress."""

    def mend(self, failure: Failure) -> bool:  # noqa: ARG002 - likewise
        """The last resort where trying again is pointless; whether it may have helped."""
        return False

    def supervise(self) -> Failure | None:
        """Run the queries until they are done or stopped; why, if they cannot continue."""
        while not self._stop.is_set():
            failure = self._attempt()
            if failure is None or self._stop.is_set():
                break
            if failure is _AGAIN:
                continue
            if failure is GONE:
                return failure
            self._failures += 1
            if self._worth_trying(failure):
                pause_s = BACKOFF_S[min(self._failures, len(BACKOFF_S)) - 1]
                self.show(f"{failure.text}; trying again in {pause_s:.0f} s")
                self._stop.wait(pause_s)
            elif _NOT_BEGUN not in failure.text and self.mend(failure):
                self._failures = 0
            else:
                return failure
        return None

    def _attempt(self) -> Failure | None:
        """Run the queries until one ends; why, if not as it should."""
        with contextlib.ExitStack() as running:
            try:
                started = {}
                for query in self.queries():
                    started[query.name] = self._start(query)
                    running.callback(_end, started[query.name])
                return self._follow(started)
            except (PySparkException, Py4JJavaError, AvisoError) as error:
                return failure_of(error)
            except (Py4JError, OSError):
                # A signal to all of the process group ends Spark's JVM too.
                return None if self._stop.is_set() else GONE

    def _start(self, query: QuerySpec) -> StreamingQuery:
        if (done := query.checkpoint.repair()) is not None:
            self.show(done)
        writer = query.writer.outputMode("append").option(
            "checkpointLocation", hadoop_url(query.checkpoint.path)
        )
        interval = f"{round(self._interval_s * 1000)} milliseconds"
        writer = (
            writer.trigger(availableNow=True)
            if self._once
            else writer.trigger(processingTime=interval)
        )
        return writer.start()

    def _follow(self, queries: Mapping[str, StreamingQuery]) -> Failure | None:
        """Take progress until a query fails, all are done, or they are to be stopped."""
        began, idle_at = time.monotonic(), -math.inf
        while True:
            # Checked first: a query that has ended by now has reported all of its progress.
            active = [name for name, query in queries.items() if query.isActive]
            news = [self._take(name, query) for name, query in queries.items()]
            now = time.monotonic()
            if any(news):
                self._failures, idle_at = 0, now
                self.show()
            elif now - idle_at >= IDLE_S:
                idle_at = now
                self.idle()
            for name in queries.keys() - active:
                if (error := queries[name].exception()) is not None:
                    return failure_of(error)
                if not self._once:
                    return ENDED
            if not active or self._stop.wait(POLL_S):
                return None
            if now - began > self.lifetime_s:
                return _AGAIN

    def _take(self, name: str, query: StreamingQuery) -> bool:
        """Take the progress of micro-batches that ended since the last look."""
        seen, newest = self._seen.get(name, ""), query.lastProgress
        if newest is None or newest.timestamp <= seen:
            return False
        # Short micro-batches may follow each other faster than we look.
        for progress in query.recentProgress:
            if progress.timestamp > seen:
                self._seen[name] = progress.timestamp
                self.take(name, json.loads(progress.json))
        return True

    def _worth_trying(self, failure: Failure) -> bool:
        kind = failure.kind or AvisoError
        if issubclass(kind, self.hopeless) or (self._once and _NOT_BEGUN not in failure.text):
            return False
        return issubclass(kind, Unreached) or self._failures < self.attempts


def observed(progress: Progress, name: str) -> dict[str, int]:
    """Counts that were observed under a name; none where Spark reports an idle look."""
    metrics = progress.get("observedMetrics")
    found = metrics.get(name) if isinstance(metrics, dict) else None
    match found:
        case {"values": list(values), "schema": {"fields": list(fields)}}:  # through Connect
            names = [str(field["name"]) for field in fields if isinstance(field, dict)]
            found = dict(zip(names, values, strict=True))
        case dict():
            pass
        case _:
            return {}
    return {key: value if isinstance(value, int) else 0 for key, value in found.items()}


def _end(query: StreamingQuery) -> None:
    # One that failed, or whose Spark is gone, is stopped already.
    with contextlib.suppress(PySparkException, Py4JError, OSError):
        query.stop()
