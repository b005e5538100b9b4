"""``aviso-server pipeline live``: help that teaches, and errors that fit on a line."""

from pathlib import Path

import pytest
import yaml
from support.command import invoke
from support.config import document, on_jetstream
from typer.testing import Result

from aviso_server.cli.live import summary
from aviso_server.core.json import Json
from aviso_server.pipeline.live.alert import EVENT_TYPE
from aviso_server.pipeline.live.job import LiveOutcome

NOWHERE = "nats://127.0.0.1:1"
JETSTREAM: dict[str, Json] = on_jetstream(NOWHERE)


def _live(*arguments: str, sections: dict[str, Json] = JETSTREAM) -> Result:
    Path("config.yaml").write_text(yaml.safe_dump(document(sections)))
    return invoke("pipeline", "live", "--config", "config.yaml", *arguments)


def test_the_schema_can_be_printed() -> None:
    """As it goes into a configuration; nothing else is needed for that."""
    result = invoke("pipeline", "live", "--schema")
    assert result.exit_code == 0
    assert list(yaml.safe_load(result.stdout)) == [EVENT_TYPE]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "there is no lake to keep a checkpoint in: give --checkpoint PATH"),
        (("--checkpoint", "c", "--expect", "none.yaml"), "No such file or directory: 'none.yaml'"),
        (("--checkpoint", "c", "--expect", "bad.yaml"), "bad.yaml is not YAML"),
        (("--checkpoint", "c", "--expect", "list.yaml"), "item 1 of what is expected: unknown: a"),
        (("--checkpoint", "c", "--event-type", EVENT_TYPE), "cannot be watched"),
        (("--checkpoint", "c", "--url", "http://127.0.0.1:1"), "cannot be reached"),
    ],
)
def test_errors_fit_on_a_line(arguments: tuple[str, ...], why: str) -> None:
    """Exit code 1 before Spark is started, and no stack trace."""
    Path("bad.yaml").write_text("[")
    Path("list.yaml").write_text("[{a: 1}]")
    result = _live(*arguments)
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("aviso-server pipeline live: ")
    assert why in line


def test_there_must_be_a_log() -> None:
    """Notifications that are in the memory of a server cannot be read by a job."""
    result = _live("--checkpoint", "c", sections={})
    assert result.exit_code == 1
    assert "notification_backend.kind is in_memory" in result.stderr


def test_the_summary_is_one_line() -> None:
    """What was read and told; what came after the watermark only if something did."""
    outcome = LiveOutcome(1200, 0, {"rate": 3, "late": 1})
    assert summary(outcome) == "1,200 notifications; alerts: 1 late, 3 rate"
    assert summary(LiveOutcome(1, 1)) == (
        "1 notifications; alerts: none; 1 notifications came after the watermark"
    )
