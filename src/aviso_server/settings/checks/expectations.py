"""Checks on what is expected of event types."""

import re
from collections.abc import Iterator

from aviso_server.core.errors import InvalidRequest
from aviso_server.core.expectation import PAYLOAD, expected_value
from aviso_server.core.fields.field import Field
from aviso_server.core.fields.moment import DateField
from aviso_server.settings.faults import Fault
from aviso_server.settings.literals import LiteralError, duration_s
from aviso_server.settings.model import Document, ExpectationsSection
from aviso_server.settings.schemas import build_fields

_MEMBER = re.compile(rf"{PAYLOAD}(\.[^.'\[\]]+)*")
"""The payload, or a member of it as Spark's JSON paths can name it."""


def expectations(document: Document) -> Iterator[Fault]:
    """Values that the fields can have, names that exist, and times that read as such."""
    for event_type, entry in document.event_types.items():
        if entry.expectations is not None:
            built = build_fields(event_type, entry.identifier).built
            at = f"notification_schema.{event_type}.expectations"
            yield from _faults(at, {field.name: field for field in built}, entry.expectations)


def _faults(at: str, fields: dict[str, Field], section: ExpectationsSection) -> Iterator[Fault]:
    for name, wanted in section.values.items():
        try:
            expected_value(fields.get(name), name, wanted)
        except InvalidRequest as error:
            yield Fault(f"{at}.values.{name}", error.message)
    for name in section.present:
        if name not in fields and not _MEMBER.fullmatch(name):
            yield Fault(f"{at}.present", f"'{name}' is neither a field nor of the payload")
    if section.every is not None:
        try:
            if duration_s(section.every) == 0:
                yield Fault(f"{at}.every", "must be greater than zero")
        except LiteralError as error:
            yield Fault(f"{at}.every", str(error))
    if section.per_cycle is not None:
        if section.per_cycle == 0:
            yield Fault(f"{at}.per_cycle", "must be greater than zero")
        if not any(isinstance(field, DateField) for field in fields.values()):
            yield Fault(f"{at}.per_cycle", "needs a field of type DateHandler, which makes cycles")
