"""Typed tables follow the lake: each row once, with the values of core, for every reader."""

import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from support.fuzz import examples
from support.lake import at_once, everything, filled, record, table_of
from support.typed import Drawn, event_types, evolved, expected, updated

from aviso_server.core.fields.field import Field
from aviso_server.core.fields.number import FloatField, IntField
from aviso_server.core.fields.text import StringField
from aviso_server.core.notification import Record
from aviso_server.core.schema import Schema
from aviso_server.lake.lake import Lake
from aviso_server.lake.layout import Place
from aviso_server.lake.marks import read_mark
from aviso_server.lake.storage import LakeFailed
from aviso_server.lake.tombstones import append_tombstones
from aviso_server.lake.typed import commit, update
from aviso_server.lake.typed.columns import columns_of
from aviso_server.lake.typed.table import event_type_of, table_name, table_names

STEP = IntField(name="step", required=False, description="Hours since the base time")
MARS = Schema("mars", (STEP,), base="mars")


def _steps(first: int, last: int, text: str = "{}") -> list[Record]:
    return [record(n, identifier={"step": text.format(n)}) for n in range(first, last + 1)]


def _table(place: Place, name: str = "mars") -> DeltaTable:
    return table_of(place, table_name(name))


def _rows(place: Place, name: str = "mars") -> list[dict[str, object]]:
    rows: list[dict[str, object]] = _table(place, name).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: str(row["sequence"]).zfill(20))


def _column(place: Place, column: str) -> list[object]:
    return [row[column] for row in _rows(place)]


@settings(max_examples=examples(20))
@given(event_types())
async def test_every_reader_sees_the_values_of_a_replay(
    tmp_path_factory: pytest.TempPathFactory, drawn: Drawn
) -> None:
    """pyarrow, pandas, Polars and DuckDB agree with the notifications that a replay of the lake
    gives, whatever the event type, including texts of an older schema."""
    place = Place(str(tmp_path_factory.mktemp("lake")))
    schema, name = drawn.schema, drawn.schema.event_type
    filled(place, drawn.records, marks={name: 1000})
    done = updated(place, schema)
    assert (done.through, done.rows) == (1000, len(drawn.records))
    lake = Lake(place)
    replayed = [entry for entry in await everything(lake, name) if isinstance(entry, Record)]
    await lake.close()
    table, columns = _table(place, name), columns_of(schema)
    wanted = expected(replayed, columns)
    assert {f.name: f.type.type for f in table.schema().fields} == {
        column.name: column.type for column in columns
    }
    assert _rows(place, name) == wanted
    whole = table.to_pyarrow_dataset()
    readers: list[Callable[[], pa.Table]] = [
        lambda: duckdb.from_arrow(whole).order("sequence").to_arrow_table(),
        lambda: pl.read_delta(str(table.table_uri)).sort("sequence").to_arrow(),
        lambda: pa.Table.from_pandas(
            table.to_pyarrow_table().to_pandas(integer_object_nulls=True), schema=whole.schema
        ).sort_by("sequence"),
    ]
    for read in readers:
        assert read().select(whole.schema.names).cast(whole.schema).to_pylist() == wanted
    _statistics_hold(table)
    for column in columns:
        if column.field is not None:
            texts = sum(column.field in item.notification.identifier for item in replayed)
            fit = sum(row[column.name] is not None for row in wanted)
            assert done.unfit[column.name] == texts - fit


def _statistics_hold(table: DeltaTable) -> None:
    """No value of any column is outside what its file says, however long or odd the text is."""
    for file in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        rows = pq.read_table(f"{table.table_uri}/{file['path']}", partitioning=None)
        assert file["num_records"] == rows.num_rows
        for name in rows.column_names:
            values = [value for value in rows[name].to_pylist() if value is not None]
            assert file[f"null_count.{name}"] == rows.num_rows - len(values)
            if values and name not in ("payload", "geometry"):
                assert file[f"min.{name}"] <= min(values)
                assert max(values) <= file[f"max.{name}"]


def test_only_what_is_new_is_added(place: Place) -> None:
    """A table follows the lake; its mark is that of the lake, holes and empty commits included."""
    filled(place, _steps(1, 5), marks={"mars": 9})
    assert updated(place, MARS).rows == 5
    version = _table(place).version()
    assert (updated(place, MARS).rows, _table(place).version()) == (0, version)
    filled(place, _steps(10, 12))
    filled(place, [], marks={"mars": 20})
    done = updated(place, MARS)
    assert (done.rows, done.through) == (3, 20)
    assert read_mark(_table(place), "mars").through == 20
    assert _column(place, "step") == [1, 2, 3, 4, 5, 10, 11, 12]


def test_bounded_steps(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much there is, a step holds only so much of it, by rows and by bytes."""
    for first in range(1, 60, 10):
        filled(place, _steps(first, first + 9))
    monkeypatch.setattr("aviso_server.lake.reader.ROWS", 5)
    monkeypatch.setattr(update, "ROWS_PER_STEP", 15)
    assert updated(place, MARS).files == 3
    shutil.rmtree(Path(place.table(table_name("mars"))))
    monkeypatch.setattr(update, "BYTES_PER_STEP", 10)
    assert updated(place, MARS).files == 6
    assert _column(place, "sequence") == list(range(1, 61))


def test_two_writers_at_once_add_each_sequence_once(place: Place) -> None:
    """Jobs that run side by side by mistake do not duplicate anything, and leave no files."""
    for first in range(1, 20, 5):
        filled(place, _steps(first, first + 4))
        at_once(*[lambda: updated(place, MARS)] * 3)
    assert _column(place, "sequence") == list(range(1, 21))
    there = len(list(Path(place.table(table_name("mars"))).rglob("*.parquet")))
    assert there == len(_table(place).file_uris())


def test_killed_between_file_and_commit(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written and not committed is not seen, and is done again."""
    filled(place, _steps(1, 5))

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(commit, "settle", die)
        with pytest.raises(KeyboardInterrupt):
            updated(place, MARS)
    assert _rows(place) == []
    assert updated(place, MARS).rows == 5
    assert _column(place, "step") == [1, 2, 3, 4, 5]


def test_a_table_is_made_again_from_nothing(place: Place) -> None:
    """Removing its folder is all that is needed to have it anew."""
    filled(place, _steps(1, 9))
    updated(place, MARS)
    before = _rows(place)
    shutil.rmtree(Path(place.table(table_name("mars"))))
    assert updated(place, MARS).rows == 9
    assert _rows(place) == before


def test_another_history_is_refused(place: Place, tmp_path: Path) -> None:
    """A table of a lake that was replaced since is not continued: its rows would be of two logs."""
    filled(place, _steps(1, 5))
    updated(place, MARS)
    other = Place(str(tmp_path / "other"))
    filled(other, [record(n, ns=n) for n in range(1, 8)])
    shutil.move(Path(place.table(table_name("mars"))), Path(other.table(table_name("mars"))))
    with pytest.raises(LakeFailed, match="another history"):
        updated(other, MARS)
    older = Place(str(tmp_path / "older"))
    filled(older, _steps(1, 3))
    shutil.move(Path(other.table(table_name("mars"))), Path(older.table(table_name("mars"))))
    with pytest.raises(LakeFailed, match="remove this folder"):
        updated(older, MARS)


def test_hidden_rows_are_not_added(place: Place) -> None:
    """What is deleted before the table is made is never in it."""
    filled(place, _steps(1, 9))
    append_tombstones(place, [("mars", 2, 4), ("mars", 9, 9)], kind="deleted")
    append_tombstones(place, [("mars", 5, 5)], kind="lost")
    assert updated(place, MARS).rows == 5
    assert _column(place, "sequence") == [1, 5, 6, 7, 8]


EVOLUTION: dict[str, tuple[tuple[Field, ...], dict[str, object]]] = {
    "field added": (
        (STEP, StringField(name="note", required=False)),
        {"step": [1, 2, 3, 4], "note": [None, None, "n", "n"]},
    ),
    "field removed": (
        (StringField(name="note", required=False),),
        {"step": [1, 2, None, None], "note": [None, None, "n", "n"]},
    ),
    "range and description changed": (
        (IntField(name="step", required=True, range=(0, 1), description="New words"),),
        {"step": [1, 2, 3, 4]},
    ),
    "widened to a number": (
        (FloatField(name="step", required=False),),
        {"step": [1, 2, None, None], "step_double": [None, None, 3.0, 4.0]},
    ),
    "another type": (
        (StringField(name="step", required=False),),
        {"step": [1, 2, None, None], "step_string": [None, None, "3", "4"]},
    ),
}


@pytest.mark.parametrize("change", EVOLUTION)
def test_evolution(place: Place, change: str) -> None:
    """The rules of docs/jobs/tables.md: columns are added, none changes, no file is rewritten."""
    fields, wanted = EVOLUTION[change]
    filled(place, _steps(1, 2))
    updated(place, MARS)
    before = set(_table(place).file_uris())
    filled(place, [record(n, identifier={"step": str(n), "note": "n"}) for n in (3, 4)])
    updated(place, evolved(MARS, *fields))
    assert {name: _column(place, name) for name in wanted} == wanted
    assert before < set(_table(place).file_uris())
    comments = {f.name: f.metadata.get("comment", "") for f in _table(place).schema().fields}
    names = {"another type": "step_string", "widened to a number": "step_double"}
    for field in fields:
        column = names.get(change, field.name) if field.name == "step" else field.name
        assert comments[column] == (field.description or "")


def test_a_type_that_comes_back_has_its_column_again(place: Place) -> None:
    """There and back again makes no third column."""
    text = evolved(MARS, StringField(name="step", required=False))
    for number, schema in enumerate((MARS, text, MARS, text), 1):
        filled(place, _steps(number, number))
        updated(place, schema)
    assert _column(place, "step") == [1, None, 3, None]
    assert _column(place, "step_string") == [None, "2", None, "4"]
    assert len(_table(place).schema().fields) == len(columns_of(MARS)) + 1


def test_any_name_has_a_table(place: Place, tmp_path: Path) -> None:
    """Whatever an event type is called, its table is inside the lake and knows its name."""
    names = ["mars", "été/../x y%", "a=b", "..", "Ünï"]
    for name in names:
        filled(place, [record(1, name, identifier={"step": "1"})])
        updated(place, Schema(name, (STEP,), base="base"))
    found = [event_type_of(table_of(place, name)) for name in table_names(place)]
    assert sorted(found) == sorted(names)
    assert all(path.is_relative_to(tmp_path / "lake") for path in tmp_path.rglob("*.parquet"))
