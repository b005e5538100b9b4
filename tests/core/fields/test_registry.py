"""Field definitions of the configuration."""

import pytest

from aviso_server.core.fields.field import Field
from aviso_server.core.fields.moment import DateField, TimeField
from aviso_server.core.fields.number import FloatField, IntField
from aviso_server.core.fields.place import PointCloudField, PolygonField
from aviso_server.core.fields.registry import FieldFaults, build
from aviso_server.core.fields.text import EnumField, ExpverField, StringField
from aviso_server.core.json import Json


def faults(name: str, **spec: Json) -> list[tuple[str, str]]:
    """What is wrong with a definition that is otherwise complete."""
    with pytest.raises(FieldFaults) as caught:
        build("ev", name, {"required": True, **spec})
    return caught.value.faults


@pytest.mark.parametrize(
    ("name", "spec", "field"),
    [
        ("f", {"type": "StringHandler"}, StringField(name="f", required=True)),
        (
            "f",
            {"type": "StringHandler", "max_length": 5},
            StringField(name="f", required=True, max_length=5),
        ),
        ("f", {"type": "DateHandler"}, DateField(name="f", required=True)),
        (
            "f",
            {"type": "DateHandler", "canonical_format": "%Y-%m-%d"},
            DateField(name="f", required=True, canonical_format="%Y-%m-%d"),
        ),
        ("f", {"type": "TimeHandler"}, TimeField(name="f", required=True)),
        (
            "f",
            {"type": "EnumHandler", "values": ["A", "b"]},
            EnumField(name="f", required=True, values=("A", "b")),
        ),
        (
            "f",
            {"type": "ExpverHandler", "default": "1"},
            ExpverField(name="f", required=True, default="1"),
        ),
        (
            "f",
            {"type": "IntHandler", "range": [1, 7]},
            IntField(name="f", required=True, range=(1, 7)),
        ),
        (
            "f",
            {"type": "FloatHandler", "range": [0, 100.5]},
            FloatField(name="f", required=True, range=(0.0, 100.5)),
        ),
        ("polygon", {"type": "PolygonHandler"}, PolygonField(name="polygon", required=True)),
        (
            "polygon",
            {"type": "PolygonHandler", "max_points": 10_000},
            PolygonField(name="polygon", required=True, max_points=10_000),
        ),
        (
            "point_cloud",
            {"type": "PointCloudHandler", "max_points": 10},
            PointCloudField(name="point_cloud", required=True, max_points=10),
        ),
    ],
)
def test_every_type_can_be_built(name: str, spec: dict[str, Json], field: Field) -> None:
    """Each type's word and options give the field they describe."""
    assert build("ev", name, {"required": True, **spec}) == field


@pytest.mark.parametrize(("given", "text"), [(7, "7"), (True, "true"), (1.5, "1.5"), ("x", "x")])
def test_descriptions_are_lenient(given: Json, text: str) -> None:
    """Only ``description`` takes numbers and booleans as text."""
    spec: dict[str, Json] = {"type": "TimeHandler", "required": False, "description": given}
    assert build("ev", "f", spec).description == text


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"type": "IntHandler", "range": ["1", "2"]}, ("range", "expected a list of two integers")),
        ({"type": "IntHandler", "range": [1, 2.0]}, ("range", "expected a list of two integers")),
        ({"type": "IntHandler", "range": [True, 2]}, ("range", "expected a list of two integers")),
        ({"type": "IntHandler", "range": [1, 2**63]}, ("range", "expected a list of two integers")),
        ({"type": "IntHandler", "range": [1]}, ("range", "expected a list of two integers")),
        ({"type": "FloatHandler", "range": 4}, ("range", "expected a list of two numbers")),
        ({"type": "FloatHandler", "range": [1, "2"]}, ("range", "expected a list of two numbers")),
        ({"type": "StringHandler", "max_length": "5"}, ("max_length", "expected an integer")),
        ({"type": "StringHandler", "max_length": True}, ("max_length", "expected an integer")),
        ({"type": "EnumHandler", "values": "a"}, ("values", "expected a list of strings")),
        ({"type": "EnumHandler", "values": [1]}, ("values", "expected a list of strings")),
        ({"type": "EnumHandler"}, ("values", "missing field `values`")),
        ({"type": "ExpverHandler", "default": 1}, ("default", "expected a string")),
        ({"type": "TimeHandler", "required": "true"}, ("required", "expected a boolean")),
        ({"type": "TimeHandler", "required": 1}, ("required", "expected a boolean")),
        ({"type": "TimeHandler", "description": []}, ("description", "expected a string")),
        (
            {"type": "TimeHandler", "range": [1, 2], "max": 3},
            ("", "unknown field(s): range, max"),
        ),
    ],
)
def test_types_are_strict(spec: dict[str, Json], expected: tuple[str, str]) -> None:
    """Text is no number or boolean, a boolean is no integer, an int range has no fractions."""
    assert faults("f", **spec) == [expected]


@pytest.mark.parametrize(
    ("spec", "path", "words"),
    [
        (
            {"type": "DateHandler", "canonical_format": "%d"},
            "canonical_format",
            "canonical_format '%d' is not supported; use %Y%m%d or %Y-%m-%d",
        ),
        (
            {"type": "IntHandler", "range": [7, 1]},
            "range",
            "range must be finite with min <= max",
        ),
        (
            {"type": "FloatHandler", "range": [0, float("inf")]},
            "range",
            "range must be finite with min <= max",
        ),
        (
            {"type": "FloatHandler", "range": [float("nan"), 1]},
            "range",
            "range must be finite with min <= max",
        ),
        ({"type": "EnumHandler", "values": []}, "values", "values must not be empty"),
        (
            {"type": "EnumHandler", "values": ["a", ""]},
            "values",
            "values must not contain an empty value",
        ),
        ({"type": "EnumHandler", "values": ["a", "A"]}, "values", "values contain 'A' twice"),
        (
            {"type": "StringHandler", "max_length": 0},
            "max_length",
            "max_length must be greater than zero",
        ),
        ({"type": "ExpverHandler", "default": ""}, "default", "default must not be empty"),
    ],
)
def test_option_rules(spec: dict[str, Json], path: str, words: str) -> None:
    """Broken rules of fields name the schema and the identifier."""
    assert faults("f", **spec) == [(path, f"Schema 'ev' identifier 'f' {words}")]


@pytest.mark.parametrize(
    ("name", "word", "least", "limits"),
    [
        ("polygon", "PolygonHandler", 4, (0, 3, 10_001)),  # a ring has at least four points
        ("point_cloud", "PointCloudHandler", 1, (0, -1, 10_001)),
    ],
)
def test_max_points_has_bounds(name: str, word: str, least: int, limits: tuple[int, ...]) -> None:
    """A limit on points out of range is refused, word for word."""
    for limit in limits:
        why = f"field '{name}' max_points must be between {least} and 10000, got {limit}"
        assert faults(name, type=word, max_points=limit) == [("max_points", why)]


@pytest.mark.parametrize(
    ("name", "word", "expected"),
    [
        (
            "area",
            "PolygonHandler",
            (
                "type",
                "Schema 'ev' PolygonHandler must use the identifier name 'polygon', got 'area'",
            ),
        ),
        (
            "polygon",
            "PointCloudHandler",
            (
                "type",
                (
                    "Schema 'ev' PointCloudHandler must use the identifier name 'point_cloud', "
                    "got 'polygon'"
                ),
            ),
        ),
        ("point", "StringHandler", ("", "Schema 'ev' identifier 'point' is reserved")),
        ("polygon", "StringHandler", ("", "Schema 'ev' identifier 'polygon' is reserved")),
        ("point_cloud", "IntHandler", ("", "Schema 'ev' identifier 'point_cloud' is reserved")),
    ],
)
def test_spatial_names(name: str, word: str, expected: tuple[str, str]) -> None:
    """Spatial handlers and the three reserved names belong together."""
    assert faults(name, type=word) == [expected]


def test_unknown_types_are_told_the_known_ones() -> None:
    """A misspelt type lists what there is; a missing one says so."""
    assert faults("f", type="IntegerHandler") == [
        (
            "type",
            (
                "unknown type `IntegerHandler`, expected one of: StringHandler, DateHandler, "
                "EnumHandler, ExpverHandler, IntHandler, FloatHandler, TimeHandler, "
                "PolygonHandler, PointCloudHandler"
            ),
        )
    ]
    assert faults("f", type=4)[0][0] == "type"


def test_all_faults_come_together() -> None:
    """One start-up shows everything that is wrong with a field."""
    with pytest.raises(FieldFaults) as caught:
        build("ev", "f", {})
    assert caught.value.faults == [
        ("required", "missing field `required`"),
        ("type", "missing field `type`"),
    ]
    assert [
        path for path, _ in faults("point", type="IntHandler", required="x", range=[2, 1], z=1)
    ] == ["required", "", "", "range"]
