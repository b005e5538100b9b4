"""Every job, the archive among them, on a cluster with two workers."""

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
from support.cluster import standalone
from support.process import server_process

from aviso_server.lake.layout import NOTIFICATIONS

TESTS = Path(__file__).parents[1]
PATIENCE_S = 500
"""Far more than the jobs need: it only bounds a failing test."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_on_a_cluster_with_two_workers(tmp_path: Path) -> None:
    """Each job does on executors what it does in one process, all in one session."""
    with standalone(tmp_path / "spark") as master:
        told = _ran(master, tmp_path)
    _as_told(told, tmp_path)
    # Each worker leaves the folder of an executor that it ran for this application.
    assert len(list((tmp_path / "spark" / "work").glob("app-*/*"))) == 2


def _ran(master: str, folder: Path) -> dict[str, Any]:
    """Run the jobs in a process: this one may have a session of its own."""
    with _server(folder) as url:
        said = {"server": url, "log": str(folder / "nats" / "address")}
        (folder / "told.json").write_text(json.dumps(said))
        command = [sys.executable, "-m", "support.alljobs", master, str(folder)]
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
