"""Checks on metrics and logging."""

from collections.abc import Iterator

from aviso_server.settings.faults import Fault
from aviso_server.settings.model import Document


def metrics(document: Document) -> Iterator[Fault]:
    """A separate port, if metrics are on."""
    section = document.metrics
    if not section.enabled:
        return
    if section.port is None:
        yield Fault("metrics.port", "metrics.port is required when metrics.enabled=true")
    elif section.port == 0:
        yield Fault("metrics.port", "metrics.port must not be 0")
    elif section.port == document.application.port:
        yield Fault("metrics.port", "metrics.port must differ from application.port")


def logging(document: Document) -> Iterator[Fault]:
    """An endpoint, when log export is on."""
    otlp = document.logging.otlp
    if otlp.enabled and not (otlp.endpoint or "").strip():
        yield Fault(
            "logging.otlp.endpoint",
            "logging.otlp.endpoint is required when logging.otlp.enabled=true",
        )
