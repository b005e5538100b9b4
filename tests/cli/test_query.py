"""``aviso-server query``: forms of answers, lists, and errors in words."""

import csv
import io
import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from support.command import invoke
from support.config import document, on_jetstream
from support.lake import filled, record
from support.typed import updated

from aviso_server.core.fields.number import IntField
from aviso_server.core.schema import Schema
from aviso_server.lake.layout import Place

STEP = IntField(name="step", required=False, description="Hours")
ROWS = "SELECT sequence, step, day, time, payload FROM mars WHERE sequence <= 2 ORDER BY sequence"


@pytest.fixture
def lake(place: Place) -> str:
    """Five notifications, of which the typed table has three."""
    filled(place, [record(n, identifier={"step": str(6 * n)}) for n in (1, 2, 3)])
    updated(place, Schema("mars", (STEP,), base="mars"))
    filled(place, [record(n, identifier={"step": "x"}) for n in (4, 5)])
    return place.path


def test_the_list_of_tables(lake: str) -> None:
    """Tables, columns, types, descriptions, how many rows, and how far behind the lake."""
    result = invoke("query", "--lake", lake)
    assert result.exit_code == 0
    assert "3 rows, complete through sequence 3, 2 behind the lake" in result.output
    lines = [line.split() for line in result.output.splitlines()]
    assert ["step", "long", "Hours"] in lines
    assert any(line[:1] == ["notifications"] for line in lines)


def test_forms(lake: str, tmp_path: Path) -> None:
    """The same rows as a table, CSV, JSON, NDJSON and Parquet, on stdout or in a file."""
    shown = invoke("query", "--lake", lake, ROWS)
    assert [line.split()[:2] for line in shown.stdout.splitlines()] == [
        ["sequence", "step"],
        ["1", "6"],
        ["2", "12"],
    ]
    assert "mars lacks the newest 2 of the lake" in shown.stderr
    objects = json.loads(invoke("query", "--lake", lake, ROWS, "--format", "json").stdout)
    assert objects[0] == {
        "sequence": 1,
        "step": 6,
        "day": "2026-01-01",
        "time": "2026-01-01T00:00:01Z",
        "payload": '{"n":1}',
    }
    told = invoke("query", "--lake", lake, ROWS, "--format", "ndjson").stdout
    assert [json.loads(line) for line in told.splitlines()] == objects
    rows = invoke("query", "--lake", lake, ROWS, "--format", "csv").stdout
    listed = list(csv.DictReader(io.StringIO(rows)))
    assert listed == [{name: str(value) for name, value in row.items()} for row in objects]
    path = tmp_path / "answer"
    for form in ("csv", "parquet"):
        done = invoke("query", "--lake", lake, ROWS, "--format", form, "--output", str(path))
        assert (done.exit_code, done.stdout) == (0, "")
        if form == "csv":
            assert list(csv.DictReader(io.StringIO(path.read_text()))) == listed
    assert pq.read_table(path)["step"].to_pylist() == [6, 12]
    assert invoke("query", "--lake", lake, f"{ROWS} LIMIT 0", "--format", "json").stdout == "[]\n"


def test_values_of_every_kind(lake: str) -> None:
    """Nested, binary, decimal and missing ones; nothing is lost for want of a form."""
    sql = """SELECT identifier, NULL AS nothing, [1.5, NULL] AS list,
      {'a': DATE '2026-01-01'} AS row,
      sum(sequence) OVER () AS whole, 0.25::DECIMAL(9, 2) AS part, encode('é') AS raw,
      TIME '10:00' AS at, INTERVAL 1 DAY AS span
      FROM notifications WHERE sequence = 1"""
    (row,) = json.loads(invoke("query", "--lake", lake, sql, "--format", "json").stdout)
    span = row.pop("span")
    assert row == {
        "identifier": {"step": "6"},
        "nothing": None,
        "list": [1.5, None],
        "row": {"a": "2026-01-01"},
        "whole": 1,
        "part": 0.25,
        "raw": "c3a9",
        "at": "10:00:00",
    }
    assert "days=1" in span
    shown = invoke("query", "--lake", lake, sql).stdout
    assert '{"step":"6"}' in shown
    assert "NULL" in shown


def test_long_tables_are_cut(lake: str) -> None:
    """On the terminal only; it says so, and how to see more."""
    cut = invoke("query", "--lake", lake, "FROM mars", "--limit", "2")
    assert (len(cut.stdout.splitlines()), "the first 2 rows" in cut.stderr) == (3, True)
    whole = invoke("query", "--lake", lake, "FROM mars", "--limit", "0")
    assert (len(whole.stdout.splitlines()), "the first" in whole.stderr) == (4, False)


def test_plans_and_errors(lake: str, tmp_path: Path) -> None:
    """--explain shows the plan; what is wrong is on stderr, exit code 1, and no file is left."""
    assert "Scan" in invoke("query", "--lake", lake, "FROM mars", "--explain").stdout
    path = tmp_path / "answer.csv"
    failed = invoke("query", "--lake", lake, "FROM marz", "--output", str(path))
    assert (failed.exit_code, failed.stdout, path.exists()) == (1, "", False)
    assert failed.stderr.startswith("aviso-server query: ")
    assert "tables: mars, notifications" in failed.stderr
    assert invoke("query", "--lake", lake, "FROM mars", "--format", "parquet").exit_code == 2
    assert invoke("query", "--lake", lake, "FROM mars", "--memory", "much").exit_code == 2
    nowhere = invoke("query", "--lake", str(tmp_path / "no"))
    assert (nowhere.exit_code, "there is no lake at" in nowhere.stderr) == (1, True)


def test_the_lake_of_the_configuration(lake: str, tmp_path: Path) -> None:
    """As for the jobs: lake.path, unless the command line names another one."""
    config = tmp_path / "config.yaml"
    config.write_text(
        yaml.safe_dump(document({**on_jetstream("nats://127.0.0.1:1"), "lake": {"path": lake}}))
    )
    result = invoke("query", "--config", str(config), "SELECT count(*) AS n FROM mars")
    assert result.stdout.split() == ["n", "3"]


def test_without_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line that says what to install."""
    for name in ("aviso_server.cli.query", "aviso_server.lake.query.engine"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    result = invoke("query")
    assert result.exit_code == 1
    assert "pip install 'aviso-server[query]'" in result.output
