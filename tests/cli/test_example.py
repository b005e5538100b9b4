"""Sample notifications are ones the server accepts."""

import pytest

from aviso_server.cli.example import notification
from aviso_server.core.fields import registry
from aviso_server.core.identifier import read_identifier
from aviso_server.core.json import Json
from aviso_server.core.schema import Schema


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("f", {"type": "StringHandler"}),
        ("long_name", {"type": "StringHandler", "max_length": 1}),
        ("f", {"type": "DateHandler", "canonical_format": "%Y-%m-%d"}),
        ("f", {"type": "TimeHandler"}),
        ("f", {"type": "EnumHandler", "values": ["Über", "b"]}),
        ("f", {"type": "ExpverHandler"}),
        ("f", {"type": "IntHandler"}),
        ("f", {"type": "IntHandler", "range": [-5, -2]}),
        ("f", {"type": "FloatHandler"}),
        ("f", {"type": "FloatHandler", "range": [0.25, 0.5]}),
        ("polygon", {"type": "PolygonHandler"}),
        ("point_cloud", {"type": "PointCloudHandler", "max_points": 1}),
    ],
)
def test_the_sample_of_every_field_type_is_accepted(name: str, spec: dict[str, Json]) -> None:
    """Whatever the options, the sample value passes the field's own check."""
    field = registry.build("e", name, {**spec, "required": True})
    schema = Schema(event_type="e", base="e", fields=(field,), key_order=())
    identifier = notification(schema)["identifier"]
    assert isinstance(identifier, dict)
    read_identifier(schema, identifier)


@pytest.mark.parametrize(("required", "present"), [(None, False), (False, False), (True, True)])
def test_a_payload_is_shown_where_one_is_required(required: bool | None, present: bool) -> None:
    """An optional payload is left out of the sample."""
    assert ("payload" in notification(Schema("e", payload_required=required))) is present
