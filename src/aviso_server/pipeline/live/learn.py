"""What is expected, learned from the lake by the rules of the report (report.expect).

Only what comes every day is learned: a job runs for days, and a part that comes on Mondays would
be missed on all others.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import ceil

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.pandas.types import from_arrow_schema

from aviso_server.lake.layout import NOTIFICATIONS, Place
from aviso_server.lake.table import find
from aviso_server.pipeline.history.frame import archived
from aviso_server.pipeline.live.alert import EVENT_TYPE
from aviso_server.pipeline.live.cycles import base_us, group_of, in_reach, part_of
from aviso_server.pipeline.live.expected import (
    DAY_S,
    MAX_DUE_S,
    MAX_PARTS,
    US,
    CyclePart,
    check_parts,
)
from aviso_server.pipeline.report.expect import NEW, USUAL, LearningRules, Span, assess

_PART = ("event_type", "cycle", "group", "part")
_LEARNED = pa.schema([*((name, pa.string()) for name in _PART), ("due_s", pa.int64())])

_NEVER = 1_000_000
"""Weeks after which a weekly part is learned: never reached, so none is."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """What to learn from."""

    place: Place
    days: int = USUAL.learn_days

    @property
    def rules(self) -> LearningRules:
        """In terms of the report."""
        return replace(USUAL, learn_days=self.days, least_weekly=_NEVER)


def learn_from_lake(
    spark: SparkSession, lesson: Lesson, *, now: datetime | None = None
) -> tuple[CyclePart, ...]:
    """The parts that come every day; none before there is a lake; BadExpectation if too many."""
    if find(lesson.place, NOTIFICATIONS) is None:
        return ()
    today = int((now or datetime.now(UTC)).timestamp()) // DAY_S
    start_ns = (today - lesson.days) * DAY_S * 1_000_000_000
    rows = archived(spark, lesson.place, start_ns=start_ns)
    found = learn(rows, lesson, today).limit(MAX_PARTS + 1).collect()
    return check_parts(CyclePart(*row) for row in found)


def learn(rows: DataFrame, lesson: Lesson, today: int) -> DataFrame:
    """The parts expected today, a number of days since the epoch, from rows of the lake."""
    first = (
        rows.where(F.col("event_type") != EVENT_TYPE)
        .select("event_type", "time", base_us().alias("base_us"), "identifier")
        .where(in_reach(F.col("base_us"), F.col("time")))
        .groupBy(
            "event_type",
            "base_us",
            group_of().alias("group"),
            part_of().alias("part"),
        )
        .agg(F.min(F.unix_micros("time")).alias("at_us"))
        .withColumn("cycle", F.date_format(F.timestamp_micros("base_us"), "HHmm"))
    )
    past = first.groupBy(*_PART).agg(
        F.collect_list(F.floor(F.col("base_us") / (DAY_S * US))).alias("days"),
        F.collect_list((F.col("at_us") - F.col("base_us")) / US).alias("delays"),
    )
    return past.mapInArrow(_taught(lesson.rules, today), from_arrow_schema(_LEARNED))


def due_s(days: list[int], delays: list[float], today: int, rules: LearningRules) -> int | None:
    """How long after its base time a part is late; None if it is not expected."""
    span = Span(today, today, as_of_s=0)
    came = np.asarray(days, np.int64), np.asarray(delays, np.float64)
    for verdict in assess(*came, base_s=0, span=span, rules=rules):
        if verdict.kind != NEW and verdict.limit_s is not None:
            return min(max(ceil(verdict.limit_s), 0), MAX_DUE_S)
    return None


def _taught(
    rules: LearningRules, today: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = batch.to_pylist()
            for row in rows:
                row["due_s"] = due_s(row.pop("days"), row.pop("delays"), today, rules)
            yield pa.RecordBatch.from_pylist(
                [row for row in rows if row["due_s"] is not None], _LEARNED
            )

    return parts
