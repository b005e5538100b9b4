"""Wrong usage of the pipeline's commands: refused before anything is done."""

from pathlib import Path

import pytest
import yaml
from support.command import invoke
from support.config import document, on_jetstream

WRONG = [
    ("archive --conf novalue", "must look like NAME=VALUE"),
    ("archive --storage-option =x", "must look like NAME=VALUE"),
    ("archive --interval soon", "--interval"),
    ("archive --interval 0s", "must be at least 1s"),
    ("archive --once --wait 0s", "must be at least 1s"),
    ("archive --progress loud", "--progress"),
    ("audit", "--lake"),
    ("audit --config x --servers nats://x", "not both"),
    ("live --checkpoint c --interval 5", "--interval: duration must include a unit"),
    ("live --checkpoint c --interval 0s", "--interval: must be at least 1s"),
    ("live --checkpoint c --url ftp://x", "--url: url is http"),
    ("maintain", "--lake"),
    ("maintain --lake x --target-size 12", "unit"),
    ("maintain --lake x --retention mars", "NAME=VALUE"),
    ("maintain --lake x --retention mars=36h", "whole days"),
    ("maintain --lake x --retention mars=0d", "whole days"),
    ("maintain --lake x --sort name", "--sort"),
    ("maintain --lake x --min-files 1", "--min-files"),
    ("replay", "Missing argument"),
    ("replay ev", "give one of --output and --to-server"),
    ("replay ev --output o --to-server http://h", "give one of --output and --to-server"),
    ("replay ev --output o --from-id 1 --from-date 2", "give one of --from-id and"),
    ("replay ev --output o --to-id -1", "--to-id must be a valid positive integer"),
    ("replay ev --output o --format csv", "csv"),
    ("replay ev --lake l --output o --format ndjson --typed", "no columns"),
    ("replay ev --lake l --to-server http://h", "say in which folder"),
    ("replay ev --lake l --to-server ftp://h --state s", "http://HOST:PORT"),
    ("replay ev --output o --storage-option x", "NAME=VALUE"),
]


@pytest.mark.parametrize(("command", "message"), WRONG)
def test_wrong_usage(command: str, message: str) -> None:
    """Exit code 2, and which option it is."""
    Path("config.yaml").write_text(yaml.safe_dump(document(on_jetstream("nats://127.0.0.1:1"))))
    result = invoke("pipeline", *command.split(), AVISOSERVER_CONFIG_FILE="config.yaml")
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
