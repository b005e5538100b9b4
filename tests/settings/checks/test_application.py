"""Start-up checks on ``application``."""

import pytest

from aviso_server.core.json import Json
from aviso_server.settings.model import Homepage
from settings.configurations import configuration, faults, messages

LINKS = list(Homepage.model_fields)


@pytest.mark.parametrize("key", LINKS)
@pytest.mark.parametrize(
    "url", ["", "/docs", "ftp://a", "http://", "https://u:p@a", "https://u@a", " https://a"]
)
def test_links_must_be_absolute_and_without_credentials(key: str, url: str) -> None:
    """Each of the four links is checked."""
    raw = configuration(application={"homepage": {key: url}})
    assert [(f.path, f.message) for f in faults(raw)] == [
        (
            f"application.homepage.{key}",
            (
                f"application.homepage.{key} must be an absolute HTTP(S) URL"
                " with a host and no embedded credentials"
            ),
        )
    ]


def test_sound_links_pass() -> None:
    """HTTP and HTTPS in any case of the scheme."""
    raw = configuration(application={"homepage": dict.fromkeys(LINKS, "HTTP://a.b/c?d=@")})
    assert messages(raw) == []


def test_polygon_output_is_array_or_string() -> None:
    """Polygons are shown in one of two shapes."""
    assert messages(configuration(application={"polygon_output": "Array"})) == [
        "application.polygon_output must be 'array' or 'string'"
    ]
    assert messages(configuration(application={"polygon_output": "string"})) == []


@pytest.mark.parametrize("limit", [0, -1])
def test_the_body_limit_is_positive(limit: int) -> None:
    """A limit of nothing would refuse every request."""
    assert messages(configuration(application={"max_body_bytes": limit})) == [
        "application.max_body_bytes must be greater than zero"
    ]


def test_the_largest_batch_fits_into_what_batches_may_take_together() -> None:
    """Otherwise it would be refused however often it is sent; 0 is no limit."""
    application: Json = {"max_batch_bytes": 1000}
    for together, faulty in ((1999, True), (2000, False), (0, False)):
        raw = configuration(
            application=application, limits={"max_batch_bytes_in_progress": together}
        )
        found = [fault.path for fault in faults(raw)]
        assert found == ["limits.max_batch_bytes_in_progress"] * faulty


@pytest.mark.parametrize("key", ["body_timeout_seconds", "idle_timeout_seconds"])
def test_time_limits_are_positive(key: str) -> None:
    """No time at all would refuse every request."""
    assert messages(configuration(application={key: 0})) == [
        f"application.{key} must be greater than zero"
    ]


@pytest.mark.parametrize(
    "origin",
    ["", "console.example", "https://", "https://a/", "https://a/b", "HTTPS://A", "https://u@a"],
)
def test_origins_are_as_browsers_send_them(origin: str) -> None:
    """Anything else would never match, and nobody would know why."""
    (fault,) = faults(configuration(application={"cors_allowed_origins": [origin]}))
    assert fault.path == "application.cors_allowed_origins"
    assert fault.message.startswith(f"'{origin}' is not an origin")


def test_sound_origins_pass() -> None:
    """With a port, an address, or any."""
    origins: list[Json] = ["*", "https://a.example", "http://localhost:3000", "http://[::1]:3000"]
    assert messages(configuration(application={"cors_allowed_origins": origins})) == []


def test_tls_needs_certificate_and_key() -> None:
    """Half of it is no TLS, and must not be taken for plain HTTP."""
    (fault,) = faults(configuration(application={"tls": {"certificate": "a.crt"}}))
    assert fault.path == "application.tls.key"
    (fault,) = faults(configuration(application={"tls": {"certificate": "a", "key": "b", "ca": 1}}))
    assert fault.path == "application.tls"


@pytest.mark.parametrize(
    ("key", "value"), [("max_streams", -1), ("notify_rate_per_user", -1), ("max_streams", "many")]
)
def test_limits_are_numbers(key: str, value: Json) -> None:
    """0 is no limit; less is a mistake."""
    (fault,) = faults(configuration(limits={key: value}))
    assert fault.path == f"limits.{key}"


def test_a_burst_is_positive() -> None:
    """A bucket that holds nothing would let nothing through."""
    assert messages(configuration(limits={"notify_burst_per_user": 0})) == [
        "limits.notify_burst_per_user must be greater than zero"
    ]
