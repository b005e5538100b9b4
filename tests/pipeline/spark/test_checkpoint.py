"""Checkpoints that Spark would refuse, on a disk and in an object store; without Spark."""

import shutil
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow.fs import FileSelector
from support.s3 import object_store

from aviso_server.lake.layout import NOTIFICATIONS, Place
from aviso_server.lake.storage import files
from aviso_server.pipeline.spark.checkpoint import KEPT, Checkpoint

LAST = 3


def make(folder: Path) -> None:
    """A checkpoint as Spark leaves it, the last micro-batch not yet done."""
    for name, count in (("offsets", LAST + 1), ("commits", LAST)):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            (folder / name / str(number)).write_text('v1\n{"batchTimestampMs":1}\n{"ev":7}')
            (folder / name / f".{number}.crc").write_bytes(b"crc")
    (folder / "metadata").write_text('{"id":"95e2195e"}')


def _remove(folder: Path, *names: int) -> None:
    """These files of a folder, or all."""
    for path in list(folder.iterdir()):
        if not names or path.name in map(str, names):
            path.unlink()


def _before_its_first_offset(folder: Path) -> None:
    shutil.rmtree(folder / "commits")
    _remove(folder / "offsets")


def _killed_at_its_first_offset(folder: Path) -> None:
    _before_its_first_offset(folder)
    (folder / "offsets" / ".0.95e2195e.tmp").touch()


SOUND: dict[str, Callable[[Path], object]] = {
    "as Spark leaves it": lambda _: None,
    "an unfinished commit": lambda at: (at / "commits" / f".{LAST}.1.tmp").touch(),
    "an unfinished offset": lambda at: (at / "offsets" / f".{LAST + 1}.1.tmp").touch(),
    "no commits": lambda at: shutil.rmtree(at / "commits"),
    "no offset yet": _before_its_first_offset,
    "nothing": shutil.rmtree,
    "a source without offset": lambda at: (at / "offsets" / str(LAST)).write_text("v1\n{}\n-"),
}

REFUSED: dict[str, Callable[[Path], object]] = {
    "killed at its first offset": _killed_at_its_first_offset,
    "no offsets": lambda at: shutil.rmtree(at / "offsets"),
    "offsets are gone": lambda at: _remove(at / "offsets", LAST, LAST - 1),
    "an empty offset": lambda at: (at / "offsets" / str(LAST)).write_text(""),
    "an offset cut short": lambda at: (at / "offsets" / str(LAST)).write_text('v1\n{"batch'),
    "an offset of zeros": lambda at: (at / "offsets" / str(LAST - 1)).write_bytes(bytes(90)),
    "an empty commit": lambda at: (at / "commits" / str(LAST - 1)).write_text(""),
    "no metadata": lambda at: (at / "metadata").unlink(),
    "empty metadata": lambda at: (at / "metadata").write_text(""),
}


@pytest.mark.parametrize("damage", SOUND.values(), ids=SOUND)
def test_what_spark_can_go_on_with_stays(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    """Where it is, as it is."""
    place = tmp_path / "rates"
    make(place)
    damage(place)
    before = sorted(tmp_path.rglob("*"))
    assert Checkpoint(str(place)).repair() is None
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("damage", REFUSED.values(), ids=REFUSED)
def test_what_spark_would_refuse_is_set_aside(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    """With all that is in it, and once."""
    place = tmp_path / "rates"
    make(place)
    damage(place)
    inside = sorted(path.relative_to(place) for path in place.rglob("*"))
    done = Checkpoint(f"{place}/").repair()
    assert done is not None
    assert f"is set aside as {place}.refused-1: " in done
    assert not place.exists()
    aside = tmp_path / "rates.refused-1"
    assert sorted(path.relative_to(aside) for path in aside.rglob("*")) == inside
    assert Checkpoint(str(place)).repair() is None


def test_a_few_are_kept(tmp_path: Path) -> None:
    """The newest; others beside them are not ours."""
    place = tmp_path / "rates"
    (tmp_path / "rates.refused-by-hand").mkdir()
    for number in range(1, 12):
        make(place)
        done = Checkpoint(str(place)).set_aside("whatever Spark said")
        assert done is not None
        assert done.endswith(f"rates.refused-{number}: whatever Spark said")
    kept = [f"rates.refused-{n}" for n in range(12 - KEPT, 12)]
    assert {item.name for item in tmp_path.iterdir()} == {*kept, "rates.refused-by-hand"}
    assert Checkpoint(str(place)).set_aside("nothing is there") is None


def test_what_cannot_be_looked_at_is_left_to_spark(tmp_path: Path) -> None:
    """A file in its place, a store that is away, an address that only Spark knows."""
    (tmp_path / "file").touch()
    away = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ALLOW_HTTP": "true", "max_retries": "0"}
    for checkpoint in (
        Checkpoint(str(tmp_path / "file")),
        Checkpoint(str(tmp_path / "nothing" / "deep")),
        Checkpoint("s3://bucket/checkpoints/archive", away),
        Checkpoint("nobody://knows/checkpoints/archive"),
    ):
        assert checkpoint.repair() is checkpoint.set_aside("") is None


def test_in_an_object_store(tmp_path: Path) -> None:
    """There are no folders there: every file gets another name."""
    make(tmp_path / "archive")
    _killed_at_its_first_offset(tmp_path / "archive")
    with object_store() as place:
        for path in sorted((tmp_path / "archive").rglob("*")):
            if path.is_file():
                _put(place, str(path.relative_to(tmp_path)), path.read_bytes())
        checkpoint = Checkpoint(f"{place.table(NOTIFICATIONS)}/archive", place.options)
        for number in range(1, KEPT + 2):
            done = checkpoint.repair() or checkpoint.set_aside("again")
            assert done is not None
            assert f"archive.refused-{number}: " in done
            _put(place, "archive/metadata", b"{}")
        names = {path.partition("/")[0] for path in _paths(place)}
        assert names == {"archive", *(f"archive.refused-{n}" for n in range(2, KEPT + 2))}


def _put(place: Place, path: str, data: bytes) -> None:
    key = f"{place.table(NOTIFICATIONS).removeprefix('s3:/')}/{path}"
    address = f"{place.options['AWS_ENDPOINT_URL']}{key}"
    asked = urllib.request.Request(address, data=data, method="PUT")  # noqa: S310 - our own server
    with urllib.request.urlopen(asked, timeout=30):  # noqa: S310
        pass


def _paths(place: Place) -> list[str]:
    found = files(place, NOTIFICATIONS).get_file_info(FileSelector("", recursive=True))
    return [info.path for info in found if info.is_file]
