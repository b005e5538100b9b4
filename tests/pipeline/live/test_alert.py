"""The schema that is shipped, and how alerts spell times."""

import re
from pathlib import Path

import yaml
from support.config import settings

from aviso_server.pipeline.live import alert

EXAMPLE = Path(__file__).parents[3] / "examples" / "config.yaml"


def test_the_schema_is_valid_and_is_in_the_example() -> None:
    """What the command prints is what the example configuration has, word for word."""
    schema = settings(schemas=yaml.safe_load(alert.SCHEMA)).catalogue.schemas[alert.EVENT_TYPE]
    assert {item.name for item in schema.fields} == {*alert.IDENTITY, "severity"}
    assert alert.SCHEMA in EXAMPLE.read_text()


def test_times_and_lengths() -> None:
    """UTC to the second; the largest unit that fits."""
    assert alert.moment(1_767_225_600_999_999) == "2026-01-01T00:00:00Z"
    assert [alert.duration(s) for s in (0, 90, 300, 7200, 172_800)] == [
        "0s",
        "90s",
        "5m",
        "2h",
        "2d",
    ]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", alert.moment(0))
