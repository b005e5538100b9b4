"""URLs as operators write them."""

import pytest

from aviso_server.settings.addresses import split


@pytest.mark.parametrize(
    "text", ["https://a", "http://u:p@a:1/p?q#f", "nats://[::1]:4222", "mailto:me"]
)
def test_absolute_urls_are_split(text: str) -> None:
    """Any scheme will do; callers decide which they take."""
    assert not isinstance(split(text), str)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "relative URL without a base"),
        ("a/b", "relative URL without a base"),
        ("//a", "relative URL without a base"),
        ("http://", "empty host"),
        ("https://:80", "empty host"),
        (" http://a", "contains whitespace"),
        ("http://a\n", "contains whitespace"),
        ("http://[::1", "Invalid IPv6 URL"),
        ("http://a:99999", "Port out of range 0-65535"),
    ],
)
def test_other_texts_are_refused_with_a_reason(text: str, why: str) -> None:
    """The reason is fit for a message."""
    assert split(text) == why
