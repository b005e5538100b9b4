"""The filter of a read: compiled as a watch request's identifier is, by the same code. Pure."""

from collections.abc import Mapping

from aviso_server.core.errors import InvalidRequest
from aviso_server.core.filter import Filter
from aviso_server.core.identifier import check_spatial, requested
from aviso_server.core.json import Json
from aviso_server.core.operation import Operation
from aviso_server.core.schema import Schema
from aviso_server.pipeline.source.failure import BadOption


def filter_of(schema: Schema, identifier: Mapping[str, Json] | None) -> Filter | None:
    """The filter on one event type, None where everything is asked for; BadOption if it is none."""
    if identifier is None:
        return None
    try:
        check_spatial(identifier)
        return requested(schema, identifier, Operation.REPLAY)
    except InvalidRequest as error:
        raise BadOption(f"filter on '{schema.event_type}': {error.message}") from None
