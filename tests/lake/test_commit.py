"""Commits to the lake: each sequence once, whoever commits and however often."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st
from support.lake import at_once, filled, record, sequences, table_of

from aviso_server.lake import files
from aviso_server.lake.commit import archived_through, commit
from aviso_server.lake.files import FileWriter
from aviso_server.lake.layout import NOTIFICATIONS, Place
from aviso_server.lake.record import records_to_batch
from aviso_server.lake.table import ensure

DAY_NS = 86_400_000_000_000


def _rows(place: Place) -> pa.Table:
    table = table_of(place)
    return table.to_pyarrow_table().sort_by(
        [("event_type", "ascending"), ("sequence", "ascending")]
    )


def test_rows_and_marks_become_visible_together(place: Place) -> None:
    """A commit adds rows and says how far the log was considered, holes included."""
    filled(place, [record(n, "mars") for n in (1, 2, 5)], marks={"mars": 7, "empty": 3})
    table = table_of(place)
    assert archived_through(table, "mars") == 7
    assert archived_through(table, "empty") == 3
    assert archived_through(table, "never") == 0
    assert sequences(place) == [1, 2, 5]


def test_a_batch_tried_twice_lands_once_and_leaves_no_files(place: Place, tmp_path: Path) -> None:
    """What is there already is not added, and the files of the second try are removed."""
    records = [record(n, "mars") for n in range(1, 6)]
    assert filled(place, records).rows == 5
    assert filled(place, records).rows == 0
    assert sequences(place) == [1, 2, 3, 4, 5]
    assert len(list((tmp_path / "lake").rglob("*.parquet"))) == 1


def test_days_and_event_types_are_partitions(place: Place, tmp_path: Path) -> None:
    """Files are cut at midnight UTC, and any name can be an event type."""
    names = ["mars", "été/../x y%", "a=b"]
    records = [record(n, name, ns=DAY_NS * 20_000 - 2 + n) for name in names for n in (1, 2, 3)]
    filled(place, records)
    rows = _rows(place)
    assert sorted(set(rows["event_type"].to_pylist())) == sorted(names)
    assert [str(day) for day in rows["day"].to_pylist()] == ["2024-10-03", *["2024-10-04"] * 2] * 3
    assert all(path.is_relative_to(tmp_path / "lake") for path in tmp_path.rglob("*.parquet"))
    assert sum(1 for _ in (tmp_path / "lake" / NOTIFICATIONS).rglob("*.parquet")) == 6


def test_statistics_hold_every_row(place: Place) -> None:
    """Files say which sequences, times and places they hold, never too narrowly."""
    filled(place, [record(n, "mars", ns=1_700_000_000_123_456_789 + n) for n in range(1, 4)])
    table = DeltaTable(place.table(NOTIFICATIONS))
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    assert [(a["num_records"], a["min.sequence"], a["max.sequence"]) for a in actions] == [
        (3, 1, 3)
    ]
    assert actions[0]["min.time_ns"] == 1_700_000_000_123_456_790
    times = _rows(place)["time"].to_pylist()
    assert actions[0]["min.time"] <= min(times) <= max(times) <= actions[0]["max.time"]


def test_a_clock_that_steps_back_over_midnight(place: Place) -> None:
    """Each row is in the day of its own time, though first and last are of one day."""
    midnight = DAY_NS * 20_000
    times = [midnight - 2, midnight + 1, midnight - 1, midnight + 2, midnight - 1]
    filled(place, [record(n, "mars", ns=ns) for n, ns in enumerate(times, 1)])
    rows = _rows(place)
    assert rows["sequence"].to_pylist() == [1, 2, 3, 4, 5]
    assert rows["day"].to_pylist() == [time.date() for time in rows["time"].to_pylist()]


@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(st.sampled_from(["mars", "diss"]), st.integers(0, 20), st.integers(1, 20)),
        max_size=5,
    )
)
def test_overlapping_batches_add_each_sequence_once(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[str, int, int]]
) -> None:
    """Whatever ranges are archived again, the table has each sequence up to its mark once."""
    place = Place(str(tmp_path_factory.mktemp("lake")))
    reached: dict[str, int] = {}
    for name, first, count in batches:
        begin = min(first, reached.get(name, 0)) + 1  # the log is read without holes
        filled(place, [record(n, name) for n in range(begin, begin + count)])
        reached[name] = max(reached.get(name, 0), begin + count - 1)
    for name, last in reached.items():
        assert sequences(place, name) == list(range(1, last + 1))


def test_two_writers_at_once_add_each_sequence_once(place: Place) -> None:
    """Jobs that run side by side by mistake do not double anything."""
    filled(place, [record(1, "mars")])

    def work() -> None:
        for last in range(2, 12):
            filled(place, [record(n, "mars") for n in range(2, last + 1)])

    at_once(*[work] * 4)
    assert sequences(place) == list(range(1, 12))


def test_writers_that_come_first_together_make_one_table(tmp_path: Path) -> None:
    """A table that another process is just making is no error."""
    for number in range(5):
        place = Place(str(tmp_path / f"lake{number}"))
        made: list[int] = []

        def work(place: Place = place, made: list[int] = made) -> None:
            made.append(ensure(place, NOTIFICATIONS).version())

        at_once(*[work] * 4)
        assert made == [0] * 4


def test_long_files_are_cut_into_groups(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers can take a part of a file."""
    monkeypatch.setattr(files, "ROWS_PER_GROUP", 10)
    monkeypatch.setattr(files, "ROWS_PER_FILE", 50)
    writer = FileWriter(place)
    for begin in range(1, 120, 7):
        writer.write(records_to_batch([record(n, "mars") for n in range(begin, begin + 7)]))
    written = writer.close()
    assert [(item.first, item.last, item.rows) for item in written] == [
        (1, 56, 56),
        (57, 112, 56),
        (113, 119, 7),
    ]
    whole = pq.ParquetFile(tmp_path / "lake" / NOTIFICATIONS / written[0].path)
    assert [whole.metadata.row_group(n).num_rows for n in range(6)] == [10, 10, 10, 10, 10, 6]
    commit(place, written, {"mars": 119})
    assert sequences(place) == list(range(1, 120))


def test_heavy_rows_make_small_groups(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a reader must hold at once is bounded in bytes too."""
    monkeypatch.setattr(files, "BYTES_PER_GROUP", 5000)
    writer = FileWriter(place)
    heavy = [record(n, identifier={"a": "x" * 900}) for n in range(1, 41)]
    writer.write(records_to_batch(heavy[:30]))
    writer.write(records_to_batch(heavy[30:]))
    (written,) = writer.close()
    whole = pq.ParquetFile(tmp_path / "lake" / NOTIFICATIONS / written.path)
    sizes = [whole.metadata.row_group(n).num_rows for n in range(whole.num_row_groups)]
    assert sum(sizes) == 40
    assert max(sizes) <= 5
    commit(place, [written], {"mars": 40})
    assert sequences(place) == list(range(1, 41))


def test_discarded_files_are_gone(tmp_path: Path) -> None:
    """A task that fails leaves nothing behind."""
    writer = FileWriter(Place(str(tmp_path / "lake")))
    writer.write(records_to_batch([record(1, "mars")]))
    writer.discard()
    assert list(tmp_path.rglob("*.parquet")) == []
