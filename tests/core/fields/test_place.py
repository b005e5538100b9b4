"""Polygon and point cloud fields, and the filter point."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.places import RINGS

from aviso_server.core.errors import InvalidRequest
from aviso_server.core.fields.coordinate import Unfit, UnfitPoint, read_pair, read_pairs, read_row
from aviso_server.core.fields.place import (
    PointCloudField,
    PolygonField,
    parse_point,
    parse_polygon,
)
from aviso_server.core.geometry import Area, Cloud, Point, Points, flat_text
from aviso_server.core.json import Json
from aviso_server.core.numeral import float_text, parse_float

POLYGON = PolygonField(name="polygon", required=True)
CLOUD = PointCloudField(name="point_cloud", required=True)
TEXT = "(52.5,13.4,52.6,13.5,52.5,13.6,52.4,13.5,52.5,13.4)"
PAIRS: Json = [[52.5, 13.4], [52.6, 13.5], [52.5, 13.6], [52.4, 13.5], [52.5, 13.4]]
RING = ((52.5, 13.4), (52.6, 13.5), (52.5, 13.6), (52.4, 13.5), (52.5, 13.4))


@pytest.mark.parametrize(
    "value",
    [
        PAIRS,
        TEXT,
        TEXT[1:-1],
        "[[52.5,13.4],[52.6,13.5],[52.5,13.6],[52.4,13.5],[52.5,13.4]]",
        " ( 52.5 , 13.4, 52.60,1.35e1, +52.5,13.6,52.4,13.5,\t52.5,13.4 )\n",
    ],
)
def test_every_shape_gives_the_same_ring(value: Json) -> None:
    """Arrays, text with or without parentheses and blanks, and JSON in text are one thing."""
    assert POLYGON.parse(value).points == RING


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (PAIRS, TEXT),
        (TEXT, TEXT),
        ("  " + TEXT[1:-1] + "\n", TEXT[1:-1]),
        (
            TEXT.replace(",", ", ").replace("52.5", "52.50"),
            "(52.50, 13.4, 52.6, 13.5, 52.50, 13.6, 52.4, 13.5, 52.50, 13.4)",
        ),
        (TEXT.replace("(", "(\t"), TEXT),
        (TEXT.replace("13.6", "13.6\u00a0"), TEXT),
        (f"[{','.join(str(list(p)) for p in RING)}]", TEXT),
        ([[0, 0], [1, -0.0], [1, 1], [0, 0]], "(0,0,1,0,1,1,0,0)"),
    ],
)
def test_polygon_text_is_the_producers_where_it_can_be(value: Json, text: str) -> None:
    """Flat visible text is kept, trimmed; anything else is written in float text."""
    assert POLYGON.parse(value).text == text


@given(RINGS)
def test_polygon_text_reads_back_exactly(ring: Points) -> None:
    """What we store gives the same area again."""
    area = parse_polygon("polygon", [list(point) for point in ring])
    assert area.points == ring
    assert parse_polygon("polygon", area.text) == area == Area.of(area.points)


SHORT = (
    "polygon must have at least 4 coordinate pairs "
    "(3 unique vertices plus a closing repeat of the first vertex)"
)
SHAPE = "polygon must be an array of [lat,lon] points or a compatible string"
PAIR = "coordinate must be a two-element array [lat,lon]"
NESTED = (
    "polygon coordinate string must have at most one outer pair of parentheses; "
    "nested '(' or ')' are not allowed"
)
ODD = "polygon coordinates must be in lat,lon pairs (got an odd number of values)"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (4, SHAPE),
        (True, SHAPE),
        ([1, 2, 3, 4], f"polygon point 0 is invalid: {PAIR}"),
        ([[0, 0], [1]], f"polygon point 1 is invalid: {PAIR}"),
        ([["0", 0]], "polygon point 0 is invalid: latitude must be a number"),
        ([[95, True]], "polygon point 0 is invalid: longitude must be a number"),
        ([[10**400, 0]], "polygon point 0 is invalid: latitude must be finite"),
        ([[95, float("inf")]], "polygon point 0 is invalid: longitude must be finite"),
        ([[95, 0]], "polygon point 0 is invalid: latitude 95 is outside the valid range [-90, 90]"),
        (
            [[0, 180.5]],
            "polygon point 0 is invalid: longitude 180.5 is outside the valid range [-180, 180]",
        ),
        ([], SHORT),
        ("[]", SHORT),
        (
            "[[95, 0]]",
            "polygon point 0 is invalid: latitude 95 is outside the valid range [-90, 90]",
        ),
        ("", "polygon coordinate string is empty"),
        (" \n", "polygon coordinate string is empty"),
        ("(1,2", "polygon coordinate string has opening '(' but is missing the closing ')'"),
        ("(", "polygon coordinate string has opening '(' but is missing the closing ')'"),
        ("1,2)", "polygon coordinate string has closing ')' but is missing the opening '('"),
        ("(50,10),52,10)", NESTED),
        ("((1,2))", NESTED),
        ("1,(2),3", NESTED),
        ("()", "polygon coordinate string is empty between parentheses"),
        ("(  )", "polygon coordinate string is empty between parentheses"),
        ("1,2,", ODD),
        ("x", ODD),
        ("1,2,,4", "could not parse latitude '' as a number"),
        ("1,x", "could not parse longitude 'x' as a number"),
        ("1_0,2", "could not parse latitude '1_0' as a number"),
        ("91,2", "latitude 91 is outside the valid range [-90, 90]"),
        ("inf,2", "latitude inf is outside the valid range [-90, 90]"),
        ("0,nan", "longitude NaN is outside the valid range [-180, 180]"),
        ("0,270", "longitude 270 is outside the valid range [-180, 180]"),
        ("0,0,1,1,0,0", SHORT),
        (
            "0,0,1,1,1,0,0,1",
            "polygon must be closed (first and last coordinates must be identical)",
        ),
    ],
)
def test_refused_polygons(value: Json, reason: str) -> None:
    """Each reason in its place of the check order."""
    with pytest.raises(InvalidRequest) as caught:
        POLYGON.parse(value)
    assert caught.value.message == f"field 'polygon' must be a valid polygon: {reason}"
    assert caught.value.details == caught.value.message


@pytest.mark.parametrize("text", ["[[1,2]", "[1,2)", "[" * 100_000, "[1e400]"])
def test_text_with_broken_json_is_refused(text: str) -> None:
    """A text that begins like an array must be JSON; hostile nesting is an error, not a crash."""
    with pytest.raises(InvalidRequest) as caught:
        POLYGON.parse(text)
    assert caught.value.message.startswith(
        "field 'polygon' must be a valid polygon: invalid polygon JSON array: "
    )


def test_odd_rings_are_accepted() -> None:
    """Collinear, all-equal and self-crossing rings are polygons; limits are inclusive."""
    for text in ("0,0,1,1,2,2,0,0", "1,1,1,1,1,1,1,1", "0,0,2,2,2,0,0,2,0,0"):
        assert POLYGON.parse(text).text == text
    assert POLYGON.parse("90,180,-90,180,-90,-180,90,180").points[0] == (90.0, 180.0)


def test_clouds_keep_order_and_repeats() -> None:
    """A cloud is exactly the producer's list, in doubles."""
    cloud = CLOUD.parse([[52.5, 13], [10, 10], [52.5, 13]])
    assert cloud == Cloud(((52.5, 13.0), (10.0, 10.0), (52.5, 13.0)))
    assert cloud.text == "[[52.5,13.0],[10.0,10.0],[52.5,13.0]]"


@pytest.mark.parametrize(
    ("value", "message", "details"),
    [
        ("[[1,2]]", "field 'point_cloud' must be a JSON array of [lat,lon] points", None),
        (4, "field 'point_cloud' must be a JSON array of [lat,lon] points", None),
        ([], "field 'point_cloud' point cloud must contain at least one point", None),
        ([[1, 2]] * 4, "field 'point_cloud' point cloud contains 4 points, maximum is 3", None),
        ([[1, 2], [1, 2, 3]], f"field 'point_cloud' point 1 is invalid: {PAIR}", PAIR),
        (
            [[91, 2]],
            (
                "field 'point_cloud' point 0 is invalid: latitude 91 is outside the valid range "
                "[-90, 90]"
            ),
            "latitude 91 is outside the valid range [-90, 90]",
        ),
    ],
)
def test_refused_clouds(value: Json, message: str, details: str | None) -> None:
    """Shape, then count, then each point; a bad point's reason is the details."""
    field = PointCloudField(name="point_cloud", required=True, max_points=3)
    with pytest.raises(InvalidRequest) as caught:
        field.parse(value)
    assert (caught.value.message, caught.value.details) == (message, details or message)


def test_cloud_size_is_limited_in_bytes() -> None:
    """61440 bytes of canonical JSON are allowed, one more is not."""
    # Every point below takes 20 bytes with its comma; brackets and commas add one in all.
    full: list[Json] = [[12.34567, -23.4567]] * 3071
    rest = CLOUD.parse(full).text
    spare = 61_440 - len(rest) - 1
    assert spare == len("[12.3456,-23.4567]")
    assert len(CLOUD.parse([*full, [12.3456, -23.4567]]).text) == 61_440
    with pytest.raises(InvalidRequest) as caught:
        CLOUD.parse([*full, [12.34567, -23.4567]])
    assert caught.value.message == (
        "field 'point_cloud' point cloud canonical JSON is 61441 bytes, maximum is 61440 bytes"
    )


@pytest.mark.parametrize(
    "value", ["52.55,13.5", [52.55, 13.5], "(52.55,13.5)", " ( 52.55 , 1.35e1 ) ", " [52.55,13.5]"]
)
def test_points(value: Json) -> None:
    """Array and text give the same point."""
    assert parse_point(value) == (52.55, 13.5)


@pytest.mark.parametrize(
    ("value", "inner"),
    [
        ("", "Point coordinate string cannot be empty"),
        ("  ", "Point coordinate string cannot be empty"),
        ("1", "Point must be in 'lat,lon' format"),
        ("x", "Point must be in 'lat,lon' format"),
        ("1,2,3", "Point must contain exactly two values: 'lat,lon'"),
        ("x,2", "Invalid latitude value: x"),
        ("(1,2", "Invalid latitude value: (1"),
        ("1,", "Invalid longitude value: "),
        ("91,0", "latitude 91 is outside the valid range [-90, 90]"),
        ("nan,0", "latitude must be finite"),
        ("91,inf", "longitude must be finite"),
        ("0,-180.5", "longitude -180.5 is outside the valid range [-180, 180]"),
        ([91, 0], "latitude 91 is outside the valid range [-90, 90]"),
        ("[91, 0]", "latitude 91 is outside the valid range [-90, 90]"),
        ("[1]", PAIR),
        ("[1,2", "invalid point JSON array: unexpected end of input at line 1 column 5"),
        ([1], PAIR),
        (4, "point must be a two-element array [lat,lon] or a compatible string"),
        (True, "point must be a two-element array [lat,lon] or a compatible string"),
        (["1", 2], "latitude must be a number"),
    ],
)
def test_refused_points(value: Json, inner: str) -> None:
    """The inner text depends on the form, the outer is always the same."""
    with pytest.raises(InvalidRequest) as caught:
        parse_point(value)
    assert caught.value.message == (
        f"identifier.point must be a valid [lat,lon] coordinate pair or compatible string: {inner}"
    )


@given(st.text(alphabet="0123456789.,()[]-+einfa x"))
def test_no_text_crashes_the_parsers(text: str) -> None:
    """Any text is a place or an InvalidRequest."""
    with suppress(InvalidRequest):
        assert POLYGON.parse(text).points[0] == POLYGON.parse(text).points[-1]
    with suppress(InvalidRequest):
        lat, lon = parse_point(text)
        assert -90 <= lat <= 90
        assert -180 <= lon <= 180


NUMBERS = st.one_of(
    st.floats(-200, 200),
    st.integers(-200, 200),
    st.sampled_from([10**400, True, None, "1", float("inf"), -0.0, [1]]),
)
ITEMS = st.lists(st.one_of(st.lists(NUMBERS, min_size=2, max_size=2), st.lists(NUMBERS)))


@given(ITEMS)
def test_many_points_are_read_like_each_of_them(items: list[Json]) -> None:
    """All at once gives the points, or the number and the reason, of one after the other."""

    def one_by_one() -> object:
        points = []
        for number, item in enumerate(items):
            try:
                points.append(read_pair(item))
            except Unfit as why:
                return number, str(why)
        return tuple(points)

    def at_once() -> object:
        try:
            return read_pairs(items)
        except UnfitPoint as why:
            return why.number, str(why)

    assert repr(at_once()) == repr(one_by_one())


TEXTS = st.lists(
    st.text("0123456789.-+e ", max_size=5)
    | st.sampled_from(["1", " -0", "inf", "NaN", "1_0", "٣", "\u00a01", "91", "1e400"])
)


@given(TEXTS)
def test_a_row_is_read_like_each_of_its_numbers(parts: list[str]) -> None:
    """All at once, a text is a number exactly if it is one of the service's grammar."""
    row = ",".join(parts)
    numbers = [parse_float(part.strip()) for part in row.split(",")]
    good = len(numbers) % 2 == 0 and all(
        number is not None and abs(number) <= (90, 180)[i % 2] for i, number in enumerate(numbers)
    )
    try:
        points = read_row(row)
    except Unfit:
        assert not good
    else:
        assert good
        assert [number for point in points for number in point] == numbers
        assert "-0.0" not in repr(points)


def test_a_polygon_has_as_many_points_as_its_type_allows() -> None:
    """One more is refused before any of them is read; what is stored is read whatever its size."""
    values: list[Json] = [[[0, 0], [0, 1], [1, 1], [0, 0]], "[[0,0],[0,1],[1,1],[0,0]]"]
    for value in (*values, "0,0,0,1,1,1,0,0"):
        assert len(parse_polygon("polygon", value, max_points=4).points) == 4
        with pytest.raises(InvalidRequest) as caught:
            parse_polygon("polygon", value, max_points=3)
        assert caught.value.message == (
            "field 'polygon' must be a valid polygon: polygon has 4 coordinate pairs, maximum is 3"
        )
    with pytest.raises(InvalidRequest, match="maximum is 3"):
        parse_polygon("polygon", ["x"] * 4, max_points=3)


@given(st.lists(st.tuples(st.floats(-180, 180), st.floats(-180, 180)), max_size=5))
def test_rows_are_written_in_float_text(points: list[Point]) -> None:
    """However many numbers are written at once, each is written as one alone."""
    assert flat_text(points) == ",".join(float_text(n) for point in points for n in point)
