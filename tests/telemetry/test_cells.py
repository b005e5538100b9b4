"""Cells: numbers that outlive the process that counts them (decision 0008)."""

import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from aviso_server.telemetry.cells import CAPACITY, CellKey, Cells, read

_LABELS = st.lists(st.text(max_size=8), max_size=3).map(tuple)


@given(st.dictionaries(st.tuples(st.text(min_size=1, max_size=8), _LABELS), st.floats(0, 1e9)))
def test_what_is_written_is_read(written: dict[tuple[str, tuple[str, ...]], float]) -> None:
    """A snapshot has every claim with its value, whatever the labels are."""
    cells = Cells.private()
    for (name, labels), value in written.items():
        cells.values[cells.claim(name, labels)] = value
    assert cells.snapshot() == {CellKey(*key): (value,) for key, value in written.items()}


def test_a_reader_sees_what_another_process_counts(tmp_path: Path) -> None:
    """A folder is read like the cells themselves, odd labels and all."""
    folder = tmp_path / "one"
    assert read(folder) == {}
    cells = Cells.shared(folder)
    at = cells.claim("wide", ("a\nb", 'ü"'), 3)
    cells.values[at + 2] = 2.5
    cells.values[cells.claim("plain")] += 1
    assert read(folder) == cells.snapshot()
    assert read(folder)[CellKey("wide", ("a\nb", 'ü"'))] == (0.0, 0.0, 2.5)


def test_nothing_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    """What was counted before ``kill -9`` is in the file: no flush, no goodbye."""
    script = """
import os, signal, sys
from pathlib import Path
from aviso_server.telemetry.cells import Cells
cells = Cells.shared(Path(sys.argv[1]))
at = cells.claim("counted")
for _ in range(12345):
    cells.values[at] += 1
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "one")], check=False)
    assert done.returncode == -9
    assert read(tmp_path / "one") == {CellKey("counted", ()): (12345.0,)}


def test_half_a_name_is_no_name(tmp_path: Path) -> None:
    """A process killed while it claimed leaves the beginning of a line, which is ignored."""
    cells = Cells.shared(tmp_path / "one")
    cells.claim("whole")
    with (tmp_path / "one" / "names").open("ab") as names:
        names.write(b'["hal')
    assert read(tmp_path / "one") == {CellKey("whole", ()): (0.0,)}


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    """Labels may hold user names: the files are private."""
    Cells.shared(tmp_path / "one")
    for path in (tmp_path / "one", *(tmp_path / "one").iterdir()):
        assert path.stat().st_mode & 0o077 == 0


def test_what_finds_no_room_is_not_shown() -> None:
    """A full process goes on, and counts what it already has; new claims share unseen cells."""
    cells = Cells.private()
    for number in range(CAPACITY // 16):
        cells.claim(str(number), width=16)
    before = cells.snapshot()
    at = cells.claim("late", width=16)
    cells.values[at + 15] += 1
    assert cells.snapshot() == before
