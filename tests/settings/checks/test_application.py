"""Start-up checks on ``application`` (domain.md 12 item 1)."""

import pytest

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
    """D15 knows two shapes."""
    assert messages(configuration(application={"polygon_output": "Array"})) == [
        "application.polygon_output must be 'array' or 'string'"
    ]
    assert messages(configuration(application={"polygon_output": "string"})) == []


@pytest.mark.parametrize("limit", [0, -1])
def test_the_body_limit_is_positive(limit: int) -> None:
    """A limit of nothing would refuse every request (D19)."""
    assert messages(configuration(application={"max_body_bytes": limit})) == [
        "application.max_body_bytes must be greater than zero"
    ]
