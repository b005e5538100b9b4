"""The job ``pipeline ingest``: a legacy history validated, then published or written to a lake."""

import hashlib
import json
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from deltalake import write_deltalake
from deltalake.exceptions import DeltaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from aviso_server.core.declaration import declaration
from aviso_server.core.errors import AvisoError
from aviso_server.core.schema import Catalogue
from aviso_server.lake.layout import TIME, Place
from aviso_server.pipeline.delivery.delivery import TooManyRejected
from aviso_server.pipeline.delivery.ledger import REJECTED, lock_folder
from aviso_server.pipeline.delivery.target import Target
from aviso_server.pipeline.ingest.publish import KEY, PUBLISHED, IngestPublisher
from aviso_server.pipeline.ingest.rows import SPARK_STAGED
from aviso_server.pipeline.ingest.staging import FromFiles, FromLog, Source, frame, reasons
from aviso_server.pipeline.ingest.state import IngestRun, IngestState, RejectReason
from aviso_server.pipeline.ingest.store import store
from aviso_server.pipeline.spark.failure import failure_of

Report: TypeAlias = Callable[[str], None]
"""Called with what the job does now."""

_REJECTED = pa.schema(
    [
        ("source", pa.string()),
        ("line", pa.int64()),
        ("event_type", pa.string()),
        ("code", pa.string()),
        ("field", pa.string()),
        ("reason", pa.string()),
        ("raw", pa.string()),
        ("rejected_at", TIME),
        ("run", pa.string()),
    ]
)
_AT_ONCE = 1000
"""Rejected rows that the driver holds."""


class IngestFailed(AvisoError):
    """The history is not in; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """What to take in, by which rules, and where to; exactly one of ``server`` and ``lake``."""

    source: Source
    catalogue: Catalogue
    state: Path
    """Folder that driver and executors share."""
    server: Target | None = None
    lake: Place | None = None
    dead_letters: Place | None = None
    """Delta table for rejected rows; in the state folder if not said."""
    max_rejected: int | None = None


@dataclass(frozen=True, slots=True)
class IngestOutcome:
    """The result of the rows."""

    read: int
    added: int
    """Published, or new in the lake."""
    repeated: int
    """There already: from an earlier run, or twice in the history."""
    rejected: int
    reasons: tuple[RejectReason, ...] = ()
    missing: int = 0
    """Sequences that the history left out; only of a lake."""
    dead_letters: str | None = None


def run(
    options: IngestOptions, spark: SparkSession, *, report: Report = lambda _: None
) -> IngestOutcome:
    """Take the history in; AvisoError where it cannot be done."""
    try:
        with _own(options) as state:
            return _run(options, spark, state, report=report)
    except PySparkException as error:
        raise IngestFailed(failure_of(error).text) from error


def earlier_outcome(options: IngestOptions) -> IngestOutcome | None:
    """The outcome, if an earlier run has published these very files; asked without Spark."""
    # Other sources may have grown, and a lake remembers itself what it has.
    if options.lake is not None or not isinstance(options.source, FromFiles):
        return None
    begun = IngestState(options.state).run(_digest(options))
    if begun is None or begun.stage != "done":
        return None
    _check_rejected(options, begun, begun.reasons, begun.dead_letters)
    return IngestOutcome(
        begun.read,
        0,
        begun.published,
        begun.rejected,
        reasons=begun.reasons,
        dead_letters=begun.dead_letters,
    )


def _run(
    options: IngestOptions, spark: SparkSession, state: IngestState, *, report: Report
) -> IngestOutcome:
    if (known := earlier_outcome(options)) is not None:
        return known
    digest = _digest(options)
    begun = state.run(digest)
    if begun is None or begun.stage != "publishing":
        begun = _stage(options, spark, state, state.begin(digest), report=report)
    return _take_in(options, spark, state, begun, report=report)


@contextmanager
def _own(options: IngestOptions) -> Iterator[IngestState]:
    """The state of the job: that of a lake ends with it, for the lake itself remembers."""
    if options.lake is not None:
        state = IngestState(options.state / f"lake-{uuid.uuid4().hex}")
        try:
            yield state
        finally:
            shutil.rmtree(state.folder, ignore_errors=True)
        return
    with lock_folder(options.state):
        yield IngestState(options.state)


def _stage(
    options: IngestOptions,
    spark: SparkSession,
    state: IngestState,
    begun: IngestRun,
    *,
    report: Report,
) -> IngestRun:
    """Read and validate; everything that follows works on what is staged."""
    report("reading and validating")
    rows = frame(spark, options.source, options.catalogue, stored=options.lake is not None)
    rows.write.mode("overwrite").parquet(str(state.staged))
    counts = F.count("*").alias("read"), F.count("code").alias("rejected")
    (sums,) = _rows(spark, state).agg(*counts).collect()
    return replace(begun, read=sums["read"], rejected=sums["rejected"])


def _rows(spark: SparkSession, state: IngestState) -> DataFrame:
    return spark.read.schema(SPARK_STAGED).parquet(str(state.staged))


def _take_in(
    options: IngestOptions,
    spark: SparkSession,
    state: IngestState,
    begun: IngestRun,
    *,
    report: Report,
) -> IngestOutcome:
    rows, rejected = _rows(spark, state), begun.rejected
    good, bad = rows.where("code is null"), rows.where("code is not null")
    why = reasons(bad) if rejected else []
    letters = _write_rejected(options, begun.digest, bad) if rejected else None
    _check_rejected(options, begun, why, letters)
    outcome = IngestOutcome(begun.read, 0, 0, rejected, tuple(why), 0, letters)
    if options.lake is not None:
        report("writing to the lake")
        kept = store(spark, options.lake, good, bad)
        return replace(outcome, added=kept.added, repeated=kept.repeated, missing=kept.missing)
    # From here on an interrupted run resumes with what is staged; before, sources may change.
    begun = replace(begun, stage="publishing")
    state.note(begun)
    report("publishing")
    return _publish(options, spark, state, begun, good=good, outcome=outcome)


def _check_rejected(
    options: IngestOptions, begun: IngestRun, why: Sequence[RejectReason], letters: str | None
) -> None:
    most = options.max_rejected
    if most is None or begun.rejected <= most:
        return
    first = f"; the first reason: {why[0].example} ({why[0].count} like it)" if why else ""
    raise TooManyRejected(
        f"{begun.rejected} of {begun.read} rows are rejected, {most} may be{first}. See {letters}"
    )


def _publish(
    options: IngestOptions,
    spark: SparkSession,
    state: IngestState,
    begun: IngestRun,
    *,
    good: DataFrame,
    outcome: IngestOutcome,
) -> IngestOutcome:
    assert options.server is not None  # noqa: S101 - one of the two is there
    keyed = good.withColumn(KEY, _key())
    todo = _unpublished(spark, state, keyed, begun.id)
    left = None if options.max_rejected is None else options.max_rejected - outcome.rejected
    publisher = IngestPublisher(state, begun.id, options.server, left)
    kinds = max(1, good.select("event_type").distinct().count())
    ordered = todo.repartition(kinds, "event_type").sortWithinPartitions(
        "event_type", "time_ns", "source", "line"
    )
    done = ordered.mapInArrow(publisher.publish, PUBLISHED).collect()
    refused, added = sum(row["rejected"] for row in done), sum(row["added"] for row in done)
    letters, why = outcome.dead_letters, outcome.reasons
    if refused:
        rows = _refused_rows(spark, state)
        why += tuple(reasons(rows))
        letters = _write_rejected(options, f"{begun.digest}-refused", rows)
    todo.select(KEY).write.mode("overwrite").parquet(str(state.published / f"run={begun.id}"))
    rejected = outcome.rejected + refused
    taken = outcome.read - rejected
    state.note(
        replace(
            begun,
            stage="done",
            rejected=rejected,
            published=taken,
            reasons=tuple(why),
            dead_letters=letters,
        )
    )
    state.clear()
    return IngestOutcome(
        outcome.read, added, taken - added, rejected, reasons=why, dead_letters=letters
    )


def _unpublished(
    spark: SparkSession, state: IngestState, rows: DataFrame, run_id: str
) -> DataFrame:
    """Rows that no earlier run has published."""
    earlier = [str(path) for path in state.published.glob("run=*") if path.name != f"run={run_id}"]
    if not earlier:
        return rows
    return rows.join(spark.read.parquet(*earlier).select(KEY), KEY, "left_anti")


def _key() -> Column:
    """An idempotency key of content and position: the same row is the same notification."""
    parts = [
        F.col("source"),
        F.col("line").cast("string"),
        F.col("event_type"),
        F.to_json("identifier"),
        F.coalesce(F.hex("geometry"), F.lit("")),
        F.coalesce("polygon", F.lit("")),
        F.coalesce("payload", F.lit("")),
    ]
    return F.concat(F.lit("ingest-"), F.sha2(F.concat_ws("\u0001", *parts), 224))


def _refused_rows(spark: SparkSession, state: IngestState) -> DataFrame:
    """Rows that the server rejected, like those that were rejected before."""
    text = spark.read.text(f"{state.deliveries}/*/{REJECTED}")
    members = {"reason": "problem", "raw": "request"}
    columns = {
        name: F.get_json_object("value", f"$.{members.get(name, name)}")
        for name in _REJECTED.names[:-2]
    }
    columns["line"] = columns["line"].cast("bigint")
    return text.select(*(column.alias(name) for name, column in columns.items()))


def _write_rejected(options: IngestOptions, name: str, bad: DataFrame) -> str:
    """Write rejected rows where people find them; those of the same ingest are replaced."""
    target = options.dead_letters or Place(str(options.state / "rejected"))
    now = datetime.now(UTC)
    rows = bad.select(*_REJECTED.names[:-2]).toLocalIterator()
    batches = (
        pa.RecordBatch.from_pylist(
            [{**row.asDict(), "rejected_at": now, "run": name} for row in some], _REJECTED
        )
        for some in iter(lambda: list(islice(rows, _AT_ONCE)), [])
    )
    try:
        write_deltalake(
            target.path,
            pa.RecordBatchReader.from_batches(_REJECTED, batches),
            mode="overwrite",
            predicate=f"run = '{name}'",
            partition_by=["run"],
            name="aviso_ingest_rejected",
            storage_options=dict(target.options),
        )
    except (DeltaError, OSError) as error:
        raise IngestFailed(f"cannot write {target.path}: {error}") from error
    return target.path


def _digest(options: IngestOptions) -> str:
    """What makes two runs the same."""
    source = options.source
    if isinstance(source, FromLog):
        origin: object = {"log": sorted(source.options.items())}
    else:
        origin = asdict(source)
    target = options.server.url if options.server is not None else str(options.lake)
    rules = [declaration(schema) for schema in options.catalogue.schemas.values()]
    text = json.dumps([origin, target, rules], sort_keys=True, default=_plain)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _plain(value: object) -> object:
    return sorted(value) if isinstance(value, frozenset | set) else str(value)
