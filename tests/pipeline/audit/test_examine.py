"""Examining files of the lake, without Spark."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.lake import filled, record, table_of

from aviso_server.core.geometry import Area
from aviso_server.lake import files
from aviso_server.lake.inventory import TableFile, inventory
from aviso_server.lake.layout import NOTIFICATIONS, Place
from aviso_server.pipeline.audit.examine import Exam, examine_file, examine_letters

SQUARE = Area.of(((0.0, 0.0), (0.0, 2.0), (2.0, 2.0), (2.0, 0.0), (0.0, 0.0)))


def _lake(folder: Path, sequences: range = range(1, 41)) -> tuple[Place, TableFile, Path]:
    place = Place(str(folder))
    made = [
        record(n, identifier={"n": str(n)}, geometry=SQUARE if n % 2 else None) for n in sequences
    ]
    filled(place, made)
    (file,) = inventory(table_of(place))
    return place, file, folder / NOTIFICATIONS / file.name


def _told(place: Place, file: TableFile) -> list[tuple[str, int, int, str]]:
    """Evidence without contents."""
    rows = examine_file(place, Exam(file, hash_from=1, places=True))
    names = ("what", "first", "last", "text")
    return list(zip(*(rows.column(name).to_pylist() for name in names), strict=True))


def _kinds(place: Place, file: TableFile) -> list[tuple[str, int, int]]:
    return [(what, first, last) for what, first, last, _ in _told(place, file)]


def test_a_sound_file_is_one_run(tmp_path: Path) -> None:
    """With a number for each content and the times at its ends."""
    place, file, _ = _lake(tmp_path)
    rows = examine_file(place, Exam(file, hash_from=1, places=True)).to_pylist()
    assert [(row["what"], row["first"], row["last"]) for row in rows] == [("lake", 1, 40)]
    assert len(rows[0]["hashes"]) == 40 * 8
    assert (rows[0]["begin_ns"], rows[0]["end_ns"]) == (file.since_ns, file.until_ns)


def test_a_missing_file_is_named_with_its_sequences(tmp_path: Path) -> None:
    """The examination goes on with others."""
    place, file, path = _lake(tmp_path)
    path.unlink()
    found = _told(place, file)
    assert [row[:3] for row in found] == [("file", 1, 40), ("unread", 1, 40)]
    assert found[0][3] == f"{file.name}: the file is missing"


def test_a_broken_row_group_costs_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of the file is read, and what is not is named."""
    monkeypatch.setattr(files, "ROWS_PER_GROUP", 10)
    place, file, path = _lake(tmp_path)
    group = pq.ParquetFile(path).metadata.row_group(2)
    data = bytearray(path.read_bytes())
    column = group.column(group.num_columns - 1)
    begin = column.dictionary_page_offset or column.data_page_offset
    data[begin + column.total_compressed_size - 1] ^= 1
    path.write_bytes(data)
    assert sorted(_kinds(place, file)) == [
        ("file", 21, 30),
        ("lake", 1, 20),
        ("lake", 31, 40),
        ("unread", 21, 30),
    ]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, TableFile, bytes]:
    """A file as it was written."""
    place, file, path = _lake(tmp_path_factory.mktemp("lake"))
    return place, file, path.read_bytes()


@given(st.data())
def test_no_flipped_bit_goes_unnoticed(
    sound: tuple[Place, TableFile, bytes], data: st.DataObject
) -> None:
    """Either it is found, or no row is any different for it."""
    place, file, content = sound
    exam = Exam(file, hash_from=1, places=True)
    path = Path(place.table(NOTIFICATIONS)) / file.name
    path.write_bytes(content)
    clean = examine_file(place, exam)
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    broken = bytearray(content)
    broken[bit // 8] ^= 1 << bit % 8
    path.write_bytes(broken)
    seen = examine_file(place, exam)
    what = set(seen.column("what").to_pylist())
    assert what & {"file", "row", "statistics", "time"} or seen.equals(clean)


def test_a_file_that_the_log_describes_wrongly_is_found(tmp_path: Path) -> None:
    """Readers trust the statistics: rows outside of them would never be read."""
    place, file, _ = _lake(tmp_path)
    assert ("statistics", 31, 40) in _kinds(place, replace(file, last=30))
    assert ("statistics", 1, 1) in _kinds(place, replace(file, since_ns=(file.since_ns or 0) + 1))
    narrow = (0.0, 0.0, 2.0, 1.0)
    found = [row for row in _kinds(place, replace(file, box=narrow)) if row[0] == "statistics"]
    assert found == [("statistics", n, n) for n in range(1, 41, 2)]
    assert ("statistics", 1, 40) in _kinds(place, replace(file, rows=41))
    other = _told(place, replace(file, size=file.size + 1))
    assert [row[:3] for row in other if row[0] == "row"] == [("row", 1, 40)]


def test_rows_that_contradict_themselves_are_found(tmp_path: Path) -> None:
    """Id, time, day and box follow from the rest of a row."""
    place, file, path = _lake(tmp_path)
    table = pq.read_table(path, partitioning=None)

    def changed(name: str, row: int, value: object) -> None:
        values = table[name].to_pylist()
        values[row] = value
        other = table.set_column(
            table.schema.get_field_index(name),
            table.schema.field(name),
            pa.array(values, table.schema.field(name).type),
        )
        pq.write_table(other, path)

    same_size = replace(file, size=0)
    wrong: dict[str, tuple[int, object, str]] = {
        "id": (4, "mars@6", "its id is not its event type and sequence"),
        "time_ns": (39, table["time_ns"][39].as_py() + 5000, "its time is not its time_ns"),
        "max_lat": (2, 1.5, "its box is not that of its geometry"),
        "geometry": (6, b"nonsense", "its box is not that of its geometry"),
    }
    for name, (row, value, text) in wrong.items():
        changed(name, row, value)
        told = [item for item in _told(place, same_size) if item[0] == "row" and text in item[3]]
        assert [item[1:3] for item in told] == [(row + 1, row + 1)], name
    pq.write_table(table, path)
    moved = replace(file, day=file.day + timedelta(days=1))
    assert any("day" in text for what, *_, text in _told(place, moved) if what == "row")


def test_time_that_goes_back_inside_a_file_is_found(place: Place) -> None:
    """Sequences and times ascend together."""
    times = [10, 30, 20, 40]
    filled(place, [record(n, ns=10**18 + at) for n, at in enumerate(times, 1)])
    table = table_of(place)
    assert ("time", 3, 3) in _kinds(place, inventory(table)[0])


def test_letters_that_cannot_be_read_belong_to_nobody(tmp_path: Path) -> None:
    """They are named all the same."""
    (tmp_path / "dead_letters").mkdir()
    (tmp_path / "dead_letters" / "x.parquet").write_bytes(b"garbage")
    (batch,) = examine_letters(Place(str(tmp_path)), "x.parquet")
    (row,) = batch.to_pylist()
    assert (row["event_type"], row["what"]) == ("", "file")
    assert row["text"].startswith("dead_letters/x.parquet: ")
