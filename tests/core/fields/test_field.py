"""How an identifier value becomes text, and what all fields share."""

import re

import msgspec
import pytest

from aviso_server.core.errors import InvalidRequest
from aviso_server.core.fields.field import Field, scalar_text
from aviso_server.core.fields.moment import DateField, TimeField
from aviso_server.core.fields.place import PointCloudField, PolygonField
from aviso_server.core.fields.text import ExpverField, StringField
from aviso_server.core.json import Json


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ('"  A "', "  A "),
        ("4", "4"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("-0", "0"),
        ("4.0", "4.0"),
        ("12.50", "12.5"),
        ("1e3", "1000.0"),
        ("1e16", "1e16"),
        ("1e-7", "1e-7"),
        ("true", "true"),
        ("false", "false"),
    ],
)
def test_json_becomes_text(raw: str, text: str) -> None:
    """Every kind of value, from JSON source to the text a field sees."""
    assert scalar_text("f", msgspec.json.decode(raw)) == text


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "Field 'f' cannot be null"),
        ([], "Field 'f' must be a scalar value or constraint object, got array"),
        (["a"], "Field 'f' must be a scalar value or constraint object, got array"),
    ],
)
def test_json_that_is_no_scalar(value: Json, message: str) -> None:
    """Null never means omitted, and arrays are no values."""
    with pytest.raises(InvalidRequest, match=f"^{re.escape(message)}$"):
        scalar_text("f", value)


@pytest.mark.parametrize(
    "field",
    [
        StringField(name="f", required=True),
        DateField(name="f", required=True),
        TimeField(name="f", required=True),
        ExpverField(name="f", required=True),
        PolygonField(name="f", required=True),
        PointCloudField(name="f", required=True),
    ],
)
def test_fields_without_operators_refuse_constraints(field: Field) -> None:
    """Only numbers and enums know operators."""
    with pytest.raises(InvalidRequest) as caught:
        field.constrain({"eq": "1200"})
    assert caught.value.message == (
        "Field 'f' does not support constraint filters; expected scalar value"
    )
