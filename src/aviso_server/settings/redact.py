"""Settings that may be shown: secrets taken out (operations.md 9, Redaction)."""

import re
from collections.abc import Mapping
from dataclasses import fields

from pydantic import BaseModel, SecretStr

from aviso_server.core.json import Json
from aviso_server.settings.model import Settings

REDACTED = "[REDACTED]"

_SENSITIVE = re.compile(r"password|secret|token|authorization|api_key", re.IGNORECASE)
_USER_INFO = re.compile(r"(?<=://)[^\s/?#]*@")
_BARE_USER_INFO = re.compile(r"(?:(?<=^)|(?<=,))\s*[^\s/,@]*:[^\s/@]*@")
"""``user:password@host`` without a scheme, which NATS clients accept."""
_ASSIGNED = re.compile(r"((?:password|token)\s*[=:]\s*)[^\s,;&]+", re.IGNORECASE)
_CREDENTIALS = re.compile(r"\b(Bearer|Basic)\s+[^\s,;]+", re.IGNORECASE)

_HIDDEN_KEYS = frozenset({"catalogue", "warnings"})
"""Parts of Settings that are derived and not configured."""


def redacted(settings: Settings) -> dict[str, Json]:
    """The effective settings as plain values, without secrets."""
    plain = {
        item.name: _plain(getattr(settings, item.name))
        for item in fields(settings)
        if item.name not in _HIDDEN_KEYS
    }
    shown = redact(plain)
    assert isinstance(shown, dict)  # noqa: S101 - a map stays a map
    return shown


def redact(value: Json) -> Json:
    """A copy in which sensitive keys and credentials in texts are replaced."""
    if isinstance(value, dict):
        return {key: _redact_item(key, item) for key, item in value.items()}
    if isinstance(value, list):
        return [redact(item) for item in value]
    return redact_text(value) if isinstance(value, str) else value


def redact_text(text: str) -> str:
    """A text without user info in URLs and without credentials after their usual words."""
    text = _USER_INFO.sub(f"{REDACTED}@", text)
    text = _BARE_USER_INFO.sub(f"{REDACTED}@", text)
    text = _ASSIGNED.sub(rf"\g<1>{REDACTED}", text)
    return _CREDENTIALS.sub(rf"\g<1> {REDACTED}", text)


def _redact_item(key: str, value: Json) -> Json:
    if not _SENSITIVE.search(key):
        return redact(value)
    # That a secret is not set is worth knowing, and tells nothing.
    return value if value is None or value == "" else REDACTED


def _plain(value: object) -> Json:
    match value:
        case SecretStr():
            return REDACTED if value.get_secret_value() else ""
        case BaseModel():
            return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case None | bool() | int() | float() | str():
            return value
        case _:
            raise TypeError(f"no plain form of {type(value).__name__}")
