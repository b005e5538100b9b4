"""Places as text and back, and the place of a notification."""

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.browser import Tab

from aviso_server.core.fields.place import parse_polygon

CALL = """async ([name, values]) => {
  const fields = await import("/static/console/form/fields.js");
  return values.map((value) => {
    try {
      return fields[name](value);
    } catch (error) {
      return error.message;
    }
  });
}"""


def called(page: Tab, name: str, values: list[Any]) -> list[Any]:
    """What a function makes of each value, or the words of its error."""
    answer: list[Any] = page.page.evaluate(CALL, [name, values])
    return answer


POINTS_DRAWN = st.lists(
    st.tuples(st.floats(-90, 90), st.floats(-180, 180)).map(list), min_size=1, max_size=6
)
SPELLINGS: list[Callable[[list[list[float]]], str]] = [
    lambda points: " ".join(f"{lat},{lon}" for lat, lon in points),
    lambda points: "\n".join(f"  {lat} , {lon} " for lat, lon in points),
    lambda points: "\n".join(f"{lat} {lon}" for lat, lon in points),
    lambda points: "; ".join(f"{lat},{lon}" for lat, lon in points) + ";\n",
    lambda points: "(" + ",".join(f"{lat},{lon}" for lat, lon in points) + ")",
    lambda points: " ( " + ", ".join(f"{lat},{lon}" for lat, lon in points) + " ) ",
    lambda points: " " + json.dumps(points),
    lambda points: json.dumps(points, indent=2),
]


@settings(max_examples=50)
@given(POINTS_DRAWN)
def test_spellings_of_places(page: Tab, points: list[list[float]]) -> None:
    """Every spelling gives the same points; a ring is closed and one the server takes."""
    texts = [spell(points) for spell in SPELLINGS]
    assert called(page, "parsePoints", texts) == [points] * len(texts)
    ring = points if len(points) > 1 and points[0] == points[-1] else [*points, points[0]]
    expected = ring if len(ring) >= 4 else "An area needs at least three corners."
    found = called(page, "parseRing", texts)
    assert found == [expected] * len(texts)
    if not isinstance(found[0], str):
        parse_polygon("polygon", found[0])
        (text,) = called(page, "ringText", [found[0]])
        assert called(page, "parseRing", [text]) == [found[0]]


def test_places_that_are_none(page: Tab) -> None:
    """What is wrong with coordinates is said in words."""
    wrong = {
        "": "No coordinates yet.",
        " ( ) ": "No coordinates yet.",
        "[]": "No coordinates yet.",
        "1,2,3": "The last latitude has no longitude.",
        "1,2,,4": "“” is not a number.",
        "1,2 3,x": "“x” is not a number.",
        "0x1,2": "“0x1” is not a number.",
        "1,NaN": "“NaN” is not a number.",
        "(1,2": "“(1” is not a number.",
        "1,2 90.5,4": "Point 2: latitude 90.5 is outside -90 to 90.",
        "1,-181": "Point 1: longitude -181 is outside -180 to 180.",
        "1e400,2": "Point 1: latitude Infinity is outside -90 to 90.",
        "[[1,2],[3]]": "Point 2: a latitude and a longitude are wanted.",
        '[[1,"2"]]': "Point 1: the longitude is not a number.",
        "[1,2]": "Point 1: a latitude and a longitude are wanted.",
        "[[1,2]": "This begins like JSON and is none; pairs look like [[52.5,13.4], ...].",
    }
    assert dict(zip(wrong, called(page, "parsePoints", list(wrong)), strict=True)) == wrong
    points = ["52.5,13.4", "[52.5, 13.4]", "[[52.5,13.4]]", "(52.5 13.4)"]
    assert called(page, "parsePoint", points) == [[52.5, 13.4]] * 4
    assert called(page, "parsePoint", ["1,2 3,4"]) == ["One point is wanted, such as 52.5,13.4."]


RING = [[0, 0], [0, 1], [1, 1], [0, 0]]
FLAT = "(0,0,0,1,1,1,0,0)"


def event(**identifier: Any) -> dict[str, Any]:
    """The part of a CloudEvent that matters."""
    return {"data": {"identifier": identifier}}


def test_place_of_a_notification(page: Tab) -> None:
    """A ring or points, as arrays or stored text; anything that makes no sense is no place."""
    good = [event(polygon=RING), event(polygon=FLAT), event(point_cloud=[[1, 2]], polygon="x")]
    assert called(page, "geometryOf", good) == [
        {"polygon": RING},
        {"polygon": RING},
        {"points": [[1, 2]]},
    ]
    open_ring, short_ring = [[0, 0], [0, 1], [1, 1], [1, 0]], [[0, 0], [0, 1], [0, 0]]
    rings: list[Any] = [[], open_ring, short_ring, "x", "", 7, {}, [[91, 0]] * 4, [None]]
    bad = [
        *(None, 5, {}, {"data": None}, {"data": {"identifier": None}}, event(region="n")),
        *(event(polygon=ring) for ring in rings),
        *(event(point_cloud=points) for points in ([], "1,2", [[1]], [[1, "2"]], {"length": 1})),
    ]
    assert called(page, "geometryOf", bad) == [None] * len(bad)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["data", "identifier", "polygon", "point_cloud"]), inner)
    ),
    max_leaves=12,
)


@settings(max_examples=40)
@given(st.lists(JSON, min_size=1, max_size=20))
def test_no_notification_is_too_strange(page: Tab, events: list[Any]) -> None:
    """Whatever a server sends, looking for a place or a summary does not throw."""
    drawn = events + [event(polygon=item, point_cloud=item) for item in events]
    assert not [found for found in called(page, "geometryOf", drawn) if isinstance(found, str)]
    identifiers = [item for item in drawn if isinstance(item, dict)]
    assert all(isinstance(text, str) for text in called(page, "summary", identifiers))


def test_summary(page: Tab) -> None:
    """One line that says what a notification is about."""
    identifiers = [
        {"class": "od", "step": "24"},
        {"date": "20250706", "polygon": RING},
        {"polygon": FLAT},
        {"point_cloud": [[1, 2], [3, 4]]},
        {"polygon": "not a place", "x": None},
        {"note": "𝒳" * 40},
        {},
        None,
    ]
    assert called(page, "summary", identifiers) == [
        "class=od, step=24",
        "date=20250706, polygon of 3 points",
        "polygon of 3 points",
        "cloud of 2 points",
        "polygon=not a place, x=null",
        "note=" + "𝒳" * 30 + "…",
        "",
        "",
    ]
