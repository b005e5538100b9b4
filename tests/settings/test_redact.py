"""What may be shown of the settings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aviso_server.core.json import Json
from aviso_server.settings.redact import redact_settings
from aviso_server.telemetry.redaction import REDACTED, redact, redact_text
from settings.configurations import configuration, settings

# A marker that no key, default or other value contains, with whatever may surround it.
_ends = st.text(st.characters(codec="ascii", categories=["L", "N"]), max_size=5)
_secrets = st.builds(lambda a, b: f"{a}hunter2{b}", _ends, _ends)


@given(_secrets)
def test_no_secret_reaches_the_dump(secret: str) -> None:
    """Neither the dump nor the representation of the settings shows a secret value."""
    raw = configuration(
        auth={"jwt_secret": secret, "auth_o_tron_url": f"https://u:{secret}@auth/x"},
        application={"base_url": f"https://{secret}@here"},
        notification_backend={
            "jetstream": {
                "token": secret,
                "password": secret,
                "nats_url": f"nats://a:1, nats://u:{secret}@b:2,tls://{secret}@c",
            }
        },
        ecpds={"username": "u", "password": secret, "servers": [], "match_key": "k"},
        logging={"otlp": {"endpoint": f"http://u:{secret}@otlp"}},
        lake={"storage_options": {"access": secret}},
    )
    loaded = settings(raw)
    assert "hunter2" not in str(redact_settings(loaded))
    for section in (loaded.auth, loaded.ecpds, loaded.lake):
        assert "hunter2" not in repr(section).replace(f"u:{secret}@auth", "")
    jetstream = repr(loaded.notification_backend.jetstream)
    assert "hunter2" not in jetstream.replace(loaded.notification_backend.jetstream.nats_url, "")


def test_the_dump_shows_every_section_with_its_defaults() -> None:
    """Derived parts are left out; what is not set is shown as not set."""
    shown = redact_settings(settings(configuration()))
    assert list(shown) == [
        "application",
        "notification_backend",
        "lake",
        "watch_endpoint",
        "limits",
        "auth",
        "metrics",
        "logging",
        "ecpds",
        "notification_schema",
        "notification_schema_strict",
    ]
    auth = shown["auth"]
    assert isinstance(auth, dict)
    assert (auth["jwt_secret"], auth["timeout_ms"]) == ("", 5000)


@pytest.mark.parametrize(
    "key", ["password", "Password", "jwt_secret", "ACCESS_TOKEN", "authorization", "x_api_key"]
)
@pytest.mark.parametrize("value", ["x", 5, ["x"], {"a": "x"}])
def test_sensitive_keys_hide_whatever_they_hold(key: str, value: Json) -> None:
    """Any case, any shape, at any depth."""
    assert redact({"a": [{key: value}]}) == {"a": [{key: REDACTED}]}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("nats://u:p@h:4222", "nats://[REDACTED]@h:4222"),
        ("https://token@h/x@y", "https://[REDACTED]@h/x@y"),
        ("a nats://u:p@h b", "a nats://[REDACTED]@h b"),
        ("nats://h1,nats://u:p@h2", "nats://h1,nats://[REDACTED]@h2"),
        ("nats://u:p@ss@h", "nats://[REDACTED]@h"),
        ("u:p@h:4222,v:q@i", "[REDACTED]@h:4222,[REDACTED]@i"),
        ("password=x token: y", "password=[REDACTED] token: [REDACTED]"),
        ("Bearer abc.def", "Bearer [REDACTED]"),
        ("basic dTpw", "basic [REDACTED]"),
        ("me@example.org", "me@example.org"),
        ("http://h:80/p?q#f", "http://h:80/p?q#f"),
    ],
)
def test_credentials_inside_a_text_are_replaced(text: str, shown: str) -> None:
    """User info in URLs, and values after the usual words."""
    assert redact_text(text) == shown


@given(st.text())
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    """Redaction is idempotent."""
    once = redact_text(text)
    assert redact_text(once) == once


def test_what_has_no_effect_is_not_shown() -> None:
    """An address that is not used would mislead whoever reads the log."""
    raw = configuration(notification_backend={"jetstream": {"embedded": True}})
    backend = redact_settings(settings(raw))["notification_backend"]
    assert isinstance(backend, dict)
    assert isinstance(backend["jetstream"], dict)
    assert "store_dir" in backend["jetstream"]
    assert not {"nats_url", "username", "tls_required"} & set(backend["jetstream"])
