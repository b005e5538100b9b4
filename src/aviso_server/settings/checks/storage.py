"""Checks on the backend kind, stream names and storage policies."""

from collections.abc import Callable, Iterator

from aviso_server.settings.faults import Fault
from aviso_server.settings.literals import LiteralError, duration_s, size_bytes
from aviso_server.settings.model import Document, Storage

_SUPPORTED = {"in_memory": frozenset[str](), "jetstream": frozenset(Storage.model_fields)}


def storage(document: Document) -> Iterator[Fault]:
    """A known backend, one stream per event type, and policies the backend can keep."""
    kind = document.notification_backend.kind
    if kind not in _SUPPORTED:
        yield Fault("notification_backend.kind", f"Unknown notification_backend kind: {kind}")
    yield from _shared_bases(document)
    for event_type, entry in document.event_types.items():
        if entry.storage_policy is None:
            continue
        at = f"notification_schema.{event_type}.storage_policy"
        if entry.topic is None:
            yield Fault(
                at, f"Schema '{event_type}' defines storage_policy but has no topic configuration"
            )
        yield from _policy(event_type, entry.storage_policy, at)
        yield from _unsupported(event_type, entry.storage_policy, kind)


def _shared_bases(document: Document) -> Iterator[Fault]:
    owners: dict[str, str] = {}
    for event_type, entry in document.event_types.items():
        base = entry.topic.base if entry.topic else event_type
        owner = owners.setdefault(base.upper(), event_type)
        if owner != event_type:
            yield Fault(
                f"notification_schema.{event_type}.topic.base",
                f"Schemas '{owner}' and '{event_type}' both define topic base '{base}'",
            )


def _policy(event_type: str, policy: Storage, at: str) -> Iterator[Fault]:
    prefix = f"Schema '{event_type}' storage_policy"
    why = _unreadable(duration_s, policy.retention_time)
    if why:
        yield Fault(f"{at}.retention_time", f"{prefix}.retention_time is invalid: {why}")
    elif policy.retention_time is not None and duration_s(policy.retention_time) == 0:
        yield Fault(f"{at}.retention_time", f"{prefix}.retention_time must be greater than zero")
    why = _unreadable(size_bytes, policy.max_size)
    if why:
        yield Fault(f"{at}.max_size", f"{prefix}.max_size is invalid: {why}")
    if policy.max_messages is not None and policy.max_messages <= 0:
        yield Fault(f"{at}.max_messages", f"{prefix}.max_messages must be greater than zero")


def _unsupported(event_type: str, policy: Storage, kind: str) -> Iterator[Fault]:
    # An unknown kind has been reported; nothing is known about what it would support.
    supported = _SUPPORTED.get(kind, frozenset(Storage.model_fields))
    for key in Storage.model_fields:
        if getattr(policy, key) is not None and key not in supported:
            yield Fault(
                f"notification_schema.{event_type}.storage_policy.{key}",
                f"Schema '{event_type}' storage_policy.{key} is not supported by backend '{kind}'",
            )


def _unreadable(read: Callable[[str], int], text: str | None) -> str | None:
    if text is None:
        return None
    try:
        read(text)
    except LiteralError as error:
        return str(error)
    return None
