"""Upkeep of typed tables: what is gone from the lake goes, and many small files become few."""

from pathlib import Path

import pytest
from support.lake import BEGIN_NS, filled, record, table_of
from support.typed import updated

from aviso_server.core.fields.number import IntField
from aviso_server.core.schema import Schema
from aviso_server.lake.inventory import inventory
from aviso_server.lake.layout import Place
from aviso_server.lake.marks import read_mark
from aviso_server.lake.snapshot import look
from aviso_server.lake.tombstones import append_tombstones
from aviso_server.lake.typed import upkeep
from aviso_server.lake.typed.table import table_name
from aviso_server.lake.typed.upkeep import Tidied, tidy_table
from aviso_server.pipeline.maintain.replace import replace_files

MARS = Schema("mars", (IntField(name="step", required=False),), base="mars")
DAY_NS = 86_400_000_000_000


def _tidied(place: Place) -> Tidied:
    return tidy_table(place, MARS, look(place).of("mars"))


def _rows(place: Place) -> list[int]:
    table = table_of(place, table_name("mars"))
    return sorted(table.to_pyarrow_table()["sequence"].to_pylist())


def _commits(place: Place, count: int) -> None:
    for first in range(1, count * 3, 3):
        filled(place, [record(n, identifier={"step": str(-n)}) for n in range(first, first + 3)])
        updated(place, MARS)


def test_small_files_are_merged_in_order(place: Place) -> None:
    """One file with all rows, sorted again; the mark stays, and nothing is left to do."""
    _commits(place, 9)
    assert _tidied(place) == Tidied(merged=9)
    table = table_of(place, table_name("mars"))
    assert len(table.file_uris()) == 1
    assert table.to_pyarrow_table()["step"].to_pylist() == list(range(-27, 0))
    assert read_mark(table, "mars").through == 27
    assert _tidied(place) == Tidied()
    assert updated(place, MARS).rows == 0


def test_hidden_rows_leave_the_files(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleted at the edges and in the middle of files; each set of tombstones is applied once."""
    _commits(place, 4)
    append_tombstones(place, [("mars", 2, 2), ("mars", 4, 4), ("mars", 9, 30)], kind="deleted")
    assert _tidied(place) == Tidied(removed=6)
    assert _rows(place) == [1, 3, 5, 6, 7, 8]
    version = table_of(place, table_name("mars")).version()
    assert _tidied(place) == Tidied()
    assert table_of(place, table_name("mars")).version() == version
    monkeypatch.setattr(upkeep, "MOST_REWRITES", 1)
    append_tombstones(place, [("mars", 1, 1), ("mars", 5, 5)], kind="wiped")
    assert (_tidied(place), _tidied(place), _tidied(place)) == (
        Tidied(removed=1),
        Tidied(removed=1),
        Tidied(),
    )
    assert _rows(place) == [3, 6, 7, 8]


def test_expired_days_are_removed(place: Place) -> None:
    """What retention took from the lake is taken from the table, a day at a time."""
    for day in range(3):
        filled(place, [record(day + 1, ns=BEGIN_NS + day * DAY_NS)])
    updated(place, MARS)
    replace_files(place, inventory(table_of(place))[:1], (), data_change=True)
    assert _tidied(place) == Tidied(removed=1)
    assert _rows(place) == [2, 3]
    replace_files(place, inventory(table_of(place)), (), data_change=True)
    assert _tidied(place) == Tidied(removed=2)
    assert _rows(place) == []


def test_merging_drops_what_is_hidden_meanwhile(place: Place, tmp_path: Path) -> None:
    """A merge never brings a hidden row back, and leaves only files that the table refers to."""
    _commits(place, 9)
    seen = look(place).of("mars")
    append_tombstones(place, [("mars", 5, 6)], kind="deleted")
    tidy_table(place, MARS, seen)
    assert _tidied(place) == Tidied(removed=2)
    assert _rows(place) == [n for n in range(1, 28) if n not in (5, 6)]
