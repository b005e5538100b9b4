"""Small configurations to start a test from."""

from aviso_server.core.json import Json
from aviso_server.settings import Fault, Settings, SettingsError, parse
from aviso_server.settings.environment import merge

FIELD: dict[str, Json] = {"type": "StringHandler", "required": True}
AUTH: dict[str, Json] = {
    "enabled": True,
    "auth_o_tron_url": "http://auth",
    "jwt_secret": "s",
    "admin_roles": {"ecmwf": ["admin"]},
}
"""A sound section."""


def configuration(**sections: Json) -> dict[str, Json]:
    """A valid configuration with the given sections laid over it."""
    base: dict[str, Json] = {
        "application": {"host": "127.0.0.1", "port": 8000},
        "notification_backend": {"kind": "jetstream"},
    }
    return merge(base, sections)


def event_type(**parts: Json) -> dict[str, Json]:
    """A valid entry of ``notification_schema`` with the given parts laid over it."""
    base: dict[str, Json] = {
        "identifier": {"class": FIELD},
        "topic": {"base": "mars", "key_order": ["class"]},
    }
    return {key: value for key, value in {**base, **parts}.items() if value is not None}


def with_schema(name: str = "mars", /, **parts: Json) -> dict[str, Json]:
    """A configuration with one event type made of the given parts."""
    return configuration(notification_schema={name: event_type(**parts)})


def settings(raw: dict[str, Json]) -> Settings:
    """The settings of a configuration that must be sound."""
    return parse(raw)


def faults(raw: dict[str, Json]) -> list[Fault]:
    """Every fault of a configuration, none if it is sound."""
    try:
        parse(raw)
    except SettingsError as error:
        return error.faults
    return []


def messages(raw: dict[str, Json]) -> list[str]:
    """The texts of every fault of a configuration."""
    return [fault.message for fault in faults(raw)]
