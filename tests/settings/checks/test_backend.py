"""Start-up checks on backend settings."""

from pathlib import Path

import pytest

from aviso_server.core.json import Json
from aviso_server.settings.faults import SettingsError
from aviso_server.settings.loading import load
from settings.configurations import configuration, messages

_UNREADABLE = "has an address that cannot be read: Port could not be cast to integer value"


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
        (
            {"nats_url": "http://localhost:4222"},
            ["nats_url must be addresses such as nats://host:4222 or tls://host:4222"],
        ),
        (
            {"nats_url": "nats://a:4222,nats://b:port"},
            [f"nats_url {_UNREADABLE} as 'port'"],
        ),
        ({"nats_url": "a:4222, tls://u:p@b ,[::1]:4222"}, []),
        ({"max_store": 0}, ["max_store must be > 0"]),
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
    """Each rule has its literal message, in the protocol's order."""
    raw = configuration(notification_backend={"jetstream": change})
    assert messages(raw) == [f"notification_backend.jetstream.{why}" for why in expected]


def test_the_other_backend_may_hold_anything() -> None:
    """Only the backend in use is checked."""
    raw = configuration(notification_backend={"in_memory": {"max_messages": 0}})
    assert messages(raw) == []


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        ({}, []),
        ({"store_dir": "x", "token": "t", "replicas": 1, "max_store": "10Gi"}, []),
        ({"nats_url": "nats://localhost:4222"}, ["nats_url"]),
        ({"nats_url": None}, []),
        ({"username": "u", "tls_required": False}, ["username", "tls_required"]),
        ({"replicas": 3}, ["replicas"]),
    ],
)
def test_embedded_is_not_together_with_another_server(
    given: dict[str, Json], keys: list[str]
) -> None:
    """What would be ignored is a fault, even if it is the default; what was not given is none."""
    raw = configuration(notification_backend={"jetstream": {"embedded": True, **given}})
    found = [message.split()[0].rpartition(".")[2] for message in messages(raw)]
    assert found == keys


def test_the_environment_gives_as_well_as_a_file(tmp_path: Path) -> None:
    """The example with the documented variable would store on the local disk."""
    example = Path(__file__).parents[3] / "examples" / "config.yaml"
    environ = {"AVISOSERVER_NOTIFICATION_BACKEND__JETSTREAM__NATS_URL": "nats://prod:4222"}
    with pytest.raises(SettingsError, match="nats_url cannot be set together with embedded"):
        load(config_file=example, environ=environ, cwd=tmp_path, home=None)
    environ["AVISOSERVER_NOTIFICATION_BACKEND__JETSTREAM__EMBEDDED"] = "false"
    settings = load(config_file=example, environ=environ, cwd=tmp_path, home=None)
    assert settings.notification_backend.jetstream.servers == ("nats://prod:4222",)
