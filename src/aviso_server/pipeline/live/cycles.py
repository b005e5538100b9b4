"""Late cycles, in Spark: state for each cycle of a day, and the columns that make a cycle.

The state of a cycle is made by its first notification or by the first of its parts that falls due,
and is removed KEPT_US after its base time, when the watermark has passed that.
"""

import json
from collections.abc import Iterable, Iterator

import pandas as pd  # type: ignore[import-untyped]
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from aviso_server.core.json import compact
from aviso_server.pipeline.live import alert
from aviso_server.pipeline.live.expected import (
    DAY_S,
    GROUP_FIELD,
    MAX_DUE_S,
    PART_FIELD,
    US,
    group_text,
)
from aviso_server.pipeline.live.lateness import Cycle, Lateness, find_lateness
from aviso_server.pipeline.live.source import FELL_DUE, NEWS

EARLY_US = DAY_S * US
"""A notification stored longer than that before its base time is not of this cycle."""

KEPT_US = (MAX_DUE_S + DAY_S) * US
"""From the base time until a cycle is forgotten."""

_STATE = "arrived string, late boolean"
_FOUND = "kind string, about string, severity int, window string, key string, payload string"
_FOUND_NAMES = ["kind", "about", "severity", "window", "key", "payload"]
_CYCLE = ["event_type", "base_us", "group"]


def base_us() -> Column:
    """The base time that an identifier names, in microseconds since the epoch; null if none."""
    date = F.regexp_replace(F.col("identifier")["date"], "-", "")
    text = F.concat(date, F.col("identifier")["time"])
    return F.unix_micros(F.try_to_timestamp(text, F.lit("yyyyMMddHHmm")))


def group_of() -> Column:
    """The group that an identifier belongs to, spelled as ``expected.group_text`` does."""
    value = F.col("identifier")[GROUP_FIELD]
    return F.coalesce(F.concat(F.lit(group_text("")), value), F.lit(""))


def part_of() -> Column:
    """The part of its cycle that an identifier is."""
    return F.coalesce(F.col("identifier")[PART_FIELD], F.lit(""))


def in_reach(base: Column, time: Column) -> Column:
    """Whether something stored then can belong to the cycle."""
    at = F.unix_micros(time)
    return (at >= base - F.lit(EARLY_US)) & (at < base + F.lit(KEPT_US))


def late_cycles(rows: DataFrame, *, watermark_s: int) -> DataFrame:
    """The first lateness of each cycle that is expected, from rows of the live source.

    Cycles that are not expected have state too: they may be expected from tomorrow on.
    """
    news = F.col("row") == NEWS
    return (
        rows.withWatermark("time", f"{watermark_s} seconds")
        .withColumn("base_us", F.when(news, base_us()).otherwise(F.col("base_us")))
        .withColumn("group", F.when(news, group_of()).otherwise(F.col("group")))
        .withColumn("part", F.when(news, part_of()).otherwise(F.col("part")))
        # One condition that names the time: Spark moves any other below the watermark, which would
        # then not see the ticks and stand still.
        .where((F.col("row") == FELL_DUE) | (news & in_reach(F.col("base_us"), F.col("time"))))
        .select(*_CYCLE, "time", "part", "due_us", F.unix_micros("time").alias("at_us"))
        .groupBy(*_CYCLE)
        .applyInPandasWithState(
            follow_cycle, _FOUND, _STATE, "append", GroupStateTimeout.EventTimeTimeout
        )
    )


def follow_cycle(
    key: tuple[object, ...], frames: Iterable[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """What Spark calls for a cycle: with its new rows, or when its time is over."""
    event_type, base, group = str(key[0]), int(str(key[1])), str(key[2])
    if state.hasTimedOut:
        state.remove()
        return
    arrivals: list[tuple[str, int]] = []
    dues: list[tuple[str, int]] = []
    for frame in frames:
        fell = frame["due_us"].notna()
        dues += _pairs(frame[fell], "due_us")
        # Thousands of fields may make one part.
        arrivals += _pairs(frame[~fell].groupby("part", as_index=False)["at_us"].min(), "at_us")
    cycle, lateness = find_lateness(_remembered(state), arrivals, dues)
    ends_ms = (base + KEPT_US) // 1000
    if ends_ms > state.getCurrentWatermarkMs():
        state.update((json.dumps(dict(cycle.arrived)), cycle.late))
        state.setTimeoutTimestamp(ends_ms)
    elif state.exists:
        state.remove()
    if lateness is not None:
        yield pd.DataFrame([_alert_row(event_type, base, group, lateness)], columns=_FOUND_NAMES)


def _alert_row(event_type: str, base: int, group: str, lateness: Lateness) -> tuple[object, ...]:
    payload = compact(
        {
            "base_time": alert.moment(base),
            "due": alert.moment(lateness.due),
            "late": [part for part in lateness.parts if part],
            "arrived": lateness.arrived,
        }
    ).decode()
    severity = alert.INCOMPLETE if lateness.arrived else alert.ABSENT
    # A field may not be empty.
    return (alert.LATE, event_type, severity, alert.moment(base), group or "all", payload)


def _remembered(state: GroupState) -> Cycle:
    if not state.exists:
        return Cycle()
    arrived, late = state.get
    return Cycle(json.loads(arrived), bool(late))


def _pairs(frame: pd.DataFrame, column: str) -> list[tuple[str, int]]:
    return [
        (str(part), int(value)) for part, value in zip(frame["part"], frame[column], strict=True)
    ]
