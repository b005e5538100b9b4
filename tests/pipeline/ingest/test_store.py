"""What a task writes of a history with sequences of its own."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from support.lake import BEGIN_NS

from aviso_server.lake.layout import NOTIFICATIONS, RECORD, Place
from aviso_server.pipeline.ingest.rows import STAGED
from aviso_server.pipeline.ingest.store import (
    HistoryRefused,
    WrittenRange,
    _holes,
    _Range,
    lake_rows,
    write,
)


def rows(
    sequences: Sequence[int],
    *,
    event_type: str = "ev",
    bad: Sequence[int] = (),
    times: Sequence[int] | None = None,
    payload: str = "1",
) -> pa.RecordBatch:
    """Validated rows."""
    return pa.RecordBatch.from_pylist(
        [
            {
                "event_type": event_type,
                "sequence": n,
                "time_ns": None if n in bad else BEGIN_NS + (n if times is None else times[at]),
                "topic": "ev",
                "identifier": [],
                "payload": payload,
                "code": "BAD" if n in bad else None,
            }
            for at, n in enumerate(sequences)
        ],
        schema=STAGED,
    )


def test_a_task_writes_good_rows_and_says_what_is_missing(tmp_path: Path) -> None:
    """Repeats are written once, rejected rows fill their place, gaps show across batches."""
    batches = [rows([1, 2, 2, 5]), rows([5, 6, 9], bad=[6]), rows([3, 4], event_type="other")]
    report = write(Place(str(tmp_path)), iter(batches))
    assert [(f.event_type, f.rows, f.first, f.last) for f in report.written] == [
        ("ev", 4, 1, 9),
        ("other", 2, 3, 4),
    ]
    at = BEGIN_NS
    assert report.written_ranges == [
        WrittenRange("ev", 1, 9, at + 1, at + 9, [(3, 4), (7, 8)]),
        WrittenRange("other", 3, 4, at + 3, at + 4, []),
    ]


@pytest.mark.parametrize(
    ("batches", "words"),
    [
        ([rows([1, 2]), rows([2], payload="2")], "sequence 2 twice"),
        ([rows([1, 2, 3], times=[1, 5, 4])], "back in time from sequence 2 to 3"),
        ([rows([1, 2]), rows([3], times=[0])], "back in time from sequence 2 to 3"),
    ],
)
def test_histories_that_contradict_themselves(
    tmp_path: Path, batches: list[pa.RecordBatch], words: str
) -> None:
    """They are refused with the sequence, and nothing is left behind."""
    with pytest.raises(HistoryRefused, match=words):
        write(Place(str(tmp_path)), iter(batches))
    assert list((tmp_path / NOTIFICATIONS).rglob("*.parquet")) == []


def test_rows_of_the_lake_follow_from_judged_ones() -> None:
    """Id and time are made of sequence and nanoseconds."""
    made = lake_rows(rows([7]))
    assert made.schema == RECORD
    (row,) = made.to_pylist()
    assert (row["id"], row["time_ns"]) == ("ev@7", BEGIN_NS + 7)
    assert row["time"].timestamp() == BEGIN_NS / 10**9


def test_holes_between_tasks_and_behind_the_lake() -> None:
    """What no task has is a hole, counted from the mark of the lake or the first row."""
    ranges = {"a": _Range(3, 30), "b": _Range(5, 9)}
    written_ranges = [
        WrittenRange("a", 20, 30, 20, 30, [(22, 23)]),
        WrittenRange("b", 9, 9, None, None, []),
        WrittenRange("a", 11, 15, 11, 15, []),
    ]
    found = sorted(_holes(written_ranges, ranges, {"a": 10, "b": 0}))
    assert found == [("a", 16, 19), ("a", 22, 23), ("b", 5, 8)]
    with pytest.raises(HistoryRefused, match="back in time from sequence 15 to 20"):
        list(
            _holes(
                [written_ranges[0], WrittenRange("a", 11, 15, 11, 25, [])],
                ranges,
                {"a": 10, "b": 0},
            )
        )
