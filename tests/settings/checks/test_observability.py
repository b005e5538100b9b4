"""Start-up checks on metrics and logging."""

import pytest

from aviso_server.core.json import Json
from settings.configurations import configuration, messages


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({"enabled": True}, ["metrics.port is required when metrics.enabled=true"]),
        ({"enabled": True, "port": 0}, ["metrics.port must not be 0"]),
        ({"enabled": True, "port": 8000}, ["metrics.port must differ from application.port"]),
        ({"enabled": True, "port": 9090}, []),
        ({"enabled": False, "port": 0}, []),
    ],
)
def test_metrics_need_a_port_of_their_own(metrics: Json, expected: list[str]) -> None:
    """Checked only when metrics are on."""
    assert messages(configuration(metrics=metrics)) == expected


@pytest.mark.parametrize("otlp", [{"enabled": True}, {"enabled": True, "endpoint": " "}])
def test_log_export_needs_an_endpoint(otlp: Json) -> None:
    """Checked only when export is on."""
    assert messages(configuration(logging={"otlp": otlp})) == [
        "logging.otlp.endpoint is required when logging.otlp.enabled=true"
    ]
    assert messages(configuration(logging={"otlp": {"enabled": False}})) == []
