"""The state of a cycle, as Spark keeps it between micro-batches; without Spark."""

import json
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import Row, StructType

from aviso_server.pipeline.live.cycles import KEPT_US, follow_cycle
from aviso_server.pipeline.live.expected import US

BASE = 1_767_225_600 * US
KEY = ("mars", BASE, "stream=oper")


def state(
    value: tuple[Any, ...] | None = None, *, watermark_us: int = 0, over: bool = False
) -> Any:
    """What Spark hands to the function."""
    return GroupState(
        Row(*(value or ())),
        batchProcessingTimeMs=0,
        eventTimeWatermarkMs=watermark_us // 1000,
        timeoutConf=GroupStateTimeout.EventTimeTimeout,
        hasTimedOut=over,
        watermarkPresent=True,
        defined=value is not None,
        updated=False,
        removed=False,
        timeoutTimestamp=GroupState.NO_TIMESTAMP,
        keyAsUnsafe=b"",
        valueSchema=StructType(),
    )


def frame(*rows: tuple[str, int, int | None]) -> pd.DataFrame:
    """Part, storage time and due time, in seconds after the base time."""
    made = [(p, BASE + at * US, None if due is None else BASE + due * US) for p, at, due in rows]
    return pd.DataFrame(made, columns=["part", "at_us", "due_us"])


def call(known: Any, *frames: pd.DataFrame) -> list[dict[str, Any]]:
    """What the function yields."""
    return [row for found in follow_cycle(KEY, frames, known) for row in found.to_dict("records")]


def test_what_arrived_is_remembered() -> None:
    """Of many fields of a part the first; the state is kept for three days."""
    known = state()
    assert call(known, frame(("0", 9, None), ("0", 5, None)), frame(("6", 20, None))) == []
    arrived, late = known.get
    assert json.loads(arrived) == {"0": BASE + 5 * US, "6": BASE + 20 * US}
    assert late is False
    assert known._timeout_timestamp == (BASE + KEPT_US) // 1000


def test_a_late_part_is_reported_once() -> None:
    """The alert names cycle, time and part; the state remembers that it was told."""
    known = state((json.dumps({"0": BASE}), False))
    (alert,) = call(known, frame(("6", 200, 100), ("0", 200, 100)))
    assert json.loads(alert.pop("payload")) == {
        "base_time": "2026-01-01T00:00:00Z",
        "due": "2026-01-01T00:01:40Z",
        "late": ["6"],
        "arrived": 1,
    }
    assert alert == {
        "kind": "late",
        "about": "mars",
        "severity": 4,
        "window": "2026-01-01T00:00:00Z",
        "key": "stream=oper",
    }
    assert call(state(known.get), frame(("12", 300, 300))) == []


def test_nothing_of_a_cycle_is_worse() -> None:
    """A cycle of which nothing came is more severe."""
    (alert,) = call(state(), frame(("6", 200, 100)))
    assert alert["severity"] == 5


def test_a_cycle_is_forgotten() -> None:
    """When its time is over, and at once if it was over before it was seen."""
    known = state(("{}", True), over=True)
    assert call(known) == []
    assert not known.exists
    old = state(watermark_us=BASE + KEPT_US)
    assert len(call(old, frame(("6", 200, 100)))) == 1
    assert not old.exists
