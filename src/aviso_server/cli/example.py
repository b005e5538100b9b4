"""A notification that a schema accepts, for people to start from."""

from aviso_server.core.fields.field import Field
from aviso_server.core.json import Json
from aviso_server.core.schema import Schema

_RING: Json = [[52.5, 13.4], [52.6, 13.5], [52.5, 13.6], [52.4, 13.5], [52.5, 13.4]]
_FIXED: dict[str, Json] = {
    "DateHandler": "20250706",
    "TimeHandler": "1200",
    "ExpverHandler": "0001",
    "PolygonHandler": _RING,
    "PointCloudHandler": [[52.5, 13.4]],
}


_USUAL: dict[str, str] = {
    "class": "od",
    "destination": "FOO",
    "domain": "g",
    "stream": "oper",
    "target": "E1",
}
"""What people in the field would write for fields of these names."""


def notification(schema: Schema) -> dict[str, Json]:
    """The body of a notify request with a value for every field."""
    body: dict[str, Json] = {
        "event_type": schema.event_type,
        "identifier": {field.name: _value(field) for field in schema.fields},
    }
    if schema.payload_required:
        body["payload"] = {"note": "hello"}
    return body


def _value(field: Field) -> Json:
    if field.type in _FIXED:
        return _FIXED[field.type]
    if field.type == "StringHandler" and field.name in _USUAL:
        return _USUAL[field.name]
    match field.view():
        case {"values": [first, *_]}:
            return first
        case {"range": [low, _]}:
            return low
        case {"max_length": int(longest)}:
            return field.name[:longest]
    return 1 if field.type in {"IntHandler", "FloatHandler"} else field.name
