"""From a notify request to a notification: the one definition of what may be announced."""

from msgspec import UNSET

from aviso_server.core.cursor import refuse_ends
from aviso_server.core.errors import InvalidRequest
from aviso_server.core.identifier import announced, refuse_point
from aviso_server.core.json import compact
from aviso_server.core.notification import Notification
from aviso_server.core.schema import Schema
from aviso_server.core.topic import tokens_of
from aviso_server.core.wire import NotificationRequest

_TRIMMED_FROM = 512
"""Payloads of more bytes are copied to their exact size."""


def refuse_misplaced(request: NotificationRequest) -> None:
    """Refuse what only makes sense when reading."""
    refuse_ends(request)
    refuse_point(request.identifier)


def notification_of(schema: Schema, request: NotificationRequest) -> Notification:
    """Validate a request against its schema, in the protocol's order."""
    identifier = announced(schema, request.identifier)
    if request.payload is UNSET and schema.payload_required:
        raise InvalidRequest(
            "Payload is required for notify operation based on schema configuration",
            field="payload",
        )
    payload = b"null" if request.payload is UNSET else compact(request.payload)
    if len(payload) > _TRIMMED_FROM:
        # The encoder leaves half as much again behind its text, which would be kept with it.
        payload = bytes(memoryview(payload))
    tokens = tokens_of(schema, identifier.values, identifier.geometry)
    return Notification(schema.event_type, tokens, identifier.values, identifier.geometry, payload)
