"""Start-up checks on watch and replay."""

import pytest

from aviso_server.core.json import Json
from settings.configurations import configuration, messages, with_schema


@pytest.mark.parametrize(
    "key",
    [
        "sse_heartbeat_interval_sec",
        "connection_max_duration_sec",
        "replay_batch_size",
        "client_queue_size",
    ],
)
@pytest.mark.parametrize("value", [0, -1])
def test_intervals_and_sizes_are_positive(key: str, value: int) -> None:
    """Nothing can run every zero seconds or in batches of nothing."""
    raw = configuration(watch_endpoint={key: value})
    assert messages(raw) == [f"watch_endpoint.{key} must be greater than zero"]


@pytest.mark.parametrize("cap", [0, -1, "unlimited", 1.5, True])
def test_caps_are_positive_integers(cap: Json) -> None:
    """There is no unlimited, here or in a schema."""
    raw = configuration(watch_endpoint={"max_historical_notifications": cap})
    assert messages(raw) == [
        "watch_endpoint.max_historical_notifications must be a positive integer"
    ]
    assert messages(with_schema(max_historical_notifications=cap)) == [
        "Schema 'mars' max_historical_notifications must be a positive integer"
    ]


def test_no_delay_between_batches_is_fine() -> None:
    """Replay runs as fast as the client reads."""
    assert messages(configuration(watch_endpoint={"replay_batch_delay_ms": 0})) == []
