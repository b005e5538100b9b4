"""Identifiers: presence rules and the order of errors."""

from dataclasses import replace

import pytest
from support.config import settings

from aviso_server.core.errors import InvalidRequest
from aviso_server.core.fields.known import MAX_LENGTH, MAX_TEXTS
from aviso_server.core.geometry import Area, Cloud
from aviso_server.core.identifier import (
    check_spatial,
    compile_filter,
    read_identifier,
    refuse_point,
)
from aviso_server.core.json import Json
from aviso_server.core.operation import Operation
from aviso_server.core.schema import Catalogue
from aviso_server.core.spatial import Contains, Intersects

SCHEMAS = settings().catalogue.schemas
EXTREME, POLYGON, CLOUD, DISS = (
    SCHEMAS[name] for name in ("extreme", "test_polygon", "observations", "diss2")
)
GENERIC = Catalogue(strict=False).find("made_up")
RING: Json = [[0, 0], [0, 1], [1, 1], [0, 0]]
GOOD: dict[str, Json] = {"region": "North", "run_time": "12:00", "severity": 4, "anomaly": 42.5}


def refusal(schema: str, identifier: dict[str, Json], operation: Operation) -> str:
    """The message a request is refused with."""
    found = GENERIC if schema == "made_up" else SCHEMAS[schema]
    with pytest.raises(InvalidRequest) as caught:
        _ = (
            read_identifier(found, identifier)
            if operation is Operation.NOTIFY
            else compile_filter(found, identifier, operation)
        )
    return caught.value.message


def test_announced_values_are_canonical_and_sorted() -> None:
    """The worked example: canonical text, in name order."""
    assert list(read_identifier(EXTREME, GOOD).values.items()) == [
        ("anomaly", "42.5"),
        ("region", "north"),
        ("run_time", "1200"),
        ("severity", "4"),
    ]


@pytest.mark.parametrize(
    ("schema", "identifier", "message"),
    [
        ("extreme", {**GOOD, "zz": 1, "aa": 1}, "Unknown field 'aa' provided for notify operation"),
        ("extreme", {"zz": 1}, "Unknown field 'zz' provided for notify operation"),
        ("extreme", {}, "Required field 'region' missing for notify operation"),
        (
            "extreme",
            {"severity": 9, "region": "East"},
            "Required field 'run_time' missing for notify operation",
        ),
        (
            "extreme",
            {"severity": 9, "region": "x"},
            ("Field 'region' has invalid value 'x'. Allowed: [north, south, east, west]"),
        ),
        ("extreme", {**GOOD, "region": None}, "Field 'region' cannot be null"),
        (
            "extreme",
            {**GOOD, "region": ["n"]},
            "Field 'region' must be a scalar value or constraint object, got array",
        ),
        (
            "extreme",
            {**GOOD, "severity": {"eq": 4}},
            "Field 'severity' constraint object is not supported for notify operation",
        ),
        ("extreme", {**GOOD, "anomaly": "*"}, "Field 'anomaly' must be a valid number, got: '*'"),
        (
            "test_polygon",
            {"date": "20250706", "time": "12", "polygon": None},
            "Field 'polygon' cannot be null",
        ),
        (
            "test_polygon",
            {"date": "20250706", "time": "12", "polygon": {"eq": 1}},
            "Field 'polygon' constraint object is not supported for notify operation",
        ),
        (
            "test_polygon",
            {"date": "20250706", "time": "12", "polygon": 5},
            (
                "field 'polygon' must be a valid polygon: "
                "polygon must be an array of [lat,lon] points or a compatible string"
            ),
        ),
        (
            "made_up",
            {"b": "", "a": {}},
            "Field 'a' constraint object is not supported for notify operation",
        ),
        ("made_up", {"b": ""}, "Field 'b' cannot be empty"),
    ],
)
def test_notify_refusals(schema: str, identifier: dict[str, Json], message: str) -> None:
    """Unknown names first, then the declared fields in schema order."""
    assert refusal(schema, identifier, Operation.NOTIFY) == message


@pytest.mark.parametrize("operation", [Operation.WATCH, Operation.REPLAY])
@pytest.mark.parametrize(
    ("schema", "identifier", "message"),
    [
        ("extreme", {"zz": {}, "oops": 4}, "Unknown field 'oops' provided for {op} operation"),
        ("extreme", {"point": "1,1"}, "Unknown field 'point' provided for {op} operation"),
        (
            "extreme",
            {"run_time": {"eq": "1200"}},
            "Field 'run_time' does not support constraint filters; expected scalar value",
        ),
        ("test_polygon", {}, "Required field 'polygon' missing for {op} operation"),
        ("test_polygon", {"polygon": None}, "Field 'polygon' cannot be null"),
        (
            "test_polygon",
            {"polygon": {"eq": RING}},
            "Field 'polygon' does not support constraint filters; expected scalar value",
        ),
        ("observations", {}, "Required field 'point_cloud' missing for {op} operation"),
        (
            "observations",
            {"point_cloud": RING, "point": "1,1"},
            (
                "identifier.point_cloud is only supported for notify operation; "
                "use identifier.polygon for watch and replay"
            ),
        ),
        (
            "observations",
            {"date": "x", "point": "1,1"},
            "identifier.point is not supported for point-cloud schemas",
        ),
        ("diss2", {"note": ""}, "Required field 'destination' missing for {op} operation"),
        ("made_up", {"point": "1,1"}, "Field 'point' is not supported without schema"),
        (
            "made_up",
            {"a": {"eq": 1}},
            "Field 'a' constraint object is not supported without schema",
        ),
        ("made_up", {"a": ""}, "Field 'a' cannot be empty"),
    ],
)
def test_filter_refusals(
    schema: str, identifier: dict[str, Json], message: str, operation: Operation
) -> None:
    """The presence rules of watch and replay."""
    assert refusal(schema, identifier, operation) == message.format(op=operation.value)


def test_spatial_filters() -> None:
    """polygon intersects, point contains; on clouds a polygon asks for any point in it."""
    area = compile_filter(POLYGON, {"polygon": RING}, Operation.WATCH).spatial
    point = compile_filter(POLYGON, {"point": [0.5, 0.6]}, Operation.WATCH).spatial
    cloud = compile_filter(CLOUD, {"polygon": RING}, Operation.WATCH).spatial
    assert isinstance(area, Intersects)
    assert isinstance(point, Contains)
    assert isinstance(cloud, Intersects)


def test_spatial_values_are_geometry_not_text() -> None:
    """Spatial fields are kept beside the other values."""
    with_area = read_identifier(POLYGON, {"date": "20250706", "time": "12", "polygon": RING})
    with_cloud = read_identifier(CLOUD, {"date": "20250706", "point_cloud": RING})
    assert isinstance(with_area.geometry, Area)
    assert isinstance(with_cloud.geometry, Cloud)
    assert "polygon" not in with_area.values
    assert "point_cloud" not in with_cloud.values


def test_a_constraint_satisfies_a_required_field() -> None:
    """``required`` asks for the field, not for a scalar."""
    schema = settings(
        schemas={
            "x": {
                "topic": {"base": "x", "key_order": ["n"]},
                "identifier": {"n": {"type": "IntHandler", "required": True}},
            }
        }
    ).catalogue.schemas["x"]
    assert compile_filter(schema, {"n": {"gte": 3}}, Operation.WATCH).constraints


def test_endpoint_level_spatial_checks() -> None:
    """Point on notify, polygon with point, and a bad point."""
    with pytest.raises(InvalidRequest, match="only supported for watch/replay endpoints"):
        refuse_point({"point": None})
    with pytest.raises(InvalidRequest, match="Cannot specify both identifier"):
        check_spatial({"point": None, "polygon": None})
    with pytest.raises(InvalidRequest, match="Field 'point' cannot be null"):
        check_spatial({"point": None})
    with pytest.raises(InvalidRequest, match="constraint object is not allowed"):
        check_spatial({"point": {}})
    with pytest.raises(InvalidRequest, match="pair or compatible string: latitude 91 is"):
        check_spatial({"point": "91,0"})
    check_spatial({"polygon": None})


def test_what_was_read_before_reads_the_same() -> None:
    """Canonical texts are remembered as texts only: 1, 1.0 and true stay three values."""
    schema = replace(EXTREME)
    region = {**GOOD, "severity": "4"}
    for severity in ("4", 4, "+4", "04", 4):
        assert read_identifier(schema, {**region, "severity": severity}).values["severity"] == "4"
    bad: list[Json] = [4.5, True, None, [4], {"eq": 4}, "four"]
    for wrong in bad:
        with pytest.raises(InvalidRequest) as caught:
            read_identifier(schema, {**region, "severity": wrong})
        assert caught.value.field == "severity"
    assert set(schema.texts["severity"]) == {"4", "+4", "04"}


def test_what_is_remembered_of_a_field_is_bounded() -> None:
    """Clients choose the texts: neither many of them nor long ones are kept."""
    texts = replace(DISS).texts["destination"]
    for number in range(2 * MAX_TEXTS):
        assert texts[f"FOO{number}"] == f"FOO{number}"
    assert len(texts) <= MAX_TEXTS
    assert texts["X" * (MAX_LENGTH + 1)] == "X" * (MAX_LENGTH + 1)
    assert max(map(len, map(str, texts))) <= MAX_LENGTH
