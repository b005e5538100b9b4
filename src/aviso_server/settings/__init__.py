"""Settings: YAML and environment in, typed and checked values out."""

from aviso_server.settings.faults import Fault, SettingsError, Warning_
from aviso_server.settings.loading import load, parse
from aviso_server.settings.model import Settings
from aviso_server.settings.redact import redact_text, redacted

__all__ = [
    "Fault",
    "Settings",
    "SettingsError",
    "Warning_",
    "load",
    "parse",
    "redact_text",
    "redacted",
]
