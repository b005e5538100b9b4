"""The job that makes synthetic histories: into a lake, a file, a server."""

import asyncio
import hashlib
import subprocess
import sys
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from deltalake import DeltaTable
from support.config import document
from support.server import connected
from typer.testing import CliRunner

from aviso_server.core.json import parse
from aviso_server.lake.commit import archived_through
from aviso_server.lake.layout import NOTIFICATIONS, Place
from aviso_server.lake.storage import LakeFailed
from aviso_server.pipeline.sink.options import parse_options
from aviso_server.settings import parse as parse_settings
from tools.synth import Plan, parts, rows
from tools.synth.__main__ import app
from tools.synth.job import Options, SynthFailed, run

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "config.yaml"
PLAN = Plan(date(2026, 1, 1), days=2, count=3000, seed=7)


def contents(place: Place) -> dict[str, str]:
    """Event types, days and digests of the files that are part of the table."""
    table = DeltaTable(place.table(NOTIFICATIONS))
    folder = Path(place.table(NOTIFICATIONS))
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return {
        f"{item['partition.event_type']} {item['partition.day']}": hashlib.sha256(
            (folder / item["path"]).read_bytes()
        ).hexdigest()
        for item in actions
    }


def test_a_lake_holds_the_history(place: Place) -> None:
    """Every row is in the table under its own sequence, and the marks say so."""
    steps: list[int] = []
    outcome = run(Options(plan=PLAN, lake=place), report=steps.append)
    table = DeltaTable(place.table(NOTIFICATIONS))
    assert sum(steps) == outcome.count == PLAN.count == table.to_pyarrow_dataset().count_rows()
    for name, count in outcome.counts.items():
        assert archived_through(table, name) == count
    expected = [b for p in parts(PLAN) if p.event_type == "mars" for b in rows(PLAN, p)]
    found = table.to_pyarrow_table(filters=[("event_type", "=", "mars")]).sort_by("sequence")
    assert found["payload"].to_pylist() == pa.Table.from_batches(expected)["payload"].to_pylist()


def test_parallelism_changes_no_byte(tmp_path: Path) -> None:
    """One process and two write the same files."""
    plan = Plan(date(2026, 1, 1), days=1, count=4000, seed=7)
    places = [Place(str(tmp_path / name)) for name in ("one", "two")]
    run(Options(plan=plan, lake=places[0]))
    run(Options(plan=plan, lake=places[1], processes=2))
    one, two = map(contents, places)
    assert one == two
    assert len(one) == 5


def test_a_lake_in_use_is_refused(place: Place) -> None:
    """A history with sequences from 1 on does not go into a lake that has some."""
    run(Options(plan=PLAN, lake=place))
    before = contents(place)
    with pytest.raises(LakeFailed, match="has 'mars' up to sequence"):
        run(Options(plan=Plan(PLAN.start, 1, 500), lake=place))
    assert contents(place) == before


def test_an_interrupted_lake_shows_nothing(place: Place) -> None:
    """Files of a job that was ended are removed, and nothing was committed."""

    def end(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(Options(plan=PLAN, lake=place), report=end)
    assert list(Path(place.path).rglob("*.parquet")) == []


def test_requests_come_in_the_order_of_time(tmp_path: Path) -> None:
    """The file is the same with two processes; all event types are merged by time."""
    one, two = tmp_path / "one.ndjson", tmp_path / "two.ndjson"
    run(Options(plan=PLAN, ndjson=one))
    run(Options(plan=PLAN, ndjson=two, processes=2))
    assert one.read_bytes() == two.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.ndjson", "two.ndjson"]
    times = {
        (row["event_type"], row["payload"]): row["time_ns"]
        for part in parts(PLAN)
        for batch in rows(PLAN, part)
        for row in batch.select(["event_type", "payload", "time_ns"]).to_pylist()
    }
    lines = one.read_bytes().splitlines()
    assert len(lines) == PLAN.count
    found = []
    for line in lines:
        value = parse(line)
        assert isinstance(value, dict)
        found.append(line.partition(b'"payload":')[2][:-1].decode())
    ordered = [max(ns for (_, p), ns in times.items() if p == text) for text in found[:50]]
    assert ordered == sorted(ordered)


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    """No draft stays behind, and the error names the file."""
    with pytest.raises(SynthFailed, match="cannot write"):
        run(Options(plan=PLAN, ndjson=tmp_path / "no" / "such.ndjson"))
    assert list(tmp_path.iterdir()) == []


async def test_a_server_takes_it(tmp_path: Path) -> None:
    """Every notification is stored by a server with the example's event types."""
    schemas = yaml.safe_load(EXAMPLE.read_text())["notification_schema"]
    plan = Plan(date(2026, 1, 1), days=1, count=400, seed=1)
    async with connected(parse_settings(document(schemas=schemas))) as client:
        server = parse_options({"url": client.running.url, "onReject": "fail", "batchSize": "150"})
        outcome = await asyncio.to_thread(run, Options(plan=plan, server=server))
        await asyncio.to_thread(run, Options(plan=plan, server=server))
        async with client.replay("mars", {"class": "od"}, from_id="1") as stream:
            found = [event.data["data"]["payload"] for event in await stream.rest()
                     if event.kind == "replay"]  # fmt: skip
    expected = [b for p in parts(plan) if p.event_type == "mars" for b in rows(plan, p)]
    texts = pa.Table.from_batches(expected)["payload"].to_pylist()
    assert found == [parse(text.encode()) for text in texts]
    assert outcome.counts["mars"] == len(found)


async def test_a_server_with_other_event_types_is_reported_from_the_first() -> None:
    """The error says what the server said, and what it should serve."""
    async with connected(parse_settings(document())) as client:
        server = parse_options({"url": client.running.url, "onReject": "fail"})
        with pytest.raises(SynthFailed, match=r"does it serve examples/config.yaml"):
            await asyncio.to_thread(run, Options(plan=PLAN, server=server))


def test_the_command_line(tmp_path: Path) -> None:
    """A summary on success; one line and exit code 1 when it fails; 2 for wrong usage."""
    command = ["--lake", str(tmp_path), "--count", "500", "--processes", "1"]
    done = CliRunner().invoke(app, command)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "all                      500  from 2026-01-01 to 2026-01-02" in done.stdout
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 1
    assert again.stderr.startswith("tools.synth: the lake ")
    assert len(again.stderr.splitlines()) == 1
    for wrong in ([], ["--ndjson", "x", "--lake", "y"], ["--url", "ftp://x"]):
        assert CliRunner().invoke(app, wrong).exit_code == 2
    assert pq.read_table(tmp_path / NOTIFICATIONS, partitioning=None).num_rows == 500


def test_no_spark_is_loaded(tmp_path: Path) -> None:
    """Making a lake takes no Java and no pyspark."""
    code = (
        "import runpy, sys; sys.modules['pyspark'] = None\n"
        "runpy.run_module('tools.synth', run_name='__main__')"
    )
    command = [sys.executable, "-c", code, "--lake", str(tmp_path), "--count", "50"]
    command += ["--processes", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    assert "50  from" in done.stdout
