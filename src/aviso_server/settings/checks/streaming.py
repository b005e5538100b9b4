"""Checks on watch and replay limits."""

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
