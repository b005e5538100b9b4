"""Worked examples through the sockets: notify, then replay with filters."""

from typing import Any

import pytest
from support.config import SCHEMAS, settings
from support.server import Client, connected
from support.sse import sequences

from aviso_server.core.json import Json

A = "(52.5,13.4,52.6,13.5,52.5,13.6,52.4,13.5,52.5,13.4)"
A_POINTS = [[52.5, 13.4], [52.6, 13.5], [52.5, 13.6], [52.4, 13.5], [52.5, 13.4]]
SHIFTED = "(52.52,13.45,52.62,13.55,52.52,13.65,52.42,13.55,52.52,13.45)"
FAR = "(10.0,10.0,10.2,10.0,10.2,10.2,10.0,10.2,10.0,10.0)"
NORTH: dict[str, Any] = {"region": "North", "run_time": "12:00", "severity": 4, "anomaly": 42.5}
SOUTH: dict[str, Any] = {"region": "SOUTH", "run_time": "0", "severity": "7", "anomaly": "12.50"}
EDGES: list[dict[str, Any]] = [
    {"region": "east", "run_time": "6", "severity": 1, "anomaly": anomaly}
    for anomaly in (10.5, 20.5, 20.5000001)
]


async def delivered(client: Client, event_type: str, identifier: Any) -> list[int]:
    async with client.replay(event_type, identifier, from_id="1") as stream:
        return sequences(await stream.rest())


async def test_extreme_is_emitted_in_canonical_text(client: Client) -> None:
    """Topic and identifier as docs/schema.md writes them."""
    answer = await client.notify("extreme", NORTH)
    assert answer["topic"] == "extreme.north.1200.4.42.5"
    async with client.replay("extreme", {}, from_id="1") as stream:
        event = (await stream.until("replay"))[-1]
    assert event.data["data"]["identifier"] == (
        {"anomaly": "42.5", "region": "north", "run_time": "1200", "severity": "4"}
    )


async def test_extreme_filters_accepted(client: Client) -> None:
    """Which of five notifications each filter delivers."""
    for identifier in (NORTH, SOUTH, *EDGES):
        await client.notify("extreme", identifier)
    table: list[tuple[dict[str, Any], list[int]]] = [
        ({}, [1, 2, 3, 4, 5]),
        ({"anomaly": {"gte": 40}}, [1]),
        ({"anomaly": {"between": [10.5, 20.5]}}, [2, 3, 4]),
        ({"region": {"in": ["North", "SOUTH"]}}, [1, 2]),
        ({"region": "NORTH"}, [1]),
        ({"severity": "4"}, [1]),
        ({"severity": 4, "region": "south"}, []),
        ({"severity": {"lt": 4}}, [3, 4, 5]),
        ({"severity": {"eq": 7}}, [2]),
        ({"severity": {"in": [1, 7]}, "anomaly": {"lte": 12.5}}, [2, 3]),
        ({"run_time": "00:00"}, [2]),
        ({"anomaly": 12.5}, [2]),
        ({"anomaly": "20.50"}, [4]),
    ]
    for identifier, expected in table:
        assert await delivered(client, "extreme", identifier) == expected, identifier


def with_polygon_key() -> dict[str, Json]:
    """``test_polygon`` with the polygon among its topic tokens."""
    schema = SCHEMAS["test_polygon"]
    assert isinstance(schema, dict)
    topic: Json = {"base": "polygon", "key_order": ["date", "time", "polygon"]}
    return {"test_polygon": {**schema, "topic": topic}}


SQUARE = [[0, 0], [0, 10], [10, 10], [10, 0], [0, 0]]


@pytest.mark.parametrize("schemas", [SCHEMAS, with_polygon_key()], ids=["plain", "in key_order"])
async def test_polygon_filters(schemas: dict[str, Json]) -> None:
    """Areas and points against A, FAR and a square, however the polygon is stored."""
    async with connected(settings(schemas=schemas)) as client:
        for polygon in (A, FAR, SQUARE):
            identifier = {"date": "2025-07-06", "time": "12:00", "polygon": polygon}
            answer = await client.notify("test_polygon", identifier, payload=None)
            assert answer["topic"].startswith("polygon.20250706.1200")
        table: list[tuple[dict[str, Any], list[int]]] = [
            ({"polygon": SHIFTED}, [1]),
            ({"polygon": [[52.52, 13.45], [52.62, 13.55], [52.52, 13.65], [52.52, 13.45]]}, [1]),
            ({"polygon": A}, [1]),
            ({"polygon": A_POINTS}, [1]),
            ({"polygon": FAR}, [2, 3]),  # touches the square at one corner
            ({"polygon": "1,1,1,2,2,2,1,1"}, [3]),
            ({"polygon": "-90,-180,-90,180,90,180,90,-180,-90,-180"}, [1, 2, 3]),
            ({"polygon": "-5,-5,-5,-6,-6,-6,-5,-5"}, []),
            ({"point": "52.55,13.5"}, [1]),
            ({"point": [52.55, 13.5]}, [1]),
            ({"point": "(52.55, 13.5)"}, [1]),
            ({"point": "52.6,13.5"}, []),  # a vertex of A is not strictly inside
            ({"point": [5, 5]}, [3]),
            ({"point": [0, 5]}, []),
            ({"point": "52.55,13.5", "time": "13"}, []),
            ({"point": "52.55,13.5", "date": "2025-187"}, [1]),
        ]
        for identifier, expected in table:
            assert await delivered(client, "test_polygon", identifier) == expected, identifier


@pytest.mark.parametrize(
    "polygon",
    [A, A_POINTS, A.strip("()"), "[[52.5,13.4],[52.6,13.5],[52.5,13.6],[52.4,13.5],[52.5,13.4]]"],
)
async def test_polygons_are_emitted_as_arrays(client: Client, polygon: Any) -> None:
    """Live and replayed, from text and from an array."""
    identifier = {"date": "2025-07-06", "time": "12:00", "polygon": polygon}
    async with client.watch("test_polygon", {"polygon": A}) as stream:
        await client.notify("test_polygon", identifier, payload={"note": "ok"})
        live = (await stream.until("live-notification"))[-1]
    async with client.replay("test_polygon", {"polygon": A}, from_id="1") as stream:
        replayed = (await stream.until("replay"))[-1]
    for event in (live, replayed):
        assert event.data["data"]["identifier"]["polygon"] == A_POINTS
        assert b'"polygon":[[52.5,13.4],[52.6,13.5],' in event.raw
    assert live.data == replayed.data


async def test_polygons_can_be_emitted_as_text() -> None:
    """``application.polygon_output: string`` restores the old form."""
    async with connected(settings({"application": {"polygon_output": "string"}})) as client:
        identifier = {"date": "2025-07-06", "time": "12:00", "polygon": A}
        await client.notify("test_polygon", identifier, payload=None)
        async with client.replay("test_polygon", {"polygon": A}, from_id="1") as stream:
            event = (await stream.until("replay"))[-1]
        assert event.data["data"]["identifier"]["polygon"] == A


async def test_clouds(client: Client) -> None:
    """A cloud matches when any of its points is in or on the polygon; it is emitted in doubles."""
    for cloud in ([[52.5, 13.4], [10, 10]], [[0, 0]]):
        await client.notify("observations", {"date": "20260826", "point_cloud": cloud})
    table: list[tuple[Any, list[int]]] = [
        (A, [1]),  # touches: the first point is a vertex
        (FAR, [1]),
        ("9,9,9,11,11,11,11,9,9,9", [1]),
        ("-1,-1,-1,1,1,1,1,-1,-1,-1", [2]),
        ("40,40,40,41,41,41,40,40", []),
    ]
    for polygon, expected in table:
        found = await delivered(client, "observations", {"polygon": polygon})
        assert found == expected, polygon
    async with client.replay("observations", {"polygon": FAR}, from_id="1") as stream:
        event = (await stream.until("replay"))[-1]
    assert b'"point_cloud":[[52.5,13.4],[10.0,10.0]]' in event.raw


async def test_fields_outside_the_topic(client: Client) -> None:
    """Kept apart, emitted, and filtered by, although they share a topic."""
    for note in "ab":
        answer = await client.notify("diss2", {"destination": "FOO", "note": note})
        assert answer["topic"] == "diss.FOO"
    async with client.replay("diss2", {"destination": "FOO"}, from_id="1") as stream:
        events = [event.data for event in await stream.rest() if event.kind == "replay"]
    assert [event["data"]["identifier"] for event in events] == [
        {"destination": "FOO", "note": "a"},
        {"destination": "FOO", "note": "b"},
    ]
    assert await delivered(client, "diss2", {"destination": "FOO", "note": "b"}) == [2]


async def test_a_star_is_a_value(client: Client) -> None:
    """Neither stored nor asked for as a wildcard."""
    for region in ("*", "n"):
        await client.notify("ev", {"region": region})
    assert await delivered(client, "ev", {"region": "*"}) == [1]
    assert await delivered(client, "ev", {}) == [1, 2]
