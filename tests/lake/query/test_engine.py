"""SQL over a lake: tombstones applied, nothing but the lake readable, nothing writable."""

from pathlib import Path

import pyarrow as pa
import pytest
from support.lake import filled, record
from support.typed import updated

from aviso_server.core.fields.number import IntField
from aviso_server.core.schema import Schema
from aviso_server.lake.layout import Place
from aviso_server.lake.query.engine import FEW, EngineOptions, ask, plan
from aviso_server.lake.query.views import QueryFailed, open_views
from aviso_server.lake.storage import LakeFailed
from aviso_server.lake.tombstones import append_tombstones

STEP = IntField(name="step", required=False)
OPTIONS = EngineOptions(memory_bytes=1 << 27, threads=1)


def _fill(place: Place, name: str = "mars", count: int = 40) -> None:
    filled(place, [record(n, name, identifier={"step": str(n % 7)}) for n in range(1, count + 1)])
    updated(place, Schema(name, (STEP,), base="base"))


def answer(place: Place, sql: str) -> list[dict[str, object]]:
    """All rows."""
    with ask(open_views(place), sql, OPTIONS) as reader:
        rows: list[dict[str, object]] = reader.read_all().to_pylist()
        return rows


@pytest.mark.parametrize("many", [3, FEW + 3])
def test_hidden_rows_are_left_out_at_once(place: Place, many: int) -> None:
    """In typed tables and in ``notifications``, few ranges or many, before any upkeep."""
    _fill(place)
    _fill(place, "other")
    gone = list(range(2, 2 * many + 1, 2))
    append_tombstones(place, [("mars", n, n) for n in gone], kind="deleted")
    append_tombstones(place, [("it's", 1, 9), ("mars", 39, 39)], kind="wiped")
    append_tombstones(place, [("mars", 1, 1)], kind="lost")
    kept = [n for n in range(1, 41) if n not in (*gone, 39)]
    for table in ("mars", "(FROM notifications WHERE event_type = 'mars')"):
        rows = answer(place, f"FROM {table} ORDER BY sequence")
        assert [row["sequence"] for row in rows] == kept
    assert answer(place, "SELECT count(*) AS n FROM other") == [{"n": 40}]
    assert answer(place, "SELECT count(*) AS n FROM tombstones") == [{"n": len(gone) + 3}]


def test_names(place: Place) -> None:
    """Any event type has a table; one that is called like another table gets a suffix."""
    for name in ("mars", "Mars", "notifications", "my-events", 'a"b', "été"):
        _fill(place, name, count=2)
    views = open_views(place)
    assert sorted(view.name for view in views.views.values() if view.event_type) == sorted(
        ["Mars", "mars_table", "notifications_table", "my-events", 'a"b', "été"]
    )
    for name in ("MARS", "mars_table", "notifications_table", '"my-events"', '"a""b"', "été"):
        assert [row["step"] for row in answer(place, f"FROM {name} ORDER BY step")] == [1, 2]
    assert answer(place, "SELECT count(*) AS n FROM notifications") == [{"n": 12}]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM glob('{folder}/*')",
        "COPY mars TO '{folder}/stolen.csv'",
        "ATTACH '{folder}/new.db'",
        "INSTALL spatial",
        "SET threads = 64",
        "PRAGMA database_list",
        "CREATE TABLE t AS FROM mars",
        "DELETE FROM mars",
        "WITH gone AS (DELETE FROM mars RETURNING *) SELECT * FROM gone",
        "SELECT 1; SELECT 2",
        "SELECT * FROM variable",
        "EXPLAIN ANALYZE COPY mars TO '{folder}/stolen.csv'",
        "",
    ],
)
def test_nothing_but_the_lake_is_read_and_nothing_written(
    place: Place, tmp_path: Path, sql: str
) -> None:
    """Files, settings, extensions, Python's variables and every other statement are refused."""
    _fill(place, count=2)
    secret = tmp_path / "secret.csv"
    secret.write_text("a,b\n1,2\n")
    variable = pa.table({"a": [1]})
    before = sorted(tmp_path.iterdir())
    with pytest.raises(QueryFailed) as failed:
        answer(place, sql.format(file=secret, folder=tmp_path))
    assert "1,2" not in str(failed.value)
    assert (sorted(tmp_path.iterdir()), variable.num_rows) == (before, 1)


def test_errors_help(place: Place) -> None:
    """What is wrong, where, and which tables and columns there are; never those of the engine."""
    _fill(place, count=2)
    for sql, words in (
        ("FROM marz", ["marz does not exist", "tables: mars, notifications"]),
        ("SELECT stp FROM mars", ['"stp" not found', "columns of mars: sequence, id, time, topic"]),
        ("SELEC 1", ["syntax error", "LINE 1"]),
        ("SELECT 'x'::INT FROM mars", ["Could not convert"]),
    ):
        with pytest.raises(QueryFailed) as failed:
            answer(place, sql)
        assert all(word in str(failed.value) for word in words), str(failed.value)
        assert "pg_" not in str(failed.value)


def test_memory_is_bounded(place: Place) -> None:
    """A query that needs more than it may use fails, and says how to go on."""
    _fill(place, count=2)
    sql = "SELECT list(a.range || repeat('x', 1000)) FROM range(10000000) a"
    with pytest.raises(QueryFailed, match="--memory"):
        answer(place, sql)


def test_filters_are_applied_while_reading(place: Place) -> None:
    """The plan shows them at the scan, also if something is hidden."""
    _fill(place)
    append_tombstones(place, [("mars", 2, 3)], kind="deleted")
    shown = plan(open_views(place), "SELECT id FROM mars WHERE step = 3", OPTIONS)
    scan = shown[shown.rindex("Scan") :]
    assert '"step" = 3' in scan


def test_no_lake_is_no_empty_answer(tmp_path: Path) -> None:
    """A mistyped path is an error."""
    with pytest.raises(LakeFailed, match="there is no lake at"):
        open_views(Place(str(tmp_path / "nowhere")))
