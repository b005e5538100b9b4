"""Defaults, and documentation that cannot rot."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo

from aviso_server.settings.keys import is_section
from aviso_server.settings.model import Document, EventType, Section
from settings.configurations import configuration, settings

DOCS = Path(__file__).parents[2] / "docs" / "configuration.md"
_ROW = re.compile(
    r"^\| `(?P<path>[^`]+)` \| (?P<default>[^|]+) \| (?P<meaning>[^|]+) \|$", re.MULTILINE
)


def test_every_setting_is_documented_with_its_default() -> None:
    """docs/configuration.md has one row per setting, no more and no less."""
    rows = {
        row["path"]: row["default"]
        for row in _ROW.finditer(DOCS.read_text(encoding="utf-8"))
        if "Handler" not in row["path"]
    }
    assert rows == dict(_settings(Document, "")) | dict(
        _settings(EventType, "notification_schema.<event type>", optional_sections=True)
    )


def test_what_a_power_loss_can_cost_is_documented() -> None:
    """``sync_always: false`` trades acknowledged notifications, and says how many."""
    row = next(
        row["meaning"]
        for row in _ROW.finditer(DOCS.read_text(encoding="utf-8"))
        if row["path"].endswith("sync_always")
    )
    assert "power loss can lose up to two minutes of acknowledged notifications" in row


def test_settings_cannot_be_changed() -> None:
    """Configuration flows down as values."""
    loaded = settings(configuration())
    with pytest.raises(ValidationError, match="frozen"):
        loaded.application.port = 1  # type: ignore[misc]


def test_jetstream_reads_its_literals() -> None:
    """Addresses one by one, age in seconds."""
    section = {"nats_url": "nats://a, tls://b,", "retention_time": "1h"}
    loaded = settings(configuration(notification_backend={"jetstream": {**section}}))
    jetstream = loaded.notification_backend.jetstream
    assert (jetstream.servers, jetstream.retention_s) == (("nats://a", "tls://b"), 3600)


def _settings(
    section: type[Section], at: str, *, optional_sections: bool = False
) -> Iterator[tuple[str, str]]:
    """Every setting's path and its default as the documentation spells it."""
    for name, field in section.model_fields.items():
        path = f"{at}.{name}".lstrip(".")
        inner = (field.annotation, *get_args(field.annotation))
        below = next((item for item in inner if is_section(item)), None)
        if below is None or optional_sections:
            yield path, _default(field)
        if below is not None:
            yield from _settings(below, path)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if value is None:
        return "unset"
    if isinstance(value, tuple):
        value = list(value)
    if value == "":
        return "empty"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"
