"""Every job, the archive among them, through Spark Connect on a cluster with two executors."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from deltalake import DeltaTable
from support import alljobs
from support.archive import archive_process
from support.archived import assert_same
from support.log import fill, log_at
from support.nats import nats_server
from support.process import server_process

from aviso_server.lake.layout import NOTIFICATIONS, Place

TESTS = Path(__file__).parents[1]
TYPES = ("storm", "flood")
PATIENCE_S = 500
"""Far more than the jobs need: it only bounds a failing test."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_every_job(connect: str, tmp_path: Path) -> None:
    """Each job does on executors what it does in one process, all in one session."""
    _as_told(_ran(connect, tmp_path), tmp_path)


def test_the_archive_until_it_is_stopped(connect: str, tmp_path: Path) -> None:
    """It runs until it is told to stop; progress is reported as anywhere."""
    place = Place(str(tmp_path / "job" / "lake"))
    with nats_server(tmp_path / "nats") as server:
        asyncio.run(_fill(server.url, 0, 100))
        remote = ("--remote", connect, "--interval", "1s")
        with archive_process(server.url, tmp_path / "job", *remote) as job:
            job.until(lambda line: line["archived"] == 200)
            asyncio.run(_fill(server.url, 100, 110))
            job.until(lambda line: line["archived"] == 220)
            assert job.stop() == 0, job.errors
        assert asyncio.run(assert_same(server.url, place, *TYPES)) == 220


async def _fill(url: str, begin: int, end: int) -> None:
    async with log_at(url) as log:
        for name in TYPES:
            await fill(log, name, range(begin, end))


def _ran(remote: str, folder: Path) -> dict[str, Any]:
    """Run the jobs in a process: this one may have a session of its own."""
    with _server(folder) as url:
        said = {"server": url, "log": str(folder / "nats" / "address")}
        (folder / "told.json").write_text(json.dumps(said))
        command = [sys.executable, "-m", "support.alljobs", remote, str(folder)]
        environ = {**os.environ, "PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS.parent}"}
        done = subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((folder / "outcome.json").read_text())
    return found


@contextmanager
def _server(folder: Path) -> Iterator[str]:
    """A server with the event types that the synthetic history has."""
    config = yaml.safe_load(alljobs.CONFIG.read_text())
    config["notification_backend"]["jetstream"]["store_dir"] = str(folder / "nats")
    del config["lake"]
    del config["logging"]
    with server_process(config, folder) as running:
        yield running.url


def _as_told(told: dict[str, Any], folder: Path) -> None:
    """What every job should have done."""
    made, gone = told["synth"], 10
    count = alljobs.PLAN.count
    assert sum(made.values()) == count
    assert told["maintain"] == {"hidden": gone, "problems": [], "rewrites": 10}
    whole = {"complete": True, "present": count - gone, "deleted": gone, "compared": 0}
    assert told["audit"] == whole
    assert told["report"] == {"notifications": count - gone}
    assert (folder / "report.html").read_text().endswith("</html>\n")
    assert DeltaTable(folder / "report" / "volume").to_pyarrow_dataset().count_rows() > 0
    assert told["archived"] == {**made, "mars": made["mars"] - gone}
    assert told["history"]["step"] == 24
    assert 0 < told["history"]["areas"] < made["test_polygon"]
    areas = made["test_polygon"]
    assert told["parquet"]["rows"] == told["ndjson"]["rows"] == areas
    assert pq.read_table(folder / "parquet").num_rows == areas
    taken = {"read": areas, "added": areas, "rejected": 0}
    assert told["stored"] == told["published"] == taken
    assert DeltaTable(folder / "second" / NOTIFICATIONS).to_pyarrow_dataset().count_rows() == areas
    assert told["again"]["rows"] == told["with_log"]["rows"] == alljobs.FEW
    taken_by_server = areas + alljobs.FEW
    assert told["archive"] == {"stage": "stopped", "archived": taken_by_server}
    assert told["third"] == {
        "complete": True,
        "present": taken_by_server,
        "deleted": 0,
        "compared": taken_by_server,
    }
    assert told["live"] == {"notifications": taken_by_server, "late": 1}
