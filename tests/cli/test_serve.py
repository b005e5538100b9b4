"""Faults of a configuration reach the log of a server that cannot start."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.config import document

from aviso_server.cli.serve import event_of
from aviso_server.settings import Fault


@pytest.mark.parametrize(
    ("path", "event"),
    [
        ("application.port", "startup.configuration.validation.failed"),
        ("auth.jwt_secret", "startup.auth.validation.failed"),
        ("notification_schema.mars.auth.plugins", "startup.auth.plugin_validation.failed"),
        ("notification_schema.mars.auth.read_roles", "startup.auth.stream_validation.failed"),
        ("notification_schema.mars.topic", "startup.configuration.validation.failed"),
        ("metrics.port", "startup.metrics.validation.failed"),
        ("ecpds.servers", "startup.ecpds.validation.failed"),
    ],
)
def test_events_follow_the_section(path: str, event: str) -> None:
    """The name says which part of the configuration is at fault."""
    assert event_of(Fault(path, "wrong")) == event


def test_a_server_that_cannot_start_says_why_in_the_log(tmp_path: Path) -> None:
    """An ERROR record per fault on stdout, the faults on stderr, exit code 1."""
    broken = document({"metrics": {"enabled": True}, "watch_endpoint": {"replay_batch_size": 0}})
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(broken))
    ended = subprocess.run(
        [sys.executable, "-m", "aviso_server", "serve", "--config", str(config)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    records = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [(r["severityText"], r["attributes"]["path"]) for r in records] == [
        ("ERROR", "watch_endpoint.replay_batch_size"),
        ("ERROR", "metrics.port"),
    ]
    assert all(record["attributes"]["path"] in ended.stderr for record in records)
