"""The live job: two streaming queries whose results are published as notifications.

Theory of operation
- Each query reads the log and the clock (source), keeps its own checkpoint, and publishes through
  the sink. Rates are windows over storage time; late cycles have their own state (cycles).
- A micro-batch that was published and not noted in the checkpoint is run again, with the same
  rows. Its alerts have the same idempotency keys, which the server remembers for two minutes. For
  longer interruptions the newest alerts of the log are read at every start of a query, and what is
  among them is not published again.
- Expectations are learned again every day: the queries are stopped and resume where they were.
- A checkpoint that Spark would refuse is set aside (spark/checkpoint). The query then begins as a
  new one does: with the last window, or the last day of cycles.
- A query that fails is started again, and both with it (spark/query).
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from aviso_server.core.errors import AvisoError
from aviso_server.pipeline.datasource import register
from aviso_server.pipeline.delivery.http import HttpServer, Unanswered
from aviso_server.pipeline.live import alert
from aviso_server.pipeline.live.cycles import late_cycles
from aviso_server.pipeline.live.expected import DAY_S, BadExpectation, CyclePart
from aviso_server.pipeline.live.rates import rates
from aviso_server.pipeline.live.source import FORMAT, NEWS, LiveSource, live_options
from aviso_server.pipeline.source.failure import BadOption, StreamReplaced
from aviso_server.pipeline.spark.checkpoint import Checkpoint
from aviso_server.pipeline.spark.hadoop import hadoop_options
from aviso_server.pipeline.spark.query import Progress, QuerySpec, StreamingJob, observed

RATES, CYCLES = "rates", "cycles"
"""The queries, and their folders in the checkpoint."""

NEWEST = 10_000
"""Alerts that are known at a start: more than one micro-batch can have published."""

_IDENTITY = ("kind", "about", "window", "key")
"""As alert.IDENTITY, while ``event_type`` is that of the alert itself."""

_SHUFFLES, _SPARKS_OWN, _OURS = "spark.sql.shuffle.partitions", "200", "4"
"""The default of a Spark Connect server would be two hundred tasks for a few keys. Rates have one:
rows are counted before they get there, and every task costs files and a Python worker each time."""

JAVA = ("-XX:TieredStopAtLevel=1",)
"""Options of its JVM: a little work every few seconds, for which the optimising compiler is most of
the cost."""

_READ, _ALERTS = "read", "alerts"
_REACH_S = 10.0


class LiveJobFailed(AvisoError):
    """The job cannot continue; the message says why in one line."""


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """What is watched, and where alerts go."""

    source: Mapping[str, str] = field(repr=False)
    """Options of the source that say where NATS is; may hold secrets."""
    url: str
    """The server that alerts are published to."""
    checkpoint: str
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Options of the object store that the checkpoint is in; may be secret."""
    token: str | None = field(default=None, repr=False)
    event_types: tuple[str, ...] = ()
    """Empty is all there are, also those that appear later."""
    expected: tuple[CyclePart, ...] = ()
    window_s: int = 300
    slide_s: int = 60
    watermark_s: int = 60
    """How much clocks may differ. Results wait as long."""
    interval_s: float = 10.0
    """Time between the beginnings of two micro-batches, and length of a tick."""
    limit: float | None = None
    """Notifications per second above which a rate is severe."""
    once: bool = False


@dataclass(frozen=True, slots=True)
class LiveOutcome:
    """What a run did so far."""

    notifications: int = 0
    late_rows: int = 0
    """Stored before the watermark and read after it: missing from windows already reported."""
    alerts: Mapping[str, int] = field(default_factory=dict)
    """Published, by kind; a micro-batch that is run again counts again."""
    trouble: str | None = None
    """Why a query is being started again."""


def check(options: LiveOptions) -> None:
    """Refuse options that cannot work, before Spark is started for nothing."""
    if alert.EVENT_TYPE in options.event_types:
        raise LiveJobFailed(f"{alert.EVENT_TYPE} is what is published and cannot be watched")
    check_server(options.url, options.token)


class LiveJob(StreamingJob):
    """One run of the job on a session."""

    hopeless = (BadOption, BadExpectation, StreamReplaced)
    attempts = 40
    """About twenty minutes, in which a server that is replaced is back."""

    def __init__(
        self,
        spark: SparkSession,
        options: LiveOptions,
        *,
        tell: Callable[[LiveOutcome], None] = lambda _: None,
        learn: Callable[[], tuple[CyclePart, ...]] | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        super().__init__(once=options.once, interval_s=options.interval_s, stop=stop)
        self._spark = spark
        self._options = options
        self._learn = learn
        """What is expected now; asked at every start of the queries, and so at least daily."""
        if learn is not None:
            self.lifetime_s = float(DAY_S)
        self._tell = tell
        self._outcome = LiveOutcome()

    def run(self) -> LiveOutcome:
        """Work until stopped, or until all is reported (once); LiveJobFailed if it cannot
        continue."""
        register(self._spark)
        self._spark.dataSource.register(LiveSource)
        # On the session, not on a command line, where any user of the machine could read them.
        for name, value in hadoop_options(self._options.storage).items():
            self._spark.conf.set(name, value)
        if self._spark.conf.get(_SHUFFLES) == _SPARKS_OWN:
            self._spark.conf.set(_SHUFFLES, _OURS)
        if (failure := self.supervise()) is not None:
            raise LiveJobFailed(failure.text)
        return self._outcome

    def queries(self) -> Iterator[QuerySpec]:
        """Rates, and late cycles where any are expected."""
        if self._learn is not None:
            self._options = replace(self._options, expected=self._learn())
        known = self._published()
        usual = self._spark.conf.get(_SHUFFLES) or _OURS
        try:
            for name, frame in self._views().items():
                # It counts when the query starts, which is before the next one is asked for.
                self._spark.conf.set(_SHUFFLES, "1" if name == RATES else usual)
                yield self._query(name, frame, known)
        finally:
            self._spark.conf.set(_SHUFFLES, usual)

    def take(self, name: str, progress: Progress) -> None:
        """Add up what a micro-batch did."""
        self._outcome = add_progress(self._outcome, name, progress)

    def show(self, trouble: str | None = None) -> None:
        """Report what was done so far."""
        self._outcome = replace(self._outcome, trouble=trouble)
        self._tell(self._outcome)

    def _views(self) -> dict[str, DataFrame]:
        options = self._options
        views = {
            RATES: rates(
                self._rows(RATES, options.window_s),
                window_s=options.window_s,
                slide_s=options.slide_s,
                watermark_s=options.watermark_s,
                limit=options.limit,
            )
        }
        if options.expected:
            views[CYCLES] = late_cycles(
                # What came before the first start may be part of a cycle that is not over.
                self._rows(CYCLES, DAY_S),
                watermark_s=options.watermark_s,
            )
        return views

    def _rows(self, name: str, back_s: int) -> DataFrame:
        options = self._options
        rows = (
            self._spark.readStream.format(FORMAT)
            .options(**options.source)
            .options(
                eventType=",".join(options.event_types) or "*",
                failOnDataLoss="false",
                # Counts for a new checkpoint only.
                startingTimestamp=alert.moment((int(time.time()) - back_s) * 1_000_000),
            )
            .options(
                **live_options(
                    options.expected if name == CYCLES else (),
                    tick_s=options.interval_s,
                    settle_s=options.watermark_s,
                )
            )
            .load()
        )
        news = F.col("row") == NEWS
        behind = F.col("time") < F.col("since") - F.make_dt_interval(
            secs=F.lit(options.watermark_s)
        )
        return rows.observe(
            f"{name}_{_READ}",
            F.count(F.when(news, 1)).alias("rows"),
            F.count(F.when(news & behind, 1)).alias("late"),
        )

    def _published(self) -> DataFrame:
        """The identities of the newest alerts that the log has."""
        newest = (
            self._spark.read.format("aviso")
            .options(**self._options.source, eventType=alert.EVENT_TYPE, failOnDataLoss="false")
            .load()
            .where("problem is null")
            .orderBy(F.desc("sequence"))
            .limit(NEWEST)
            .select(*(F.col("identifier")[name].alias(name) for name in alert.IDENTITY))
        )
        # Collected: as a frame it would be read again for every micro-batch.
        rows = [tuple(row) for row in newest.collect()]
        columns = ", ".join(f"{name} string" for name in _IDENTITY)
        return self._spark.createDataFrame(rows, columns)

    def _query(self, name: str, found: DataFrame, known: DataFrame) -> QuerySpec:
        options = self._options
        fresh = found.join(F.broadcast(known), [*_IDENTITY], "left_anti")
        counted = fresh.observe(f"{name}_{_ALERTS}", F.count(F.lit(1)).alias("rows"))
        writer = (
            as_notifications(counted)
            .writeStream.format("aviso")
            .options(url=options.url, idempotencyKey="id", onReject="fail")
            .options(**({} if options.token is None else {"token": options.token}))
        )
        path = f"{options.checkpoint.rstrip('/')}/{name}"
        return QuerySpec(name, writer, Checkpoint(path, options.storage))


def as_notifications(alerts: DataFrame) -> DataFrame:
    """Alerts as rows for the sink, with the idempotency key ``id``."""
    return alerts.select(
        F.lit(alert.EVENT_TYPE).alias("event_type"),
        F.create_map(
            F.lit("kind"), F.col("kind"),
            F.lit("event_type"), F.col("about"),
            F.lit("severity"), F.col("severity").cast("string"),
            F.lit("window"), F.col("window"),
            F.lit("key"), F.col("key"),
        ).alias("identifier"),
        "payload",
        F.concat(F.lit("alert-"), F.sha1(F.to_json(F.struct(*_IDENTITY)))).alias("id"),
    )  # fmt: skip


def add_progress(outcome: LiveOutcome, name: str, progress: Progress) -> LiveOutcome:
    """The outcome after a micro-batch, from what Spark reports of it."""
    read, told = (observed(progress, f"{name}_{what}") for what in (_READ, _ALERTS))
    kind = alert.RATE if name == RATES else alert.LATE
    count = outcome.alerts.get(kind, 0) + told.get("rows", 0)
    alerts = {**outcome.alerts, kind: count}
    if name != RATES:  # both read the same notifications
        return replace(outcome, alerts=alerts)
    return replace(
        outcome,
        notifications=outcome.notifications + read.get("rows", 0),
        late_rows=outcome.late_rows + read.get("late", 0),
        alerts=alerts,
    )


def check_server(url: str, token: str | None) -> None:
    """LiveJobFailed if the server cannot be reached or does not accept alerts."""
    authorization = None if token is None else f"Bearer {token}"
    server = HttpServer(url, authorization=authorization, timeout_s=_REACH_S)
    try:
        status = server.get(f"/api/v1/schema/{alert.EVENT_TYPE}").status
    except Unanswered as error:
        raise LiveJobFailed(f"the server {url} cannot be reached: {error}") from None
    finally:
        server.close()
    if status == HTTPStatus.NOT_FOUND:
        raise LiveJobFailed(
            f"the server {url} has no event type {alert.EVENT_TYPE}; add its schema, "
            "which `aviso-server pipeline live --schema` prints"
        )
    if status >= HTTPStatus.BAD_REQUEST:
        raise LiveJobFailed(f"the server {url} answered {status} to a question for a schema")
