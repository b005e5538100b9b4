"""Rows of the source: columns, rows with a problem, marks."""

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from aviso_server.core.notification import Entry, Notification, Record, Unreadable
from aviso_server.pipeline.source.columns import ARROW, MARKED, Columns, divide
from aviso_server.pipeline.source.failure import BadOption
from aviso_server.pipeline.source.ranges import Range


def _record(sequence: int, payload: bytes = b"1") -> Record:
    return Record(
        sequence, 1_700_000_000_123_456_789, Notification("a", ("a", "x"), {}, None, payload)
    )


def test_spark_and_arrow_agree() -> None:
    """Spark compares the two to the letter."""
    assert to_arrow_schema(MARKED, timezone="UTC") == ARROW


def test_one_broken_entry_stays_in_its_place() -> None:
    """Order is kept, and a row says what is wrong and what was stored."""
    entries: list[Entry] = [_record(1), Unreadable(2, 5_000, "a.%", "no"), _record(3)]
    batches = list(Columns().rows("a", entries, {2: b"{}"}))
    rows = pa.Table.from_batches(batches).to_pylist()
    assert [(r["id"], r["problem"], r["raw"]) for r in rows] == [
        ("a@1", None, None),
        ("a@2", "no", b"{}"),
        ("a@3", None, None),
    ]
    assert rows[0]["time_ns"] == 1_700_000_000_123_456_789
    assert (rows[1]["subject"], rows[1]["time_ns"]) == ("a.%", 5_000)


def test_marks_are_no_notifications() -> None:
    """They name a range and nothing else, and come only where they are asked for."""
    columns = Columns(MARKED)
    assert (columns.marked, Columns().marked) == (True, False)
    read, lost = Range("a", 2, 9), Range("a", 2, 5)
    row = columns.mark(read, lost=False).to_pylist()[0]
    told = {name: value for name, value in row.items() if value is not None}
    mark = {"first": 2, "last": 9, "lost": False}
    assert told == {"event_type": "a", "sequence": 9, "id": "a@9", "mark": mark}
    # A reason may say anything, and even the time of a letter may be unknown.
    entries: list[Entry] = [_record(6), Unreadable(7, 0, "a.%", "lost:1-9"), _record(8)]
    batches = [columns.mark(lost, lost=True), *columns.rows("a", entries, {})]
    batches.append(columns.mark(read, lost=False))
    (whole,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    rows = divide(whole)
    assert (rows.read, rows.lost) == ([read], [lost])
    assert rows.records["sequence"].to_pylist() == [6, 8]
    assert rows.letters["problem"].to_pylist() == ["lost:1-9"]


def test_columns_can_be_left_out() -> None:
    """A schema given by the user is a choice of columns."""
    chosen = StructType([StructField("payload", StringType()), StructField("id", StringType())])
    batch = next(Columns(chosen).rows("a", [_record(1)], {}))
    assert batch.to_pylist() == [{"payload": "1", "id": "a@1"}]
    with pytest.raises(BadOption, match="column id int is not one of the source"):
        Columns(StructType([StructField("id", IntegerType())]))


def test_transports_without_topics_say_so() -> None:
    """Null, not an empty text."""
    batch = next(Columns(topics=False).rows("a", [_record(1)], {}))
    assert batch["topic"].to_pylist() == [None]
