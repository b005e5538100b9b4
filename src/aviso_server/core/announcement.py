"""From a notify request to a notification: the one definition of what may be announced."""

from collections.abc import Callable

from msgspec import UNSET

from aviso_server.core.cursor import refuse_ends
from aviso_server.core.errors import InvalidRequest
from aviso_server.core.identifier import read_identifier, refuse_point
from aviso_server.core.json import compact
from aviso_server.core.notification import Notification
from aviso_server.core.schema import Schema
from aviso_server.core.topic import tokens_of
from aviso_server.core.wire import NotificationRequest

_TRIMMED_FROM = 512
"""Payloads of more bytes are copied to their exact size."""


def _anybody(_: Schema) -> None:
    """Where nobody is refused."""


def notification_of(
    schema: Schema, request: NotificationRequest, admit: Callable[[Schema], None] = _anybody
) -> Notification:
    """The notification that a request announces; the first rule it breaks, in the protocol's order.

    ``admit`` raises for what the caller may not do; it is asked after members that only make sense
    when reading, and before any value (docs/protocol.md#order-of-checks).
    """
    refuse_ends(request)
    refuse_point(request.identifier)
    admit(schema)
    identifier = read_identifier(schema, request.identifier)
    if request.payload is UNSET and schema.payload_required:
        raise InvalidRequest(
            "Payload is required for notify operation based on schema configuration",
            field="payload",
        )
    payload = b"null" if request.payload is UNSET else compact(request.payload)
    if len(payload) > _TRIMMED_FROM:
        # The encoder's buffer is half as large again as its text, and would be kept with it.
        payload = bytes(memoryview(payload))
    tokens = tokens_of(schema, identifier.values, identifier.geometry)
    return Notification(schema.event_type, tokens, identifier.values, identifier.geometry, payload)
