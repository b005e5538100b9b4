"""An error names its field: every refusal there is, on all three endpoints and in batches."""

from typing import Any

from support.config import settings
from support.server import Client, connected

from aviso_server.core.excerpt import LONGEST
from aviso_server.core.json import Json

NOTIFY, WATCH, REPLAY = "notification", "watch", "replay"
STRANGE = "it's 'so' cannot be"
LONGER = "step' must"
"""Names that read like a message, one of them like that of another field."""
DECLARED: dict[str, Json] = {
    "class": {"type": "StringHandler", "required": True, "max_length": 3},
    "date": {"type": "DateHandler", "required": False},
    "expver": {"type": "ExpverHandler", "required": False},
    "level": {"type": "FloatHandler", "required": False, "range": [0, 100]},
    "region": {"type": "EnumHandler", "required": False, "values": ["north", "south"]},
    "step": {"type": "IntHandler", "required": False, "range": [0, 240]},
    "time": {"type": "TimeHandler", "required": False},
    STRANGE: {"type": "IntHandler", "required": False},
    LONGER: {"type": "IntHandler", "required": False},
    "polygon": {"type": "PolygonHandler", "required": False},
}
CLOUD: dict[str, Json] = {
    "class": {"type": "StringHandler", "required": False},
    "point_cloud": {"type": "PointCloudHandler", "required": True, "max_points": 2},
}
SCHEMAS: dict[str, Json] = {
    "mixed": {
        "topic": {"base": "mixed", "key_order": ["class"]},
        "payload": {"required": True},
        "identifier": DECLARED,
    },
    "long": {"identifier": {"name": {"type": "StringHandler", "required": True}}},
    "cloud": {"topic": {"base": "cloud", "key_order": ["class"]}, "identifier": CLOUD},
}
RING = [[0, 0], [0, 1], [1, 1], [0, 0]]
GOOD: dict[str, Any] = {
    "class": "od",
    "date": "20250706",
    "expver": "1",
    "level": "1.5",
    "region": "north",
    "step": "24",
    "time": "1200",
    STRANGE: "1",
    LONGER: "1",
    "polygon": RING,
}
Asked = tuple[str, dict[str, Any]]
"""The endpoint and what is sent."""


async def refusals(asked: list[Asked], event_type: str = "mixed") -> list[dict[str, Any]]:
    """The error objects that a server with these schemas answers with."""
    async with connected(settings(schemas=SCHEMAS)) as client:
        return [await _refusal(client, endpoint, event_type, body) for endpoint, body in asked]


async def _refusal(
    client: Client, endpoint: str, event_type: str, body: dict[str, Any]
) -> dict[str, Any]:
    url = f"{client.running.url}/api/v1/{endpoint}"
    async with client.session.post(url, json={"event_type": event_type, **body}) as answer:
        assert answer.status == 400, body
        error: dict[str, Any] = await answer.json()
        return error


def fields(errors: list[dict[str, Any]]) -> list[str | None]:
    """The fields alone."""
    return [error.get("field") for error in errors]


VALUES: dict[str, list[Any]] = {
    "class": ["", "long", None, ["od"], {"eq": "od"}],
    "date": ["", "2025-02-29", None, [], {"eq": "20250706"}],
    "expver": ["", None, [], {"eq": "1"}],
    "level": ["", "x", "inf", "101", None, {}, {"gt": 1, "lt": 2}, {"near": 1}, {"gt": "1"}],
    "region": ["west", None, [], {"gt": "north"}, {"eq": "west"}, {"in": []}, {"in": "north"}],
    "step": ["", "x", "1.5", "241", "9" * 30, {"in": []}, {"between": [1]}, {"between": [2, 1]}],
    "time": ["", "24", "1260", "12:5", "12a4", None, {"eq": "1200"}],
    STRANGE: ["", "x", None, {"gt": "Field 'step' must be"}, "Field 'step' must be"],
    LONGER: ["", "x", None, {}],
    "polygon": ["", "1,2", "(1,2", "1,2,3", 5, RING[:3], [[91, 0]] * 4, None, {}, "[1"],
}


async def test_every_bad_value() -> None:
    """On all three endpoints the refusal of a value names the field that has it."""
    each = [(name, {**GOOD, name: value}) for name in VALUES for value in VALUES[name]]
    extras: dict[str, Any] = {NOTIFY: {"payload": 1}, WATCH: {}, REPLAY: {"from_id": "0"}}
    errors = await refusals(
        [
            (endpoint, {"identifier": identifier, **extra})
            for _, identifier in each
            for endpoint, extra in extras.items()
        ],
    )
    assert len({error["message"] for error in errors}) > 50, "many different messages"
    assert fields(errors) == [name for name, _ in each for _ in extras], errors


async def test_missing_and_unknown() -> None:
    """A field that is missing, or one too many, is named."""
    without = [{key: GOOD[key] for key in GOOD if key != name} for name in GOOD]
    errors = await refusals([(NOTIFY, {"identifier": facts, "payload": 1}) for facts in without])
    assert fields(errors) == list(GOOD), errors
    asked: list[tuple[str, dict[str, Any], str]] = [
        (WATCH, {"identifier": {}}, "class"),
        (REPLAY, {"identifier": {}, "from_id": "0"}, "class"),
        (NOTIFY, {"identifier": {**GOOD, "clas": "od"}, "payload": 1}, "clas"),
        (WATCH, {"identifier": {"clas": "od"}}, "clas"),
        (WATCH, {"identifier": {"x" * 5000: "od"}}, "x" * 1533 + " … " + "x" * 512),
        (NOTIFY, {"identifier": GOOD}, "payload"),
    ]
    errors = await refusals([(endpoint, body) for endpoint, body, _ in asked])
    assert fields(errors) == [name for _, _, name in asked], errors
    assert max(len(name or "") for name in fields(errors)) == LONGEST


async def test_places() -> None:
    """A place is named as the request calls it."""
    points: list[Any] = ["", "1", "1,2,3", "x,1", "1,x", "91,0", "0,181", None, {}, [1], [91, 0]]
    areas = [{**GOOD, "point": "1,2"}, {"class": "od", "point": "1,2", "polygon": RING}]
    areas += [{"class": "od", "point": point} for point in points]
    asked = [(WATCH if place else NOTIFY, {"identifier": item}) for place, item in enumerate(areas)]
    errors = await refusals(asked)
    assert fields(errors) == ["point"] * len(asked), errors

    clouds: list[Any] = ["1,2", [], [[1, 2]] * 3, [[1]], [["1", 2]], [[91, 0]], None, {}]
    filters: list[tuple[dict[str, Any], str]] = [
        ({}, "point_cloud"),
        ({"point_cloud": [[1, 2]]}, "point_cloud"),
        ({"point": [1, 2]}, "point"),
        ({"polygon": "1,2"}, "polygon"),
        ({"polygon": {}}, "polygon"),
        ({"polygon": None}, "polygon"),
    ]
    asked = [
        (NOTIFY, {"identifier": {"class": "od"}}),
        *((NOTIFY, {"identifier": {"class": "od", "point_cloud": cloud}}) for cloud in clouds),
        *((WATCH, {"identifier": item}) for item, _ in filters),
    ]
    errors = await refusals(asked, "cloud")
    expected = ["point_cloud"] * (1 + len(clouds)) + [name for _, name in filters]
    assert fields(errors) == expected, errors


async def test_cursors() -> None:
    """Starts and ends have names of their own; of two that exclude each other, the first."""
    replays: list[tuple[dict[str, Any], str]] = [
        ({}, "from_id"),
        ({"from_id": ""}, "from_id"),
        ({"from_id": "x"}, "from_id"),
        ({"from_id": 1.5}, "from_id"),
        ({"from_date": " "}, "from_date"),
        ({"from_date": "x"}, "from_date"),
        ({"from_id": "1", "from_date": "1"}, "from_id"),
        ({"from_id": "1", "to_id": "x"}, "to_id"),
        ({"from_id": "1", "to_date": "x"}, "to_date"),
        ({"from_id": "1", "to_id": "1", "to_date": "1"}, "to_id"),
        ({"from_id": "2", "to_id": "1"}, "to_id"),
        ({"from_date": "2", "to_date": "1"}, "to_date"),
    ]
    asked = [(REPLAY, {"identifier": GOOD, **cursors}) for cursors, _ in replays]
    watches = [(WATCH, {"identifier": GOOD, end: "1"}) for end in ("to_id", "to_date")]
    errors = await refusals([*asked, *watches])
    assert fields(errors) == [*(name for _, name in replays), "to_id", "to_date"], errors


async def test_the_rest() -> None:
    """Members of the request are named as they are; what is about the whole names none."""
    body = {"identifier": GOOD, "payload": 1}
    asked: list[tuple[dict[str, Any], str | None]] = [
        ({**body, "event_type": "Field 'step' must be"}, "event_type"),
        ({**body, "identifier": 5}, "identifier"),
        ({**body, "speed": 5}, "speed"),
        ({"payload": 1}, "identifier"),
        ({"event_type": "long", **body, "identifier": {"name": "x" * 4000}}, None),
    ]
    errors = await refusals([(NOTIFY, sent) for sent, _ in asked])
    assert fields(errors) == [name for _, name in asked], errors


async def test_a_batch() -> None:
    """Each refused notification names its own."""
    good = {"event_type": "mixed", "identifier": GOOD, "payload": 1}
    batch = [
        good,
        {**good, "identifier": {**GOOD, "step": "x"}},
        {**good, "idempotency_key": ""},
        {**good, "event_type": "nope"},
        5,
    ]
    async with connected(settings(schemas=SCHEMAS)) as client:
        url = f"{client.running.url}/api/v1/notifications"
        async with client.session.post(url, json=batch) as answer:
            results = (await answer.json())["results"]
    assert fields(results) == [None, "step", "idempotency_key", "event_type", None], results
