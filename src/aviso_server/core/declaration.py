"""A schema as JSON and back, so that any reader of a stream can read its notifications.

The text travels in the stream's own metadata: a Spark job that is given only the address of NATS
then knows which topic token is which field. Access rules and storage policies are the server's
business and stay there.
"""

from aviso_server.core.errors import AvisoError
from aviso_server.core.fields.field import Field
from aviso_server.core.fields.registry import FieldFaults, build
from aviso_server.core.json import Json
from aviso_server.core.schema import Schema


class BadDeclaration(AvisoError):
    """The JSON does not declare an event type; the message says why."""


def declaration(schema: Schema) -> dict[str, Json]:
    """What a reader must know of an event type."""
    declared: dict[str, Json] = {
        "event_type": schema.event_type,
        "base": schema.base,
        # A list, for the order of fields is the order of error reports.
        "identifier": [{"name": field.name, **field.view()} for field in schema.fields],
    }
    if schema.key_order is not None:
        declared["key_order"] = list(schema.key_order)
    if schema.payload_required is not None:
        declared["payload_required"] = schema.payload_required
    if schema.generic:
        declared["generic"] = True
    return declared


def read_declaration(value: Json) -> Schema:
    """The schema that ``declaration`` wrote down, or BadDeclaration."""
    if not isinstance(value, dict):
        raise BadDeclaration("a declaration is a JSON object")
    event_type, base = value.get("event_type"), value.get("base")
    identifier, order = value.get("identifier"), value.get("key_order")
    required = value.get("payload_required")
    if not isinstance(event_type, str) or not isinstance(base, str):
        raise BadDeclaration("a declaration names its event_type and its base")
    if not isinstance(identifier, list):
        raise BadDeclaration(f"the declaration of '{event_type}' has no identifier")
    if order is not None and not isinstance(order, list):
        raise BadDeclaration(f"the key_order of '{event_type}' is not a list")
    return Schema(
        event_type=event_type,
        fields=tuple(_field(event_type, spec) for spec in identifier),
        base=base,
        key_order=None if order is None else tuple(map(str, order)),
        payload_required=required if isinstance(required, bool) else None,
        generic=value.get("generic") is True,
    )


def _field(event_type: str, value: Json) -> Field:
    if not isinstance(value, dict) or not isinstance(name := value.get("name"), str):
        raise BadDeclaration(f"a field of '{event_type}' is not declared by an object with a name")
    try:
        return build(event_type, name, {key: item for key, item in value.items() if key != "name"})
    except FieldFaults as error:
        raise BadDeclaration(f"field '{name}' of '{event_type}': {error}") from error
