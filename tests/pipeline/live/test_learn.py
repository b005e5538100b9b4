"""What is learned from the past."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from aviso_server.lake.layout import Place
from aviso_server.pipeline.live.expected import DAY_S, CyclePart
from aviso_server.pipeline.live.learn import Lesson, due_s, learn, learn_from_lake

LESSON = Lesson(Place("nowhere"))
TODAY = 20_000


def test_what_comes_every_day_is_expected() -> None:
    """It is due at its usual time and some tolerance; a missing day in ten does not matter."""
    days = [TODAY - n for n in range(1, 11) if n != 5]
    assert due_s(days, [3600.0] * 9, TODAY, LESSON.rules) == 4500


@pytest.mark.parametrize(
    "days",
    [
        [],
        [TODAY],
        [TODAY - 1, TODAY - 2],
        [TODAY - n for n in range(7, 29, 7)],
        [TODAY - n for n in range(15, 28)],
    ],
    ids=["never", "today", "new", "weekly", "retired"],
)
def test_what_does_not_come_every_day_is_not_expected(days: list[int]) -> None:
    """New parts, parts of one day a week, and parts that ended two weeks ago."""
    assert due_s(days, [60.0] * len(days), TODAY, LESSON.rules) is None


@pytest.mark.slow
def test_from_rows_of_the_lake(spark: SparkSession, tmp_path: Path) -> None:
    """By cycle, group and part, from the first notification of each; alerts teach nothing."""
    rows = []
    for n in range(1, 8):
        base = datetime.fromtimestamp((TODAY - n) * DAY_S, UTC) + timedelta(hours=6)
        for kind in ("mars", "aviso_alert"):
            named = {"date": f"{base:%Y-%m-%d}", "time": "0600", "stream": "oper", "step": "24"}
            rows += [(kind, base + timedelta(minutes=minutes), named) for minutes in (60, 90)]
        rows.append(("mars", base, {"date": "nonsense", "time": "0600"}))
        rows.append(("other", base, {"region": "n"}))
    frame = spark.createDataFrame(
        rows, "event_type string, time timestamp, identifier map<string,string>"
    )
    found = [CyclePart(*row) for row in learn(frame, LESSON, TODAY).collect()]
    assert found == [CyclePart("mars", "0600", "stream=oper", "24", 4500)]
    assert learn_from_lake(spark, Lesson(Place(str(tmp_path / "nowhere")))) == ()
