"""Schemas survive the way into JSON and back."""

import pytest
from support import config

from aviso_server.core.declaration import BadDeclaration, declaration, read_declaration
from aviso_server.core.json import compact, parse
from aviso_server.core.schema import Schema


def test_every_schema_comes_back() -> None:
    """A reader of a stream knows the fields, the order of tokens and the rules for values."""
    for schema in config.settings().catalogue.schemas.values():
        again = read_declaration(parse(compact(declaration(schema))))
        assert again.fields == schema.fields
        assert (again.event_type, again.base, again.key_order, again.payload_required) == (
            schema.event_type,
            schema.base,
            schema.key_order,
            schema.payload_required,
        )


def test_event_types_without_schema_come_back() -> None:
    """The mark of an event type that nobody configured is kept."""
    generic = Schema(event_type="anything", base="anything", generic=True)
    assert read_declaration(declaration(generic)) == generic


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        {"event_type": "a", "base": "a"},
        {"event_type": "a", "base": "a", "identifier": {}},
        {"event_type": "a", "base": "a", "identifier": [{"type": "IntHandler"}]},
        {"event_type": "a", "base": "a", "identifier": [{"name": "x", "type": "Nothing"}]},
        {"event_type": "a", "base": "a", "identifier": [], "key_order": "x"},
    ],
)
def test_other_json_is_refused(value: object) -> None:
    """What declares nothing says so."""
    with pytest.raises(BadDeclaration):
        read_declaration(value)  # type: ignore[arg-type]
