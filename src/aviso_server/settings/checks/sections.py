"""Checks on small sections: streaming, metrics, logging and the lake."""

from collections.abc import Iterator

from aviso_server.settings.faults import Fault
from aviso_server.settings.model import Document

_POSITIVE = (
    "sse_heartbeat_interval_sec",
    "connection_max_duration_sec",
    "replay_batch_size",
    "client_queue_size",
)


def streaming(document: Document) -> Iterator[Fault]:
    """Intervals, sizes and caps that must be positive."""
    if document.limits.notify_burst_per_user <= 0:
        where = "limits.notify_burst_per_user"
        yield Fault(where, f"{where} must be greater than zero")
    for key in _POSITIVE:
        if getattr(document.watch_endpoint, key) <= 0:
            where = f"watch_endpoint.{key}"
            yield Fault(where, f"{where} must be greater than zero")
    if document.watch_endpoint.max_historical_notifications <= 0:
        where = "watch_endpoint.max_historical_notifications"
        yield Fault(where, f"{where} must be a positive integer")
    for event_type, entry in document.event_types.items():
        cap = entry.max_historical_notifications
        if cap is not None and cap <= 0:
            yield Fault(
                f"notification_schema.{event_type}.max_historical_notifications",
                f"Schema '{event_type}' max_historical_notifications must be a positive integer",
            )


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


def lake(document: Document) -> Iterator[Fault]:
    """The lake and its archive job; without a path there is none."""
    section = document.lake
    if section.archive_interval_seconds <= 0:
        where = "lake.archive_interval_seconds"
        yield Fault(where, f"{where} must be greater than zero")
    if section.cache_bytes < 0:
        yield Fault("lake.cache_bytes", "lake.cache_bytes must not be negative")
    if section.path is None:
        if section.archive == "managed":
            yield Fault("lake.archive", "lake.archive managed needs lake.path")
    elif not section.path.strip():
        yield Fault("lake.path", "lake.path must not be empty")
    elif document.notification_backend.kind == "in_memory":
        # Sequences restart with every process, so they could not be distinguished in the lake.
        yield Fault("lake.path", "lake needs notification_backend.kind jetstream")
