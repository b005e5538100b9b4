"""Faults of a configuration in the log, for those who only see the log."""

import os
import re
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aviso_server.settings import Fault, SettingsError

_EVENTS = (
    (r"auth(\.|$)", "startup.auth.validation.failed"),
    (r"notification_schema\..*\.auth\.plugins", "startup.auth.plugin_validation.failed"),
    (r"notification_schema\..*\.auth(\.|$)", "startup.auth.stream_validation.failed"),
    (r"metrics(\.|$)", "startup.metrics.validation.failed"),
    (r"ecpds(\.|$)", "startup.ecpds.validation.failed"),
)


def log_faults(error: "SettingsError") -> None:
    """One ERROR record per fault; the configured logger does not exist, so the default does it."""
    # Loaded when used: whoever asks for help need not wait for it.
    import structlog  # noqa: PLC0415

    from aviso_server.telemetry import log  # noqa: PLC0415

    log.configure("info", environ=os.environ, now_ns=time.time_ns)
    for fault in error.faults:
        structlog.get_logger().error(
            "Invalid configuration",
            event_name=event_of(fault),
            path=fault.path,
            error=fault.message,
        )


def event_of(fault: "Fault") -> str:
    """The event a fault is logged as: by the section it is in."""
    for pattern, event in _EVENTS:
        if re.match(pattern, fault.path):
            return event
    return "startup.configuration.validation.failed"
