"""From the configured event types to the catalogue the core works with."""

from dataclasses import dataclass

from aviso_server.core.expectation import NOTHING, Expectations, expected_value
from aviso_server.core.fields import registry
from aviso_server.core.fields.field import Field
from aviso_server.core.json import Json
from aviso_server.core.schema import Catalogue, Schema, StoragePolicy, StreamAccess
from aviso_server.settings.faults import Fault
from aviso_server.settings.literals import duration_s, size_bytes
from aviso_server.settings.model import Document, EventType, Storage, StreamAuth


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one event type, and what is wrong with the others."""

    built: tuple[Field, ...]
    faults: tuple[Fault, ...]


def build_fields(event_type: str, identifier: dict[str, Json]) -> Fields:
    """Build every field of an identifier, in file order, collecting all faults."""
    built: list[Field] = []
    faults: list[Fault] = []
    for name, spec in identifier.items():
        where = f"notification_schema.{event_type}.identifier.{name}"
        if not isinstance(spec, dict):
            faults.append(Fault(where, "must be a mapping with at least `type` and `required`"))
            continue
        try:
            built.append(registry.build(event_type, name, spec))
        except registry.FieldFaults as error:
            faults += [
                Fault(f"{where}.{path}" if path else where, message)
                for path, message in error.faults
            ]
    return Fields(tuple(built), tuple(faults))


def catalogue(document: Document) -> Catalogue:
    """The catalogue of a checked document."""
    schemas = [_schema(name, entry) for name, entry in document.event_types.items()]
    return Catalogue(
        schemas,
        strict=document.notification_schema_strict,
        configured=document.notification_schema is not None,
    )


def _schema(event_type: str, entry: EventType) -> Schema:
    return Schema(
        event_type=event_type,
        fields=build_fields(event_type, entry.identifier).built,
        base=entry.topic.base if entry.topic else event_type,
        key_order=entry.topic.key_order if entry.topic else None,
        payload_required=entry.payload.required if entry.payload else None,
        history_cap=entry.max_historical_notifications,
        storage=_storage(entry.storage_policy or Storage()),
        access=_access(entry.auth) if entry.auth else None,
        expectations=_expectations(event_type, entry),
    )


def _storage(policy: Storage) -> StoragePolicy:
    return StoragePolicy(
        retention_s=None if policy.retention_time is None else duration_s(policy.retention_time),
        max_messages=policy.max_messages,
        max_bytes=None if policy.max_size is None else size_bytes(policy.max_size),
        allow_duplicates=policy.allow_duplicates,
        compression=policy.compression,
    )


def _expectations(event_type: str, entry: EventType) -> Expectations:
    section = entry.expectations
    if section is None:
        return NOTHING
    fields = {field.name: field for field in build_fields(event_type, entry.identifier).built}
    return Expectations(
        tuple(expected_value(fields.get(name), name, v) for name, v in section.values.items()),
        section.present,
        None if section.every is None else duration_s(section.every),
        section.per_cycle,
    )


def _access(auth: StreamAuth) -> StreamAccess:
    return StreamAccess(
        required=auth.required,
        read_roles=auth.read_roles,
        write_roles=auth.write_roles,
        plugins=auth.plugins or (),
    )
