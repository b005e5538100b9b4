"""Writing files again and replacing them, without Spark."""

import contextlib
import threading
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.lake import at_once, filled, record, sequences, table_of

from aviso_server.core.filter import Filter
from aviso_server.core.geometry import Area
from aviso_server.core.notification import Entry
from aviso_server.core.spatial import Intersects
from aviso_server.lake import files as lake_files
from aviso_server.lake.commit import archived_through
from aviso_server.lake.inventory import Inventory, inventory
from aviso_server.lake.lake import Lake
from aviso_server.lake.layout import NOTIFICATIONS, Place
from aviso_server.lake.tombstones import Intervals
from aviso_server.pipeline.maintain import order
from aviso_server.pipeline.maintain import rewrite as module
from aviso_server.pipeline.maintain.plan import Rewrite
from aviso_server.pipeline.maintain.replace import Overtaken, replace_files
from aviso_server.pipeline.maintain.rewrite import Answer, Task, hidden_rows, rewrite_files


def _rows(place: Place) -> pa.Table:
    return table_of(place).to_pyarrow_table().sort_by("sequence")


def _task(files: Inventory, hidden: tuple[tuple[int, int], ...] = (), count: int = 0) -> Task:
    item = Rewrite(files[0].event_type, files[0].day, files, count)
    return Task(0, item, _intervals(hidden))


def _intervals(pairs: tuple[tuple[int, int], ...]) -> Intervals:
    both = np.array(pairs, np.int64).reshape(-1, 2)
    return Intervals(both[:, 0], both[:, 1])


def _lake(tmp_path: Path, *, each: int = 5, files: int = 4, name: str = "mars") -> Place:
    place = Place(str(tmp_path / "lake"))
    for n in range(files):
        filled(place, [record(i, name) for i in range(n * each + 1, (n + 1) * each + 1)])
    return place


def _square(lat: float, lon: float) -> Area:
    ring = ((0, 0), (0, 1), (1, 1), (1, 0), (0, 0))
    return Area.of(tuple((lat + north, lon + east) for north, east in ring))


def _replaced(place: Place, answer: Answer, files: Inventory) -> None:
    assert answer.problem is None
    replace_files(place, files, answer.written, data_change=False)


def test_rows_and_marks_are_the_same_after_a_rewrite(tmp_path: Path) -> None:
    """One larger file holds what several held, and how far the archive came is not forgotten."""
    place = _lake(tmp_path, name="a b%/é")
    before, files = _rows(place), inventory(table_of(place))
    _replaced(place, rewrite_files(place, _task(files)), files)
    assert _rows(place).equals(before)
    (file,) = inventory(table_of(place))
    assert (file.rows, file.first, file.last) == (20, 1, 20)
    assert archived_through(table_of(place), "a b%/é") == 20


def test_hidden_rows_are_counted_and_left_out(tmp_path: Path) -> None:
    """Deleted sequences are not in the new file; a range without rows costs nothing."""
    place = _lake(tmp_path, files=1)
    files = inventory(table_of(place))
    hidden = ((2, 3), (5, 9))
    assert hidden_rows(place, files[0], _intervals(hidden)) == 3
    assert hidden_rows(place, files[0], _intervals(((7, 9),))) == 0
    answer = rewrite_files(place, _task(files, hidden, 3))
    _replaced(place, answer, files)
    assert sequences(place) == [1, 4]


def test_an_append_meanwhile_does_not_matter(tmp_path: Path) -> None:
    """The archive job may commit at any moment; both commits hold."""
    place = _lake(tmp_path)
    files = inventory(table_of(place))
    answer = rewrite_files(place, _task(files))
    filled(place, [record(n) for n in range(21, 31)])
    _replaced(place, answer, files)
    assert sequences(place) == list(range(1, 31))
    assert archived_through(table_of(place), "mars") == 30


def test_of_two_that_replace_the_same_files_one_gives_up(tmp_path: Path) -> None:
    """Two jobs side by side double nothing, and other files are still theirs to replace."""
    place = _lake(tmp_path)
    files = inventory(table_of(place))
    first, again = rewrite_files(place, _task(files[:2])), rewrite_files(place, _task(files[1:3]))
    _replaced(place, first, files[:2])
    with pytest.raises(Overtaken):
        replace_files(place, files[1:3], again.written, data_change=False)
    _replaced(place, rewrite_files(place, _task(files[2:])), files[2:])
    assert sequences(place) == list(range(1, 21))


def test_jobs_side_by_side_keep_every_row_once(tmp_path: Path) -> None:
    """Two that compact what they find, and an archive that appends all the while."""
    place = _lake(tmp_path)
    ended = threading.Event()

    def append() -> None:
        for begin in range(21, 121, 5):
            filled(place, [record(n) for n in range(begin, begin + 5)])
        ended.set()

    def compact() -> None:
        last = False
        while not last:
            last = ended.is_set()
            files = inventory(table_of(place))
            answer = rewrite_files(place, _task(files))
            with contextlib.suppress(Overtaken):
                replace_files(place, files, answer.written, data_change=False)

    at_once(append, compact, compact)
    assert sequences(place) == list(range(1, 121))
    assert archived_through(table_of(place), "mars") == 120
    assert len(inventory(table_of(place))) < 10


def test_a_file_of_another_writer_is_replaced_too(tmp_path: Path) -> None:
    """Delta's own compaction names folders after the event type; its files are ours to replace."""
    place = _lake(tmp_path, name="a b%/é")
    table_of(place).optimize.compact()
    files = inventory(table_of(place))
    answer = rewrite_files(place, _task(files))
    _replaced(place, answer, files)
    assert [file.path for file in inventory(table_of(place))] == [answer.written[0].path]
    assert sequences(place, "a b%/é") == list(range(1, 21))


def test_a_file_that_cannot_be_read_leaves_nothing_behind(tmp_path: Path) -> None:
    """The answer names it, and no half-written file stays."""
    place = _lake(tmp_path)
    files = inventory(table_of(place))
    broken = tmp_path / "lake" / NOTIFICATIONS / files[2].name
    broken.write_bytes(b"not parquet at all")
    answer = rewrite_files(place, _task(files))
    assert answer.written == ()
    assert answer.problem is not None
    assert files[2].name in answer.problem
    assert len(list((tmp_path / "lake").rglob("*.parquet"))) == 4


def test_a_file_with_too_few_rows_is_not_replaced(tmp_path: Path) -> None:
    """What the table lists must be found, or nothing is done."""
    place = _lake(tmp_path, files=2)
    files = inventory(table_of(place))
    answer = rewrite_files(place, _task(files, hidden=((3, 3),), count=0))
    assert answer.problem == "9 rows were found where the table says 10"


def test_overlapping_files_come_out_in_order(tmp_path: Path) -> None:
    """Whatever was in whichever file, the new one is sorted by sequence."""
    place = _lake(tmp_path, files=1, each=9)
    files = inventory(table_of(place))
    odd = rewrite_files(place, _task(files, tuple((n, n) for n in range(2, 9, 2)), 4))
    even = rewrite_files(place, _task(files, tuple((n, n) for n in range(1, 10, 2)), 5))
    replace_files(place, files, odd.written + even.written, data_change=False)
    files = inventory(table_of(place))
    answer = rewrite_files(place, _task(files))
    _replaced(place, answer, files)
    assert table_of(place).to_pyarrow_table()["sequence"].to_pylist() == list(range(1, 10))


def test_places_are_neighbours_inside_a_block_only(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sorted by box, rows of a block follow the map, and blocks follow the sequence."""
    monkeypatch.setattr(module, "BLOCK", 20)
    corners = [(lat, lon) for lat in (-50.0, 50.0) for lon in (-100.0, 100.0)]
    areas = [_square(*corner) for corner in corners]
    filled(place, [record(n, geometry=areas[n % 4]) for n in range(1, 41)])
    files = inventory(table_of(place))
    answer = rewrite_files(place, Task(0, _task(files).rewrite, sort="box"))
    _replaced(place, answer, files)
    rows = table_of(place).to_pyarrow_table()
    there = rows["sequence"].to_pylist()
    assert sorted(there[:20]) == list(range(1, 21))
    for block in (there[:20], there[20:]):
        corner = [n % 4 for n in block]
        assert sum(one != other for one, other in pairwise(corner)) == 3


async def test_replays_read_rows_by_place_in_sequence_order(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the order in the file, pages come by sequence, and an area opens fewer groups."""
    monkeypatch.setattr(module, "BLOCK", 80)
    monkeypatch.setattr(lake_files, "ROWS_PER_GROUP", 10)
    areas = [_square(-60.0 + 15 * (n // 8), -170.0 + 40 * (n % 8)) for n in range(64)]
    records = [record(n, geometry=areas[n * 37 % 64]) for n in range(1, 251)]
    filled(place, records)
    files = inventory(table_of(place))
    answer = rewrite_files(place, Task(0, _task(files).rewrite, sort="box"))
    _replaced(place, answer, files)
    metadata = pq.ParquetFile(tmp_path / "lake" / NOTIFICATIONS / answer.written[0].path).metadata
    spans = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        edges = {
            column.path_in_schema: column.statistics
            for column in map(group.column, range(group.num_columns))
        }
        spans.append(edges["max_lat"].max - edges["min_lat"].min)
    assert sum(spans) / len(spans) < 70  # of 106 degrees
    lake = Lake(place)
    try:
        found: list[Entry] = []
        following = 1
        while following <= 250:
            piece = await lake.read("mars", following, 250, limit=33)
            found += piece.entries
            following = piece.following
        assert found == records
        wanted = Filter(spatial=Intersects(areas[5]))
        near = await lake.read("mars", 1, 250, limit=250, wanted=wanted)
        assert near.entries == wanted.select(records) != []
    finally:
        await lake.close()


@given(st.lists(st.integers(0, 255), min_size=256, max_size=256, unique=True))
def test_the_curve_visits_every_cell_once_and_never_jumps(cells: list[int]) -> None:
    """Neighbours on the curve are neighbours on the map."""
    patch = pytest.MonkeyPatch()
    with patch.context() as context:
        context.setattr(order, "_BITS", 4)
        row, column = np.divmod(np.array(cells), 16)
        key = order.curve((row + 0.5) * 180 / 16 - 90, (column + 0.5) * 360 / 16 - 180)
    assert sorted(key.tolist()) == list(range(256))
    way = np.argsort(key)
    assert (np.abs(np.diff(row[way])) + np.abs(np.diff(column[way]))).max() == 1


def test_rows_without_a_place_come_last() -> None:
    """They have no point on the curve."""
    key = order.curve(np.array([np.nan, 90.0]), np.array([0.0, 179.9]))
    assert key[0] > key[1]
