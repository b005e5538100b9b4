"""An error of the server is shown at its field: every refusal there is, from the server itself."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser
from support.browser import Tab, tab
from support.config import document
from support.process import server_process

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
    "cloud": {"topic": {"base": "cloud", "key_order": ["class"]}, "identifier": CLOUD},
}
NAMES = {"mixed": list(DECLARED), "cloud": list(CLOUD)}
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
ASK = """async (asked) => {
  const { Api } = await import("/static/console/api.js");
  const { fieldOf } = await import("/static/console/complaints.js");
  const api = new Api({ header: null });
  const answers = [];
  for (const [endpoint, body, names] of asked) {
    try {
      await api.send(`/api/v1/${endpoint}`, body);
      answers.push(["not refused", endpoint]);
    } catch (error) {
      answers.push([fieldOf(error, names), error.message]);
    }
  }
  return answers;
}"""
FIELD_OF = """async (errors) => {
  const { fieldOf } = await import("/static/console/complaints.js");
  return errors.map(([error, names]) => fieldOf(error, names));
}"""
Asked = tuple[str, dict[str, Any]]
"""The endpoint and what is sent."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with fields of every kind."""
    folder = tmp_path_factory.mktemp("complaints")
    with server_process(document(schemas=SCHEMAS), folder) as running:
        yield running.url


@pytest.fixture
def form(browser: Browser, address: str) -> Iterator[Tab]:
    """A page of that server, on which requests are refused."""
    with tab(browser) as opened:
        opened.expected.append("status of 400")
        opened.page.goto(f"{address}/static/icon.svg")
        yield opened


def placed(form: Tab, asked: list[Asked], event_type: str = "mixed") -> list[tuple[str, str]]:
    """Where the refusal of each request is shown, and its message."""
    sent = [
        [endpoint, {"event_type": event_type, **body}, NAMES[event_type]]
        for endpoint, body in asked
    ]
    return [(name, message) for name, message in form.page.evaluate(ASK, sent)]


def names(answers: list[tuple[str, str]]) -> list[str]:
    """The fields alone."""
    return [name for name, _ in answers]


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


def test_every_bad_value(form: Tab) -> None:
    """On all three endpoints each refusal of a value is put at the field that has it."""
    each = [(name, {**GOOD, name: value}) for name in VALUES for value in VALUES[name]]
    extras: dict[str, Any] = {NOTIFY: {"payload": 1}, WATCH: {}, REPLAY: {"from_id": "0"}}
    answers = placed(
        form,
        [
            (endpoint, {"identifier": identifier, **extra})
            for _, identifier in each
            for endpoint, extra in extras.items()
        ],
    )
    assert len({message for _, message in answers}) > 50, "many different messages"
    assert names(answers) == [name for name, _ in each for _ in extras], answers


def test_missing_and_unknown(form: Tab) -> None:
    """A missing field is told at itself, an unknown one at none that there is."""
    without = [{key: GOOD[key] for key in GOOD if key != name} for name in GOOD]
    answers = placed(form, [(NOTIFY, {"identifier": facts, "payload": 1}) for facts in without])
    assert names(answers) == list(GOOD), answers
    asked: list[tuple[str, dict[str, Any], str | None]] = [
        (WATCH, {"identifier": {}}, "class"),
        (REPLAY, {"identifier": {}, "from_id": "0"}, "class"),
        (NOTIFY, {"identifier": {**GOOD, "clas": "od"}, "payload": 1}, None),
        (WATCH, {"identifier": {"clas": "od"}}, None),
        (NOTIFY, {"identifier": GOOD}, "payload"),
    ]
    answers = placed(form, [(endpoint, body) for endpoint, body, _ in asked])
    assert names(answers) == [name for _, _, name in asked], answers


def test_places(form: Tab) -> None:
    """Whatever the request calls it, a place belongs to the one field the form has for it."""
    points: list[Any] = ["", "1", "1,2,3", "x,1", "1,x", "91,0", "0,181", None, {}, [1], [91, 0]]
    areas = [{**GOOD, "point": "1,2"}, {"class": "od", "point": "1,2", "polygon": RING}]
    areas += [{"class": "od", "point": point} for point in points]
    asked = [(WATCH if place else NOTIFY, {"identifier": item}) for place, item in enumerate(areas)]
    answers = placed(form, asked)
    assert names(answers) == ["polygon"] * len(asked), answers

    clouds: list[Any] = ["1,2", [], [[1, 2]] * 3, [[1]], [["1", 2]], [[91, 0]], None, {}]
    filters: list[dict[str, Any]] = [
        *({}, {"point_cloud": [[1, 2]]}, {"point": [1, 2]}),
        *({"polygon": "1,2"}, {"polygon": {}}, {"polygon": None}),
    ]
    asked = [
        (NOTIFY, {"identifier": {"class": "od"}}),
        *((NOTIFY, {"identifier": {"class": "od", "point_cloud": cloud}}) for cloud in clouds),
        *((WATCH, {"identifier": item}) for item in filters),
    ]
    answers = placed(form, asked, "cloud")
    assert names(answers) == ["point_cloud"] * len(asked), answers


def test_cursors(form: Tab) -> None:
    """Starts and ends have names of their own."""
    replays: list[tuple[dict[str, Any], str]] = [
        ({}, "from_id"),
        ({"from_id": ""}, "from_id"),
        ({"from_id": "x"}, "from_id"),
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
    answers = placed(form, [*asked, (WATCH, {"identifier": GOOD, "to_id": "1"})])
    assert names(answers) == [*(name for _, name in replays), "to_id"], answers


def test_the_rest(form: Tab) -> None:
    """The event type has its place; what is about the whole request has none."""
    body = {"identifier": GOOD, "payload": 1}
    asked = [
        (NOTIFY, {**body, "event_type": "Field 'step' must be"}),
        (NOTIFY, {**body, "identifier": 5}),
        (NOTIFY, {**body, "step": 5}),
    ]
    answers = placed(form, asked)
    assert names(answers) == ["event_type", None, None], answers

    # Of servers and settings that this one is not.
    told = {
        "event_type 'a b' is invalid. It must match [A-Za-z0-9][A-Za-z0-9_-]*": "event_type",
        "Topic exceeds maximum length of 3072 bytes, got: 4000": None,
        "User does not have required read role for this stream": None,
        "Required field 'class' not found in request identifiers": "class",
        "Internal server error": None,
        "Field 'st' must be a valid integer, got: 'x'": None,
        "Field 'step": None,
        "": None,
    }
    errors = [[{"code": "", "message": message}, NAMES["mixed"]] for message in told]
    assert form.page.evaluate(FIELD_OF, errors) == list(told.values())
