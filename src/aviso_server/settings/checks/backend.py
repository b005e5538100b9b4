"""Checks on the settings of the chosen backend."""

from collections.abc import Iterator

from aviso_server.settings import addresses
from aviso_server.settings.faults import Fault
from aviso_server.settings.literals import LiteralError, duration_s
from aviso_server.settings.model import Document, InMemory, JetStream

_BUDGET = ("max_messages", "max_bytes", "max_history_per_topic", "max_topics")
_BEFORE_RETENTION = ("timeout_seconds", "retry_attempts", "reconnect_delay_ms")
_AFTER_RETENTION = ("publish_retry_attempts", "publish_retry_base_delay_ms")
_LIMITS = ("replicas", "max_messages", "max_bytes", "max_store")
_CLASH = "cannot be set together with embedded: true, which starts a NATS server of our own"
_SCHEMES = frozenset({"nats", "tls", "ws", "wss"})


def backend(document: Document) -> Iterator[Fault]:
    """The section of the backend in use; the other one may hold anything."""
    section = document.notification_backend
    if section.kind == "in_memory":
        yield from _in_memory(section.in_memory)
    elif section.kind == "jetstream":
        for key, why in _jetstream(section.jetstream):
            where = f"notification_backend.jetstream.{key}"
            yield Fault(where, f"{where} {why}")


def _in_memory(section: InMemory) -> Iterator[Fault]:
    for key in _BUDGET:
        value = getattr(section, key)
        if value is not None and value <= 0:
            where = f"notification_backend.in_memory.{key}"
            yield Fault(where, f"{where} must be greater than zero")


def _jetstream(section: JetStream) -> Iterator[tuple[str, str]]:
    retention_s, why = _retention(section)
    if why:
        yield "retention_time", f"is invalid: {why}"
    yield from _addresses(section)
    yield from _embedded(section)
    yield from _not_positive(section, _BEFORE_RETENTION)
    if retention_s == 0:
        yield "retention_time", "must be > 0"
    yield from _not_positive(section, _AFTER_RETENTION)
    if section.retention_policy != "limits":
        yield (
            "retention_policy",
            f"'{section.retention_policy}' is not supported; use 'limits'",
        )
    yield from _not_positive(section, _LIMITS)


def _addresses(section: JetStream) -> Iterator[tuple[str, str]]:
    if not section.servers:
        yield "nats_url", "must not be empty"
    for server in section.servers:
        # nats-py takes an address without a scheme for nats://.
        address = addresses.split(server if "://" in server else f"nats://{server}")
        if isinstance(address, str):
            yield "nats_url", f"has an address that cannot be read: {address}"
        elif address.scheme not in _SCHEMES or not address.hostname:
            yield "nats_url", "must be addresses such as nats://host:4222 or tls://host:4222"


def _embedded(section: JetStream) -> Iterator[tuple[str, str]]:
    """What was given for another server would be ignored: notifications must not land elsewhere."""
    if not section.embedded:
        return
    for key in JetStream.model_fields:
        if key in section.without_effect & section.model_fields_set:
            yield key, f"{_CLASH}; remove one of the two"
    if section.replicas is not None and section.replicas > 1:
        yield "replicas", "must be 1 with embedded: true, which is a single NATS server"


def _retention(section: JetStream) -> tuple[int | None, str | None]:
    if section.retention_time is None:
        return None, None
    try:
        return duration_s(section.retention_time), None
    except LiteralError as error:
        return None, str(error)


def _not_positive(section: JetStream, keys: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for key in keys:
        value = getattr(section, key)
        if value is not None and value <= 0:
            yield key, "must be > 0"
