"""Products and when they arrived, classified in Spark's tasks by the rules of ``expect``.

One row for each distinct identifier comes in; what goes out is bounded by products and days. A
product's whole past fits into one row (a delay for each day), so tasks need no state.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.pandas.types import from_arrow_schema

from aviso_server.core.fields.moment import DateField, TimeField
from aviso_server.core.schema import Schema
from aviso_server.pipeline.report.expect import DAY_S, USUAL, LearningRules, Span, assess
from aviso_server.pipeline.report.figures import SECOND

_DATE = r"^([0-9]{4})-?([0-9]{2})-?([0-9]{2})$"
_TIME = r"^([0-1][0-9]|2[0-3]):?([0-5][0-9])$"

_VERDICTS = pa.schema(
    [
        ("event_type", pa.string()),
        ("base_s", pa.int32()),
        ("product", pa.string()),
        ("day", pa.int32()),
        ("kind", pa.string()),
        ("delay_s", pa.float64()),
        ("usual_s", pa.float64()),
        ("limit_s", pa.float64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Clock:
    """The fields of an event type that make its base time."""

    date: str = "date"
    time: str | None = "time"
    """None: the base time is midnight."""


USUAL_CLOCK = Clock()
"""Of event types whose schema is not known; those without a field ``date`` have no products."""


def clocks(schemas: Mapping[str, Schema]) -> dict[str, Clock | None]:
    """The base time of each event type; None for those that have none."""
    return {name: _clock(schema) for name, schema in schemas.items()}


def assess_arrivals(
    identifiers: DataFrame,
    clock_of: Mapping[str, Clock | None],
    span: Span,
    *,
    rules: LearningRules = USUAL,
) -> DataFrame:
    """Verdicts from rows (event_type, fields, first_ns), one for each product and day."""

    def verdicts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _assess_batch(batch, span, rules)

    known = products(identifiers, clock_of)
    past = known.groupBy("event_type", "base_s", "product").agg(
        F.collect_list("day").alias("days"), F.collect_list("delay_s").alias("delays")
    )
    return past.mapInArrow(verdicts, from_arrow_schema(_VERDICTS))


def products(identifiers: DataFrame, clock_of: Mapping[str, Clock | None]) -> DataFrame:
    """Rows (event_type, base_s, product, day, delay_s) of what has a base time."""
    values = F.map_from_entries("fields")
    texts = identifiers.select(
        "event_type",
        "first_ns",
        "fields",
        _field(values, clock_of, "date").alias("date"),
        _field(values, clock_of, "time").alias("time"),
        _names(clock_of).alias("names"),
    )
    dashed = F.regexp_replace("date", _DATE, "$1-$2-$3")
    day = F.unix_date(F.when(F.col("date").rlike(_DATE), dashed).try_cast("date"))
    hours, minutes = (F.regexp_extract("time", _TIME, n).try_cast("int") for n in (1, 2))
    base = F.when(F.col("time").isNull(), F.lit(0)).otherwise(hours * 3600 + minutes * 60)
    rest = F.filter("fields", lambda item: ~F.array_contains(F.col("names"), item["key"]))
    named = F.transform(rest, lambda item: F.concat_ws("=", item["key"], item["value"]))
    made = texts.select(
        "event_type",
        base.alias("base_s"),
        F.array_join(named, ", ").alias("product"),
        day.alias("day"),
        "first_ns",
    ).where(F.col("day").isNotNull() & F.col("base_s").isNotNull())
    since = F.col("first_ns") / SECOND - F.col("day").cast("bigint") * DAY_S - F.col("base_s")
    return made.select("event_type", "base_s", "product", "day", since.alias("delay_s"))


def _assess_batch(batch: pa.RecordBatch, span: Span, rules: LearningRules) -> pa.RecordBatch:
    names, bases, labels = (batch.column(n).to_pylist() for n in range(3))
    rows: list[tuple[object, ...]] = []
    for number, (name, base_s, label) in enumerate(zip(names, bases, labels, strict=True)):
        days = np.asarray(batch.column("days")[number].values, np.int64)
        delays = np.asarray(batch.column("delays")[number].values, np.float64)
        rows += (
            (name, base_s, label, v.day, v.kind, v.delay_s, v.usual_s, v.limit_s)
            for v in assess(days, delays, base_s=base_s, span=span, rules=rules)
        )
    columns = zip(*rows, strict=True) if rows else ([] for _ in _VERDICTS)
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, _VERDICTS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_VERDICTS)


def _clock(schema: Schema) -> Clock | None:
    dates = [item.name for item in schema.fields if isinstance(item, DateField)]
    times = [item.name for item in schema.fields if isinstance(item, TimeField)]
    return Clock(dates[0], times[0] if times else None) if dates else None


def _field(values: Column, clock_of: Mapping[str, Clock | None], which: str) -> Column:
    """The text of the date or the time of a row."""
    found = values[getattr(USUAL_CLOCK, which)]
    for name, clock in clock_of.items():
        field = None if clock is None else getattr(clock, which)
        text = F.lit(None).cast("string") if field is None else values[field]
        found = F.when(F.col("event_type") == name, text).otherwise(found)
    return found


def _names(clock_of: Mapping[str, Clock | None]) -> Column:
    """The names of the fields that are the base time and not the product."""
    found = F.array(F.lit(USUAL_CLOCK.date), F.lit(USUAL_CLOCK.time))
    for name, clock in clock_of.items():
        if clock is not None:
            mine = F.array(*(F.lit(field) for field in (clock.date, clock.time) if field))
            found = F.when(F.col("event_type") == name, mine).otherwise(found)
    return found
