"""Start-up checks on backend settings (domain.md 12 item 12)."""

import pytest

from aviso_server.core.json import Json
from settings.configurations import configuration, messages


@pytest.mark.parametrize(
    "key", ["max_messages", "max_bytes", "max_history_per_topic", "max_topics"]
)
def test_the_memory_budget_is_positive(key: str) -> None:
    """A budget of nothing keeps nothing."""
    raw = configuration(notification_backend={"kind": "in_memory", "in_memory": {key: 0}})
    assert messages(raw) == [f"notification_backend.in_memory.{key} must be greater than zero"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"retention_time": "7"},
            ["retention_time is invalid: duration must include a unit suffix"],
        ),
        ({"retention_time": "0s"}, ["retention_time must be > 0"]),
        ({"nats_url": ""}, ["nats_url must not be empty"]),
        ({"nats_url": " , "}, ["nats_url must not be empty"]),
        ({"timeout_seconds": 0}, ["timeout_seconds must be > 0"]),
        ({"retry_attempts": 0}, ["retry_attempts must be > 0"]),
        ({"reconnect_delay_ms": 0}, ["reconnect_delay_ms must be > 0"]),
        ({"publish_retry_attempts": 0}, ["publish_retry_attempts must be > 0"]),
        ({"publish_retry_base_delay_ms": 0}, ["publish_retry_base_delay_ms must be > 0"]),
        (
            {"retention_policy": "workqueue"},
            ["retention_policy 'workqueue' is not supported; use 'limits'"],
        ),
        (
            {"retention_policy": "interest"},
            ["retention_policy 'interest' is not supported; use 'limits'"],
        ),
        ({"replicas": 0}, ["replicas must be > 0"]),
        ({"max_messages": 0}, ["max_messages must be > 0"]),
        ({"max_bytes": 0}, ["max_bytes must be > 0"]),
        ({"max_reconnect_attempts": 0}, []),
        (
            {"replicas": -1, "retention_time": "0s", "timeout_seconds": 0, "nats_url": ""},
            [
                "nats_url must not be empty",
                "timeout_seconds must be > 0",
                "retention_time must be > 0",
                "replicas must be > 0",
            ],
        ),
    ],
)
def test_jetstream_settings_are_checked(change: Json, expected: list[str]) -> None:
    """Each rule has its literal message, in the contract's order."""
    raw = configuration(notification_backend={"jetstream": change})
    assert messages(raw) == [f"notification_backend.jetstream.{why}" for why in expected]


def test_the_other_backend_may_hold_anything() -> None:
    """Only the backend in use is checked."""
    raw = configuration(notification_backend={"in_memory": {"max_messages": 0}})
    assert messages(raw) == []
