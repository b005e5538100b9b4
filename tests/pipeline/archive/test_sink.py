"""The archive's sink as plain Python: what tasks report and what the driver makes of it."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from support.lake import record, table_of

from aviso_server.core.notification import Record, Unreadable
from aviso_server.lake.commit import archived_through
from aviso_server.lake.layout import (
    DEAD_LETTERS,
    NOTIFICATIONS,
    TOMBSTONES,
    Place,
)
from aviso_server.lake.storage import LakeFailed
from aviso_server.lake.table import find
from aviso_server.pipeline.archive import deadletters as letters
from aviso_server.pipeline.archive.report import REPORT, TaskReport, read_report, to_row
from aviso_server.pipeline.archive.sink import LakeWriter, TaskFailed
from aviso_server.pipeline.source.columns import MARKED, Columns
from aviso_server.pipeline.source.ranges import Range
from aviso_server.pipeline.spark.failure import read_failure

COLUMNS = Columns(MARKED)


def _notifications(records: Sequence[Record]) -> pa.RecordBatch:
    return next(COLUMNS.rows("mars", records, {}))


def _letter(sequence: int, raw: bytes = b"{}", at_ns: int = 1_000_000) -> pa.RecordBatch:
    return next(
        COLUMNS.rows("mars", [Unreadable(sequence, at_ns, "mars.x", "bad")], {sequence: raw})
    )


def _read(first: int, last: int, name: str = "mars", *, lost: bool = False) -> pa.RecordBatch:
    return COLUMNS.mark(Range(name, first, last), lost=lost)


def _task(place: Place, *batches: pa.RecordBatch) -> TaskReport:
    """Run a task's part, and let the report cross to the driver as Spark would."""
    joined = pa.Table.from_batches(batches).combine_chunks().to_batches()
    row = to_row(LakeWriter(place).write(iter(joined)))
    return read_report(row.column(REPORT)[0].as_py())


def _sequences(place: Place, table: str) -> list[int]:
    found = find(place, table)
    return [] if found is None else sorted(found.to_pyarrow_table()["sequence"].to_pylist())


def test_one_commit_for_all_tasks(place: Place) -> None:
    """Notifications, dead letters, losses and marks of several tasks become visible together."""
    reports = [
        _task(place, _letter(7), _notifications([record(8)]), _read(7, 8)),
        _task(
            place,
            _read(1, 2, lost=True),
            _notifications([record(3), record(4)]),
            _letter(5, b'{"x":1}'),
            _notifications([record(6)]),
            _read(1, 6),
        ),
        _task(place, _read(1, 20, "diss")),
    ]
    assert find(place, NOTIFICATIONS) is None
    LakeWriter(place).settle(reports)
    assert _sequences(place, NOTIFICATIONS) == [3, 4, 6, 8]
    table = table_of(place)
    assert archived_through(table, "mars") == 8
    assert archived_through(table, "diss") == 20
    rows = table_of(place, DEAD_LETTERS).to_pyarrow_table().sort_by("sequence").to_pylist()
    assert [(row["sequence"], row["problem"], row["raw"]) for row in rows] == [
        (5, "bad", b'{"x":1}'),
        (7, "bad", b"{}"),
    ]
    (grave,) = table_of(place, TOMBSTONES).to_pyarrow_table().to_pylist()
    assert (grave["first"], grave["last"], grave["kind"]) == (1, 2, "lost")


def test_a_micro_batch_tried_again_changes_nothing(place: Place) -> None:
    """Also when the driver died between the dead letters and the notifications."""
    batches = [_notifications([record(1)]), _letter(2), _notifications([record(3)]), _read(1, 3)]
    letters.append(place, [_task(place, *batches).letters])
    for _ in range(2):
        LakeWriter(place).settle([_task(place, *batches)])
    assert _sequences(place, NOTIFICATIONS) == [1, 3]
    assert _sequences(place, DEAD_LETTERS) == [2]


def test_many_dead_letters_go_through_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report stays small; letters arrive once each, whatever order tasks end in."""
    monkeypatch.setattr(letters, "IN_MEMORY", 3)
    place = Place(str(tmp_path))
    late = _task(place, *(_letter(n) for n in range(12, 24)), _read(12, 23))
    early = _task(place, *(_letter(n) for n in range(1, 12)), _read(1, 11))
    assert late.letters.files
    assert not late.letters.streams
    LakeWriter(place).settle([late, early])
    assert _sequences(place, DEAD_LETTERS) == list(range(1, 24))
    assert list((tmp_path / DEAD_LETTERS / letters.STAGED).iterdir()) == []


def test_letters_without_a_time_are_letters(place: Place) -> None:
    """Not even that could be read of them."""
    LakeWriter(place).settle([_task(place, _letter(1, at_ns=0), _read(1, 1))])
    assert _sequences(place, DEAD_LETTERS) == [1]


def test_a_micro_batch_of_which_a_task_failed_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither data files nor staged letters: nothing was committed. The error is the task's."""
    monkeypatch.setattr(letters, "IN_MEMORY", 1)
    place = Place(str(tmp_path))
    report = _task(place, _notifications([record(1)]), _letter(2), _letter(3), _read(1, 3))
    assert list(tmp_path.rglob("*.parquet"))
    problem = "Traceback (most recent call last):\nValueError: the source broke"
    with pytest.raises(TaskFailed) as error:
        LakeWriter(place).settle([report, TaskReport(problem=problem)])
    assert read_failure(f"Traceback (most recent call last):\nTaskFailed: {error.value}").text == (
        "ValueError: the source broke"
    )
    assert list(tmp_path.rglob("*.parquet")) == []
    assert find(place, NOTIFICATIONS) is None


def test_a_task_that_fails_leaves_no_files(tmp_path: Path) -> None:
    """The error is the one that ended the input."""
    place = Place(str(tmp_path))

    def broken() -> object:
        yield _notifications([record(1)])
        raise ValueError("the source broke")

    with pytest.raises(ValueError, match="the source broke"):
        LakeWriter(place).write(broken())  # type: ignore[arg-type]
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_lake_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """The error is one of the lake's, with its path."""
    (tmp_path / "lake").write_text("a file, not a folder")
    writer = LakeWriter(Place(str(tmp_path / "lake")))
    with pytest.raises(LakeFailed, match=r"cannot write to .*lake"):
        writer.write(iter([_notifications([record(1)])]))


def test_an_empty_micro_batch_commits_nothing(place: Place) -> None:
    """Spark runs one now and then; no version of a table is made for it."""
    LakeWriter(place).settle([])
    LakeWriter(place).settle([TaskReport()])
    assert find(place, NOTIFICATIONS) is None
