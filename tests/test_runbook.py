"""The runbook in docs/operations.md cannot rot: alarms, event names and files are real."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
RUNBOOK = (ROOT / "docs" / "operations.md").read_text()
_EVENT = re.compile(
    r"`((?:api|archive|auth|backend|configuration|startup|stream|admin)\.[a-z_]+(?:\.[a-z_]+)+)`"
)


def test_every_alarm_has_its_entry() -> None:
    """Each rule of deploy/prometheus/alerts.yml is a heading, and no heading is about another."""
    groups = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())["groups"]
    alarms = {rule["alert"] for group in groups for rule in group["rules"]}
    headings = re.findall(r"^### (.*)$", RUNBOOK.split("## Runbook\n")[1], re.MULTILINE)
    named = {word for heading in headings for word in re.findall(r"Aviso[A-Za-z]+", heading)}
    assert named == alarms


def test_every_event_named_is_logged() -> None:
    """Names in the page are in the source, or are put together there from an operation."""
    source = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    made = {"api.watch.stream.established", "api.replay.stream.established"}
    named = set(_EVENT.findall(RUNBOOK)) - made
    assert len(named) > 10
    assert sorted(name for name in named if f'"{name}"' not in source) == []


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`(deploy/[\w./-]+)`", RUNBOOK))))
def test_every_file_named_exists(path: str) -> None:
    """Examples are where the page says."""
    assert (ROOT / path).exists()
