"""Which files are opened, told from the table's log alone."""

from pathlib import Path

import pytest
from support.lake import BEGIN_NS, filled, record

from aviso_server.core.geometry import Area, Box
from aviso_server.lake.layout import Place
from aviso_server.lake.snapshot import EventTypeSnapshot, look
from aviso_server.lake.storage import LakeFailed
from aviso_server.lake.tombstones import append_tombstones
from aviso_server.pipeline.history.files import LakeScope, address, choose_files

DAY_NS = 86_400_000_000_000
SQUARE = ((0.0, 0.0), (0.0, 1.0), (1.0, 1.0), (1.0, 0.0), (0.0, 0.0))


def square(lat: float) -> Area:
    """One degree wide, north of a latitude, at the first meridian."""
    return Area.of(tuple((lat + north, east) for north, east in SQUARE))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Ten sequences a file: three without place on a day each, then three with one, further north
    each time."""
    place = Place(str(tmp_path / "lake"))
    for file in range(6):
        where = square(10.0 * file) if file >= 3 else None
        day = BEGIN_NS + file * DAY_NS
        rows = [
            record(10 * file + n, ns=day + n, geometry=where, identifier={"n": str(n)})
            for n in range(1, 11)
        ]
        filled(place, rows)
    return place


def numbers(place: Place, part: LakeScope, *, hidden: bool = False) -> list[int]:
    """The files chosen, counted from 0."""
    ours = look(place).of("mars")
    every = chosen(ours, LakeScope(), hidden=True)
    return [every.index(path) for path in chosen(ours, part, hidden=hidden)]


def chosen(ours: EventTypeSnapshot, part: LakeScope, *, hidden: bool = False) -> list[str]:
    """The paths of what is chosen."""
    files = choose_files(ours, part, hidden=hidden)
    return [] if files is None else list(files.paths.to_pylist())


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (LakeScope(), [0, 1, 2, 3, 4, 5]),
        (LakeScope(first=11, last=20), [1]),
        (LakeScope(first=20, last=21), [1, 2]),
        (LakeScope(first=61), []),
        (LakeScope(first=30, last=29), []),
        (LakeScope(since_ns=BEGIN_NS + 4 * DAY_NS), [4, 5]),
        (LakeScope(until_ns=BEGIN_NS + DAY_NS), [0]),
        (LakeScope(since_ns=BEGIN_NS + DAY_NS + 10, until_ns=BEGIN_NS + 2 * DAY_NS + 1), [1, 2]),
        (LakeScope(box=Box(40.5, 0.5, 40.6, 0.6)), [4]),
        (LakeScope(box=Box(-90, -180, 90, 180)), [3, 4, 5]),
        (LakeScope(box=Box(0, 50, 90, 60)), []),
        (LakeScope(last=40, box=Box(-90, -180, 90, 180)), [3]),
    ],
    ids=str,
)
def test_statistics_prune(place: Place, part: LakeScope, expected: list[int]) -> None:
    """Sequence, time and box decide; a file without any place is not opened for one."""
    assert numbers(place, part) == expected


def test_other_event_types_are_not_opened(place: Place) -> None:
    """Each has its own files."""
    filled(place, [record(1, "other")])
    assert len(chosen(look(place).of("other"), LakeScope())) == 1
    assert choose_files(look(place).of("nobody"), LakeScope()) is None


def test_files_of_hidden_rows_are_not_opened(place: Place) -> None:
    """A file of which every row asked for is deleted holds nothing, unless that is asked for."""
    append_tombstones(place, [("mars", 1, 19), ("mars", 33, 40)], kind="wiped")
    assert numbers(place, LakeScope()) == [1, 2, 3, 4, 5]
    assert numbers(place, LakeScope(first=33, last=45)) == [4]
    assert numbers(place, LakeScope(first=33, last=45), hidden=True) == [3, 4]


def test_a_lost_range_hides_nothing(place: Place) -> None:
    """It says what never came, not what is to be left out."""
    append_tombstones(place, [("mars", 1, 60)], kind="lost")
    assert len(numbers(place, LakeScope())) == 6


def test_no_lake_is_an_error(tmp_path: Path) -> None:
    """A path that is mistyped must not look like an empty history."""
    with pytest.raises(LakeFailed, match="there is no lake at"):
        look(Place(str(tmp_path / "nowhere")))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/a b/lake", "file:///a b/lake/notifications/x.parquet"),
        ("file:///lake/", "file:///lake/notifications/x.parquet"),
        ("/la{k}e*", "file:///la\\{k\\}e\\*/notifications/x.parquet"),
        ("s3://bucket/lake", "s3a://bucket/lake/notifications/x.parquet"),
        ("hdfs://name:1/lake", "hdfs://name:1/lake/notifications/x.parquet"),
    ],
)
def test_addresses(path: str, expected: str) -> None:
    """As Hadoop wants them, and never taken for patterns."""
    assert address(Place(path), "x.parquet") == expected


def test_a_shelf_is_of_one_version(place: Place) -> None:
    """Files and mark that were read do not change when the archive continues."""
    before: EventTypeSnapshot = look(place).of("mars")
    filled(place, [record(61)])
    assert (before.through, len(chosen(before, LakeScope()))) == (60, 6)
    assert (look(place).of("mars").through, len(numbers(place, LakeScope()))) == (61, 7)
