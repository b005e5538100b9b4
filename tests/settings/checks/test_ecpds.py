"""Start-up checks on the ECPDS plugin."""

import pytest

from aviso_server.core.json import Json
from settings.configurations import AUTH, FIELD, configuration, event_type, messages, with_schema

ECPDS: dict[str, Json] = {
    "username": "u",
    "password": "p",
    "servers": ["https://ecpds.example"],
    "match_key": "class",
}
LISTED: Json = {"required": True, "plugins": ["ecpds"]}


@pytest.mark.parametrize(
    "server",
    ["https://a", "https://a/prefix/", "http://127.0.0.1:1", "http://[::1]", "http://localhost"],
)
def test_sound_servers_pass(server: str) -> None:
    """HTTPS anywhere, plain HTTP on this machine."""
    assert _messages(servers=[server]) == []


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("", "ecpds.servers[0] must not be empty or whitespace"),
        (" ", "ecpds.servers[0] must not be empty or whitespace"),
        ("a", "ecpds.servers[0] 'a' is not a valid URL: relative URL without a base"),
        ("https://", "ecpds.servers[0] 'https://' is not a valid URL: empty host"),
        (
            "ftp://a",
            (
                "ecpds.servers[0] 'ftp://a' has unsupported scheme 'ftp';"
                " only 'http' (loopback only) and 'https' are accepted"
            ),
        ),
        (
            "https://a?x=1",
            (
                "ecpds.servers[0] 'https://a?x=1' must not contain a query string;"
                " the plugin appends '?id=<username>' itself"
            ),
        ),
        ("https://a#f?", "ecpds.servers[0] 'https://a#f?' must not contain a URL fragment"),
    ],
)
def test_servers_are_checked_one_by_one(server: str, expected: str) -> None:
    """Each rule has its literal message, with the index of the server."""
    assert _messages(servers=[server]) == [expected]


def test_plain_http_would_show_the_password() -> None:
    """Only loopback hosts may be reached without TLS."""
    (message,) = _messages(servers=["https://a", "http://ecpds.example"])
    assert message.startswith(
        "ecpds.servers[1] 'http://ecpds.example' uses plain http:// to a non-loopback host."
    )


def test_a_password_in_an_address_is_not_repeated() -> None:
    """Fault messages go to stderr and to the log."""
    (message,) = _messages(servers=["https://u:hunter2@a#f"])
    assert "hunter2" not in message


def test_there_must_be_a_server() -> None:
    """An empty list cannot be asked."""
    assert _messages(servers=[]) == ["ecpds.servers must contain at least one server URL"]


@pytest.mark.parametrize("key", ["username", "password", "target_field"])
def test_texts_are_neither_blank_nor_padded(key: str) -> None:
    """Stray blanks from a secret file are found at start-up."""
    assert _messages(**{key: " "}) == [f"ecpds.{key} must not be empty or whitespace"]
    assert _messages(**{key: "x\n"}) == [
        f"ecpds.{key} must not have leading or trailing whitespace"
    ]


def test_the_match_key_is_a_bare_name() -> None:
    """Blank keys, paths and blanks inside are refused."""
    assert _messages(match_key="") == ["ecpds.match_key must not be empty or whitespace"]
    for key in ("a b", "a/b", "a\0b", " a"):
        assert _messages(match_key=key) == [
            (
                f"ecpds.match_key '{key}' must be a single bare identifier name;"
                " whitespace, '/' and NUL are not allowed"
            )
        ]


@pytest.mark.parametrize(
    "key",
    ["cache_ttl_seconds", "max_entries", "request_timeout_seconds", "connect_timeout_seconds"],
)
def test_numbers_are_positive(key: str) -> None:
    """Times and sizes of zero are refused."""
    assert _messages(**{key: 0}) == [f"ecpds.{key} must be greater than zero"]


def test_the_match_key_is_a_required_plain_field() -> None:
    """Membership in the identifier is enough, key_order does not matter."""
    assert _messages(match_key="other") == [
        "ecpds.match_key 'other' has no identifier rule defined in schema 'mars'"
    ]
    optional: Json = {"class": FIELD, "dest": {**FIELD, "required": False}}
    assert _messages(optional, match_key="dest") == [
        (
            "ecpds.match_key 'dest' must be required: true in schema 'mars'"
            " so the value is guaranteed to be present before the plugin runs"
        )
    ]
    spatial: Json = {"class": FIELD, "polygon": {"type": "PolygonHandler", "required": True}}
    assert _messages(spatial, match_key="polygon") == [
        "ecpds.match_key 'polygon' must not be a spatial identifier in schema 'mars'"
    ]
    outside: Json = {"class": FIELD, "dest": FIELD}
    assert _messages(outside, match_key="dest") == []


def test_a_listed_plugin_needs_its_section() -> None:
    """Every stream that lists it is named, sorted."""
    raw = configuration(
        auth=AUTH,
        notification_schema={
            "z": event_type(topic={"base": "z", "key_order": ["class"]}, auth=LISTED),
            "a": event_type(auth=LISTED),
        },
    )
    assert messages(raw) == [
        (
            'Streams ["a", "z"] reference the \'ecpds\' plugin'
            " but no 'ecpds' configuration section was found"
        )
    ]


def test_the_section_is_not_checked_while_no_stream_uses_it() -> None:
    """An idle section may be incomplete in meaning, though not in shape."""
    assert messages(configuration(ecpds={**ECPDS, "servers": []})) == []


def _messages(identifier: Json = None, **change: Json) -> list[str]:
    parts: dict[str, Json] = {"auth": LISTED} | ({"identifier": identifier} if identifier else {})
    return messages(with_schema(**parts) | {"auth": AUTH, "ecpds": {**ECPDS, **change}})
