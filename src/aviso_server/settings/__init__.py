"""Settings: YAML and environment in, typed and checked values out."""

from aviso_server.settings.faults import Fault, SettingsError, Warning_
from aviso_server.settings.loading import Origin, load, parse
from aviso_server.settings.model import Settings
from aviso_server.settings.namedfiles import unreadable
from aviso_server.settings.redact import redact_settings

__all__ = [
    "Fault",
    "Origin",
    "Settings",
    "SettingsError",
    "Warning_",
    "load",
    "parse",
    "redact_settings",
    "unreadable",
]
