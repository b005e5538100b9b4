"""Settings that may be shown: secrets taken out."""

from collections.abc import Mapping
from dataclasses import fields

from pydantic import SecretStr

from aviso_server.core.json import Json
from aviso_server.settings.model import Section, Settings
from aviso_server.telemetry.redaction import REDACTED, redact

_HIDDEN_KEYS = frozenset({"catalogue", "warnings"})
"""Parts of Settings that are derived and not configured."""


def redact_settings(settings: Settings) -> dict[str, Json]:
    """The effective settings as plain values, without secrets and without those of no effect."""
    plain = {
        item.name: _plain(getattr(settings, item.name))
        for item in fields(settings)
        if item.name not in _HIDDEN_KEYS
    }
    shown = redact(plain)
    assert isinstance(shown, dict)  # noqa: S101 - a map stays a map
    return shown


def _plain(value: object) -> Json:
    match value:
        case SecretStr():
            return REDACTED if value.get_secret_value() else ""
        case Section():
            names = [name for name in type(value).model_fields if name not in value.without_effect]
            return {name: _plain(getattr(value, name)) for name in names}
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case None | bool() | int() | float() | str():
            return value
        case _:
            raise TypeError(f"no plain form of {type(value).__name__}")
