"""``lake.archive: managed``: server, embedded JetStream and Spark archive with one command."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any
from urllib.request import Request, urlopen

import pytest
from deltalake import DeltaTable
from support.cluster import free_port
from support.config import document, embedded
from support.metrics import parsed
from support.process import server_process

PATIENCE_S = 120
"""Spark takes its time to start, more so on a machine that others use."""


def until(condition: Callable[[], Any], timeout_s: float = PATIENCE_S) -> Any:
    """Wait until something is true and give it; what changes is in other processes."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "not in time"
        Event().wait(0.1)
    return found


def asked(url: str, body: Any = None) -> Any:
    """The JSON answer of a route."""
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data=data), timeout=20) as response:  # noqa: S310 - our own server
        return json.loads(response.read())


def jobs(config: Path) -> list[int]:
    """The archive jobs of a configuration."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"pipeline" in words and os.fsencode(config) in words:
            found.append(int(folder.name))
    return found


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_one_command_archives_everything(tmp_path: Path) -> None:
    """With workers there is one job; it is seen in /ready and metrics, and ends with the server."""
    port = free_port()  # the metrics listener takes none of the system's choice
    configuration = document(
        {
            **embedded(tmp_path / "nats"),
            "lake": {
                "path": str(tmp_path / "lake"),
                "archive": "managed",
                "archive_interval_seconds": 1,
                "spark_master": "local[1]",
            },
            "metrics": {"enabled": True, "port": port},
        }
    )
    config = tmp_path / "config.yaml"
    with server_process(configuration, tmp_path, "--workers", "2") as server:
        for number in range(5):
            body = {"event_type": "ev", "identifier": {"region": "n"}, "payload": number}
            assert asked(f"{server.url}/api/v1/notification", body)["sequence"] == number + 1
        assert asked(f"{server.url}/ready") == {"status": "ready", "backend_connected": True}
        server.printed("archive.state.changed", timeout_s=PATIENCE_S)

        def archived() -> bool:
            with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as page:
                return parsed(page.read().decode()).value("aviso_archive_notifications_total") == 5

        until(archived)
        seen = until(lambda: asked(f"{server.url}/ready?details").get("archive"))
        assert (seen["state"], seen["restarts"]) == ("running", 0)
        rows = DeltaTable(str(tmp_path / "lake" / "notifications")).to_pyarrow_table()
        assert sorted(rows["sequence"].to_pylist()) == [1, 2, 3, 4, 5]
        (job,) = jobs(config)
        os.kill(job, signal.SIGKILL)
        server.printed("archive.started", times=2)
        until(lambda: jobs(config) not in ([], [job]))
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
    assert until(lambda: jobs(config) == [])
