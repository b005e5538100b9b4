"""Writing histories that have their own sequences and times to the lake, under these.

Rules
- Rows become visible by one commit, with the marks of their event types: all or nothing, and once
  however often it is tried (lake/commit.py).
- A history may overlap with what is archived only where both say the same.
- Storage times never decrease with the sequence, as in any log; a history that breaks this is
  refused.
- Sequences missing inside a history are recorded as deleted: they can no longer be added.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from aviso_server.core.errors import AvisoError
from aviso_server.lake.commit import archived_through, commit
from aviso_server.lake.deadletters import append_dead_letters
from aviso_server.lake.files import FileWriter, Written
from aviso_server.lake.layout import (
    DEAD_LETTER_TABLE,
    DELETED,
    NOTIFICATIONS,
    RECORD,
    TIME,
    Place,
)
from aviso_server.lake.outcome import discard
from aviso_server.lake.table import find
from aviso_server.lake.tombstones import append_tombstones
from aviso_server.pipeline.history.frame import archived
from aviso_server.pipeline.ingest.rows import STAGED, runs

LETTERS_AT_ONCE = 10_000
"""Dead letters that the driver holds."""

_CONTENT = ("time_ns", "topic", "subject", "payload", "polygon")
"""What two records with one sequence must agree on, besides identifier and place."""


class HistoryRefused(AvisoError):
    """The history does not fit to itself or to the lake; nothing was written."""


@dataclass(frozen=True, slots=True)
class WrittenRange:
    """What a task wrote of an event type, ascending."""

    event_type: str
    first: int
    last: int
    first_ns: int | None
    last_ns: int | None
    """Of notifications; rejected rows may have no time."""
    gaps: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Report:
    written: list[Written]
    written_ranges: list[WrittenRange]


@dataclass(frozen=True, slots=True)
class LakeOutcome:
    """The result of the good rows."""

    added: int
    """New in the lake."""
    repeated: int
    """There already, or twice in the history."""
    missing: int
    """Sequences that the history leaves out."""


@dataclass(frozen=True, slots=True)
class _Range:
    first: int
    last: int


def store(spark: SparkSession, place: Place, good: DataFrame, bad: DataFrame) -> LakeOutcome:
    """Write validated rows; HistoryRefused or LakeFailed, and then nothing is visible."""
    letters = bad.where(F.col("event_type").isNotNull() & F.col("sequence").isNotNull())
    rows = good.unionByName(letters)
    ranges = _ranges(rows)
    if not ranges:
        return LakeOutcome(0, 0, 0)
    table = find(place, NOTIFICATIONS)
    marks = {name: 0 if table is None else archived_through(table, name) for name in ranges}
    _check_overlap(spark, place, good, ranges, marks)
    fresh = reduce(
        or_, ((F.col("event_type") == name) & (F.col("sequence") > marks[name]) for name in ranges)
    )
    count = good.count()
    reports = _write(place, rows.where(fresh))
    written = [item for report in reports for item in report.written]
    try:
        holes = list(
            _holes([item for report in reports for item in report.written_ranges], ranges, marks)
        )
        for batch in _letters(letters.where(fresh)):
            append_dead_letters(place, batch)
    except BaseException:
        discard(place, [item.path for item in written])
        raise
    added = commit(place, written, {name: item.last for name, item in ranges.items()})
    # After the commit: they hide nothing, and without it they would hide a second try.
    append_tombstones(place, holes, kind=DELETED)
    missing = sum(last - first + 1 for _, first, last in holes)
    return LakeOutcome(added.rows, count - added.rows, missing)


def _ranges(rows: DataFrame) -> dict[str, _Range]:
    ranges = rows.groupBy("event_type").agg(
        F.min("sequence").alias("first"), F.max("sequence").alias("last")
    )
    return {row["event_type"]: _Range(row["first"], row["last"]) for row in ranges.collect()}


def _check_overlap(
    spark: SparkSession,
    place: Place,
    good: DataFrame,
    ranges: Mapping[str, _Range],
    marks: Mapping[str, int],
) -> None:
    """Refuse what contradicts the lake, or leaves a hole after it."""
    for name, through in marks.items():
        mine = ranges[name]
        if through and mine.first > through + 1:
            raise HistoryRefused(
                f"the lake has '{name}' up to sequence {through} and the history begins at "
                f"{mine.first}: {mine.first - through - 1} are missing between them"
            )
        if mine.first > through:
            continue
        last = min(mine.last, through)
        theirs = _with_digest(
            archived(spark, place, [name], first=mine.first, last=last, hidden=True)
        )
        ours = good.where((F.col("event_type") == name) & (F.col("sequence") <= last))
        both = (
            _with_digest(ours).withColumnRenamed("digest", "ours").join(theirs, "sequence", "left")
        )
        differs = both.where(~F.col("ours").eqNullSafe(F.col("digest")))
        worst = differs.orderBy("sequence").limit(1).collect()
        if worst:
            raise HistoryRefused(
                f"the lake has '{name}' up to sequence {through}, and what it has at "
                f"{worst[0]['sequence']} is not what the history says; use another lake"
            )


def _with_digest(rows: DataFrame) -> DataFrame:
    """Sequences and what is there."""
    texts = [F.coalesce(F.col(name).cast("string"), F.lit("\u0000")) for name in _CONTENT]
    pairs = F.to_json(F.sort_array(F.map_entries("identifier")))
    place = F.coalesce(F.hex("geometry"), F.lit(""))
    return rows.select(
        "sequence", F.sha2(F.concat_ws("\u0001", *texts, pairs, place), 256).alias("digest")
    )


def _write(place: Place, rows: DataFrame) -> list[_Report]:
    """Write with the tasks of Spark; what comes back are descriptions, no rows."""

    def write_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        report = msgspec.json.encode(write(place, batches))
        yield pa.RecordBatch.from_pydict({"report": pa.array([report], pa.binary())})

    ordered = rows.repartitionByRange("event_type", "sequence").sortWithinPartitions(
        "event_type", "sequence"
    )
    reports = ordered.mapInArrow(write_rows, "report binary").collect()
    return [msgspec.json.decode(bytes(row["report"]), type=_Report) for row in reports]


def write(place: Place, batches: Iterable[pa.RecordBatch]) -> _Report:
    """In a task: write rows that come by event type and sequence; nothing is left on failure."""
    writer = FileWriter(place)
    written_ranges: list[WrittenRange] = []
    try:
        last: pa.Table | None = None
        for batch in batches:
            for rows in runs(batch):
                together = rows if last is None else pa.concat_tables([last, rows])
                fresh, written_range = _check(together, skip=0 if last is None else 1)
                last = rows.slice(rows.num_rows - 1)
                _join(written_ranges, written_range)
                for part in fresh.combine_chunks().to_batches():
                    writer.write(lake_rows(part))
        return _Report(writer.close(), written_ranges)
    except BaseException:
        writer.discard()
        raise


def lake_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Validated rows as rows of the lake."""
    ns = batch.column("time_ns").cast(pa.int64())
    made: dict[str, pa.Array] = {
        "id": pc.binary_join_element_wise(
            batch.column("event_type"), batch.column("sequence").cast(pa.string()), "@"
        ),
        "time": pc.cast(pa.array(ns.to_numpy() // 1000), TIME),
    }
    columns = [
        (made[item.name] if item.name in made else batch.column(item.name)).cast(item.type)
        for item in RECORD
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RECORD)


def _check(rows: pa.Table, *, skip: int) -> tuple[pa.Table, WrittenRange]:
    """Rows to write, and what they cover; ``skip`` of them at the beginning are written already."""
    name = rows["event_type"][-1].as_py()
    if skip and rows["event_type"][0].as_py() != name:
        rows, skip = rows.slice(1), 0
    sequence = rows["sequence"].to_numpy()
    sound = np.asarray(pc.is_null(rows["code"]))
    step = np.diff(sequence)
    for at in np.flatnonzero(step == 0).tolist():
        if sound[at] and sound[at + 1] and not _agree(rows, at):
            raise HistoryRefused(
                f"the history has '{name}' sequence {sequence[at]} twice, with different content"
            )
    ns = rows["time_ns"].filter(pa.array(sound)).to_numpy()
    if (back := np.flatnonzero(np.diff(ns) < 0)).size:
        raise _backwards(name, int(sequence[sound][back[0]]), int(sequence[sound][back[0] + 1]))
    gaps = [(int(sequence[n]) + 1, int(sequence[n + 1]) - 1) for n in np.flatnonzero(step > 1)]
    # Of rows that say the same the first is kept, of those with one sequence the good one.
    wanted = np.flatnonzero(sound)
    _, firsts = np.unique(sequence[wanted], return_index=True)
    chosen = wanted[firsts]
    if skip and sound[0]:
        chosen = chosen[sequence[chosen] > sequence[0]]
    written_range = WrittenRange(
        name,
        int(sequence[0]),
        int(sequence[-1]),
        int(ns[0]) if len(ns) else None,
        int(ns[-1]) if len(ns) else None,
        gaps,
    )
    return rows.take(pa.array(chosen)), written_range


def _backwards(name: str, before: int, after: int) -> HistoryRefused:
    return HistoryRefused(
        f"the history of '{name}' goes back in time from sequence {before} to {after}"
    )


def _agree(rows: pa.Table, at: int) -> bool:
    names = [name for name in RECORD.names if name in STAGED.names]
    one, other = rows.slice(at, 1).select(names), rows.slice(at + 1, 1).select(names)
    return bool(one.combine_chunks().equals(other.combine_chunks()))


def _join(written_ranges: list[WrittenRange], after: WrittenRange) -> None:
    """Join a written_range to the one it continues."""
    if not written_ranges or written_ranges[-1].event_type != after.event_type:
        written_ranges.append(after)
        return
    before = written_ranges[-1]
    _refuse_backwards(before, after)
    written_ranges[-1] = WrittenRange(
        after.event_type,
        before.first,
        after.last,
        after.first_ns if before.first_ns is None else before.first_ns,
        before.last_ns if after.last_ns is None else after.last_ns,
        before.gaps + after.gaps,
    )


def _refuse_backwards(before: WrittenRange, after: WrittenRange) -> None:
    if None not in (before.last_ns, after.first_ns) and after.first_ns < before.last_ns:  # type: ignore[operator]
        raise _backwards(before.event_type, before.last, after.first)


def _letters(rejected: DataFrame) -> Iterator[pa.Table]:
    """Rejected rows as dead letters of the lake, a bounded number at a time, ascending."""
    waiting: list[dict[str, object]] = []
    once = rejected.dropDuplicates(["event_type", "sequence"])
    for row in once.orderBy("event_type", "sequence").toLocalIterator():
        waiting.append(
            {
                "event_type": row["event_type"],
                "sequence": row["sequence"],
                "time": None,
                "time_ns": row["time_ns"],
                "subject": None,
                "problem": row["reason"],
                "raw": (row["raw"] or "").encode(),
            }
        )
        if len(waiting) >= LETTERS_AT_ONCE:
            yield _table(waiting)
            waiting = []
    if waiting:
        yield _table(waiting)


def _table(rows: Sequence[Mapping[str, object]]) -> pa.Table:
    made = pa.Table.from_pylist(list(rows), schema=DEAD_LETTER_TABLE)
    field_ = DEAD_LETTER_TABLE.field("time")
    times = pc.cast(pc.divide(made["time_ns"], 1000), TIME)
    return made.set_column(made.schema.get_field_index("time"), field_, times)


def _holes(
    written_ranges: Sequence[WrittenRange], ranges: Mapping[str, _Range], marks: Mapping[str, int]
) -> Iterator[tuple[str, int, int]]:
    """Ranges of sequences that no row has, by event type; HistoryRefused out of order."""
    for name, whole in ranges.items():
        mine = sorted((s for s in written_ranges if s.event_type == name), key=lambda s: s.first)
        reached = max(marks[name] + 1, whole.first) - 1
        timed: WrittenRange | None = None
        for written_range in mine:
            if reached + 1 < written_range.first:
                yield name, reached + 1, written_range.first - 1
            for first, last in written_range.gaps:
                yield name, first, last
            reached = written_range.last
            if timed is not None:
                _refuse_backwards(timed, written_range)
            timed = written_range if written_range.last_ns is not None else timed
