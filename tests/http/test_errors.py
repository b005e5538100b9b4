"""The error matrix, byte for byte, and the order of checks."""

import json
import re
from typing import NamedTuple

import pytest
from support.config import settings
from support.edge import Parts, edge
from support.faults import FaultyBackend
from support.raw import Answer, Wire, wired
from support.server import connected

from aviso_server.core.errors import StorageFailed
from aviso_server.core.excerpt import excerpt
from aviso_server.core.json import Json, compact

NOTIFY, WATCH, REPLAY = "notification", "watch", "replay"
LABELS = {
    NOTIFY: "Invalid Notification Request",
    WATCH: "Invalid Watch Request",
    REPLAY: "Invalid Replay Request",
}
INVALID = {
    NOTIFY: "INVALID_NOTIFICATION_REQUEST",
    WATCH: "INVALID_WATCH_REQUEST",
    REPLAY: "INVALID_REPLAY_REQUEST",
}
ALLOWED = (
    'Allowed fields: ["event_type", "identifier", "from_id", "from_date", "to_id", "to_date", '
    '"payload"]'
)
SHAPE = "Request deserialization failed: "
BOTH_STARTS = (
    "Cannot specify both from_id and from_date. Please provide only one replay parameter. "
    "Use from_id for sequence-based replay or from_date for time-based replay."
)
NO_START = (
    "Replay endpoint requires either from_id or from_date parameter. "
    "Use from_id for sequence-based replay or from_date for time-based replay."
)
BOTH_ENDS = (
    "Cannot specify both to_id and to_date. Please provide only one replay end parameter. "
    "Use to_id for a sequence-based end or to_date for a time-based end."
)
NO_ENDS = "to_id and to_date are only supported for the replay endpoint, not /"
BOTH_PLACES = (
    "Cannot specify both identifier.polygon and identifier.point. Provide only one spatial filter."
)
BAD_ID = "{} must be a valid positive integer. Got: '{}'. Valid examples: '1', '123', '9999'"
EMPTY_ID = "{} cannot be empty. Provide a valid sequence number or omit the field"
EMPTY_DATE = "{} cannot be empty. Provide a valid datetime/timestamp or omit the field"
BAD_DATE = (
    "{} must be a valid datetime/timestamp. Got: '{}'. Error: {}. Valid examples: "
    "'2025-06-09T13:15:00Z', '2025-06-09 13:15:00+00:00', '2025-06-09 13:15:00', '1740509903', "
    "'1740509903710'"
)
WHY = (
    "expected ISO-8601 datetime (RFC3339/space-separated with optional timezone) "
    "or unix epoch seconds/milliseconds"
)
KEY = "Idempotency-Key must be 1 to 255 visible ASCII characters"
RING = [[0, 0], [0, 1], [1, 1], [0, 0]]
CONFIGURED: list[Json] = ["area", "diss2", "ev", "extreme", "observations", "test_polygon"]


async def post(
    wire: Wire, endpoint: str, body: object, headers: tuple[tuple[str, str], ...] = ()
) -> Answer:
    """Send a JSON value, or bytes as they are."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await wire.ask("POST", f"/api/v1/{endpoint}", raw, headers)


def assert_refused(answer: Answer, endpoint: str, code: str, message: str, **more: Json) -> None:
    """The exact error object: keys sorted, compact, signed; test_error_field.py has the fields."""
    field = json.loads(answer.body).get("field")
    body: dict[str, Json] = {
        "code": code,
        "details": message,
        "error": LABELS[endpoint],
        "message": message,
        "request_id": answer.request_id,
        **({} if field is None else {"field": field}),
        **more,
    }
    assert answer.body == compact(body)
    assert answer.status == 400
    assert answer.header("content-type") == "application/json"


def request_for(event_type: str = "ev", /, **members: object) -> dict[str, object]:
    """A request object that is good but for the members given."""
    return {"event_type": event_type, "identifier": {}, **members}


class Case(NamedTuple):
    """A refused request and its message."""

    body: object
    message: str


@pytest.mark.parametrize("endpoint", LABELS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{}x",
        b"nonsense",
        b"\xef\xbb\xbf{}",
        b'{"a":\xff}',
        b'{"a":NaN}',
        b'{"a":' + b"[" * 128 + b"]" * 128 + b"}",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b'{"event_type":"ev","identifier":{"region":"\\ud800"}}',
        b'{"event_type":"ev","identifier":{"region":' + b"9" * 400 + b"}}",
    ],
)
async def test_bad_json_is_refused(wire: Wire, endpoint: str, body: bytes) -> None:
    """What is not plain JSON (core/test_json.py has all of it) is INVALID_JSON, with the place."""
    answer = await post(wire, endpoint, body)
    message = answer.data["message"]
    assert re.fullmatch(r"JSON parsing failed: .+ at line \d+ column \d+", message, re.DOTALL)
    assert_refused(answer, endpoint, "INVALID_JSON", message)


@pytest.mark.parametrize("endpoint", LABELS)
@pytest.mark.parametrize(
    ("body", "unknown"),
    [
        ({"foo": 1}, "foo"),
        ({"zoo": 1, "foo": 1, "event_type": 5}, "foo"),
        (request_for("nope", Event_type=1), "Event_type"),
        ({"": None}, ""),
        ({"é": 1}, "é"),
        ({"a'b\n": 1}, "a'b\n"),
    ],
)
async def test_unknown_members_are_refused(
    wire: Wire, endpoint: str, body: object, unknown: str
) -> None:
    """The alphabetically first one is named, and it beats shape and event type."""
    message = f"Request contains unknown fields: Unknown field '{unknown}' in request. {ALLOWED}"
    assert_refused(await post(wire, endpoint, body), endpoint, "UNKNOWN_FIELD", message)


@pytest.mark.parametrize("endpoint", LABELS)
@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "missing field `event_type`"),
        (request_for(identifier="x"), 'invalid type: string "x", expected a map'),
        (request_for(from_id=1.5), "invalid type: floating point `1.5`, expected a string"),
        ([], "invalid type: sequence, expected struct NotificationRequest"),
    ],
)
async def test_wrong_shapes_are_refused(wire: Wire, endpoint: str, body: object, text: str) -> None:
    """In the words of core/test_wire.py, on every endpoint."""
    answer = await post(wire, endpoint, body)
    assert_refused(answer, endpoint, "INVALID_REQUEST_SHAPE", SHAPE + text)


@pytest.mark.parametrize("endpoint", LABELS)
@pytest.mark.parametrize("event_type", ["nope", "EV", "", "ev ", "é", "a'b", "x" * 5000])
async def test_unknown_event_types_are_refused(wire: Wire, endpoint: str, event_type: str) -> None:
    """Strict mode names the configured ones, sorted; names are exact."""
    answer = await post(wire, endpoint, request_for(event_type))
    assert_refused(
        answer,
        endpoint,
        "UNKNOWN_EVENT_TYPE",
        excerpt(f"unknown event type '{event_type}'"),
        error="unknown_event_type",
        configured_event_types=CONFIGURED,
    )


ENDS = [
    request_for(to_id="1"),
    request_for(to_date="1"),
    request_for(to_id="x", to_date="x", identifier={"nope": 1}),
]
STREAMED = [
    Case(request_for("area", identifier={"polygon": RING, "point": "1,1"}), BOTH_PLACES),
    Case(request_for("ev", identifier={"polygon": None, "point": None}, from_id="x"), BOTH_PLACES),
    Case(
        request_for(identifier={"point": None}, from_id="x"),
        "identifier.point must be a scalar value: Field 'point' cannot be null",
    ),
    Case(
        request_for(identifier={"point": {}}, from_id="x"),
        "identifier.point must be a scalar value: "
        "Field 'point' constraint object is not allowed in this operation",
    ),
    Case(
        request_for("area", identifier={"point": "x"}, from_id="x"),
        "identifier.point must be a valid [lat,lon] coordinate pair or compatible string: "
        "Point must be in 'lat,lon' format",
    ),
    Case(request_for(from_id="x", from_date="x"), BAD_ID.format("from_id", "x")),
    Case(request_for(from_id="-1"), BAD_ID.format("from_id", "-1")),
    Case(request_for(from_id=-1), BAD_ID.format("from_id", "-1")),
    Case(request_for(from_id=2**64), BAD_ID.format("from_id", str(2**64))),
    Case(request_for(from_id=" 1"), BAD_ID.format("from_id", " 1")),
    Case(
        request_for(from_id="1", identifier={"nope": 1}, from_date=""),
        EMPTY_DATE.format("from_date"),
    ),
    Case(request_for(from_id="\t\n"), EMPTY_ID.format("from_id")),
    Case(request_for(from_id="1", from_date="x"), BAD_DATE.format("from_date", "x", WHY)),
    Case(request_for(from_date="2025-06-09"), BAD_DATE.format("from_date", "2025-06-09", WHY)),
    Case(
        request_for(from_date=-5),
        BAD_DATE.format("from_date", "-5", "negative unix timestamps are not supported: '-5'"),
    ),
    Case(request_for(from_id="1", from_date="1", identifier={"nope": 1}), BOTH_STARTS),
]
REPLAYED = [
    Case(request_for(identifier={"nope": 1}), NO_START),
    Case(request_for(from_id=None, from_date=None, to_id="x"), NO_START),
    Case(request_for(from_id="1", from_date="1", to_id="x", to_date="x"), BOTH_STARTS),
    Case(request_for(from_id="1", to_id="", to_date="x"), EMPTY_ID.format("to_id")),
    Case(request_for(from_id="1", to_id="1.0", to_date="x"), BAD_ID.format("to_id", "1.0")),
    Case(request_for(from_id="1", to_id="0", to_date="x"), BAD_DATE.format("to_date", "x", WHY)),
    Case(request_for(from_id="1", to_date=" "), EMPTY_DATE.format("to_date")),
    Case(request_for(from_id="1", to_id="0", to_date="1", identifier={"nope": 1}), BOTH_ENDS),
    Case(
        request_for(from_id="10", to_id="+09", identifier={"nope": 1}),
        "to_id (9) must not be lower than from_id (10)",
    ),
    Case(
        request_for(
            from_date="2025-06-09T13:15:00.000000001Z", to_date="2025-06-09T15:15:00+02:00"
        ),
        "to_date (2025-06-09T13:15:00+00:00) must not be earlier than "
        "from_date (2025-06-09T13:15:00.000000001+00:00)",
    ),
]
FILTERED: list[tuple[dict[str, object], str]] = [
    (
        {"identifier": {"zoo": 1, "nope": None, "region": {}}},
        "Unknown field 'nope' provided for {} operation",
    ),
    ({"identifier": {"region": None}}, "Field 'region' cannot be null"),
    (
        {"event_type": "extreme", "identifier": {"severity": {"gte": 9}}},
        "Field 'severity' constraint value 9 is outside allowed range [1, 7]",
    ),
]


@pytest.mark.parametrize("body", ENDS)
@pytest.mark.parametrize("endpoint", [NOTIFY, WATCH])
async def test_ends_are_for_replay_only(wire: Wire, endpoint: str, body: object) -> None:
    """Their presence counts, before their syntax and before the identifier."""
    answer = await post(wire, endpoint, body)
    assert_refused(answer, endpoint, INVALID[endpoint], NO_ENDS + endpoint)


@pytest.mark.parametrize(
    ("endpoint", "body", "message"),
    [(endpoint, *case) for endpoint in (WATCH, REPLAY) for case in STREAMED]
    + [(REPLAY, *case) for case in REPLAYED]
    + [
        (endpoint, request_for(from_id="0") | body, message.format(endpoint))
        for endpoint in (WATCH, REPLAY)
        for body, message in FILTERED
    ],
)
async def test_streams_are_refused_in_order(
    wire: Wire, endpoint: str, body: object, message: str
) -> None:
    """Most of these break a later rule too, which is not reported."""
    assert_refused(await post(wire, endpoint, body), endpoint, INVALID[endpoint], message)


ANNOUNCED = [
    Case(
        request_for(identifier={"point": None, "nope": 1}),
        "identifier.point is only supported for watch/replay endpoints, not /notification",
    ),
    Case(
        request_for(identifier={"zoo": 1, "nope": None}),
        "Unknown field 'nope' provided for notify operation",
    ),
    Case(
        request_for("test_polygon", identifier={"date": "20250706"}),
        "Required field 'time' missing for notify operation",
    ),
    Case(
        request_for(identifier={"region": "x" * 3070}),
        "Topic exceeds maximum length of 3072 bytes, got: 3073",
    ),
    Case(
        request_for("test_polygon", identifier={"date": "20250706", "time": "12", "polygon": RING}),
        "Payload is required for notify operation based on schema configuration",
    ),
]


@pytest.mark.parametrize(("body", "message"), ANNOUNCED)
async def test_notifications_are_refused_in_order(wire: Wire, body: object, message: str) -> None:
    """Names, fields in schema order, payload, topic length."""
    assert_refused(await post(wire, NOTIFY, body), NOTIFY, INVALID[NOTIFY], message)


async def test_payload_goes_before_topic_length() -> None:
    """Both are wrong; the payload is reported."""
    schemas: dict[str, Json] = {
        "long": {
            "payload": {"required": True},
            "identifier": {"name": {"type": "StringHandler", "required": True}},
        }
    }
    body = {"event_type": "long", "identifier": {"name": "x" * 4000}}
    async with connected(settings(schemas=schemas)) as client, wired(client.running) as wire:
        answer = await post(wire, NOTIFY, body)
        assert answer.data["message"].startswith("Payload is required")
        answer = await post(wire, NOTIFY, {**body, "payload": None})
        assert answer.data["message"].startswith("Topic exceeds maximum length")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (request_for("nope"), "unknown event type 'nope'"),
        (request_for(to_id="1"), f"{NO_ENDS}notification"),
        (request_for(identifier={"point": 1}), ANNOUNCED[0].message),
        (request_for(identifier={"nope": 1}), KEY),
        (request_for(identifier={"region": "n"}), KEY),
    ],
)
@pytest.mark.parametrize("key", ["", "a b", "é", "k" * 256, "\t"])
async def test_the_key_is_checked_before_the_identifier(
    wire: Wire, key: str, body: object, message: str
) -> None:
    """After the endpoint's own rules, before the fields."""
    answer = await post(wire, NOTIFY, body, (("Idempotency-Key", key),))
    if message.startswith("unknown"):
        assert answer.data["code"] == "UNKNOWN_EVENT_TYPE"
    else:
        assert_refused(answer, NOTIFY, INVALID[NOTIFY], message)


@pytest.mark.parametrize(
    ("body", "message", "details"),
    [
        (
            request_for(
                "extreme", identifier={"region": "east", "run_time": "0", "severity": "abc"}
            ),
            "Field 'severity' must be a valid integer, got: 'abc'",
            "invalid digit found in string",
        ),
        (
            request_for("area", identifier={"date": "x"}),
            "Failed to parse date value for field 'date'",
            "Field 'date' contains invalid date 'x'. Expected: YYYY-MM-DD, YYYYMMDD, or YYYY-DDD",
        ),
    ],
)
async def test_details_are_the_innermost_cause(
    wire: Wire, body: object, message: str, details: str
) -> None:
    """Two-level errors: `message` is the outer text, `details` the inner one."""
    answer = await post(wire, NOTIFY, body)
    assert_refused(answer, NOTIFY, INVALID[NOTIFY], message, details=details)


@pytest.mark.parametrize("endpoint", LABELS)
async def test_size_goes_before_everything_else(wire: Wire, endpoint: str) -> None:
    """Too large, in an unknown encoding, and not JSON: it is too large."""
    headers = (("Content-Encoding", "br"),)
    answer = await post(wire, endpoint, b"x", headers)
    encoding = "JSON parsing failed: unsupported or corrupt content encoding 'br'"
    assert_refused(answer, endpoint, "INVALID_JSON", encoding)
    answer = await post(wire, endpoint, b"x" * 262145, headers)
    message = "Request body exceeds the limit of 262144 bytes"
    assert answer.status == 413
    assert answer.body == compact(
        {
            "code": "PAYLOAD_TOO_LARGE",
            "details": message,
            "error": "Payload Too Large",
            "message": message,
            "request_id": answer.request_id,
        }
    )


@pytest.mark.parametrize(
    ("failure", "message", "details"),
    [
        (StorageFailed("Not stored", details="disk full"), "Not stored", "disk full"),
        (OSError("disk full"), "Failed to store notification", "disk full"),
    ],
)
async def test_a_failed_write_is_a_500(failure: Exception, message: str, details: str) -> None:
    """A failed store is a 500; the next attempt may succeed on the same connection."""
    backend = FaultyBackend({"append": failure})
    async with edge(settings(), Parts(backend)) as broken, wired(broken.running) as wire:
        body = request_for(identifier={"region": "n"})
        answer = await post(wire, NOTIFY, body)
        assert (answer.status, answer.header("retry-after")) == (500, "5")
        assert answer.body == compact(
            {
                "code": "NOTIFICATION_STORAGE_FAILED",
                "details": details,
                "error": "Notification Storage Failed",
                "message": message,
                "request_id": answer.request_id,
            }
        )
        backend.failures.clear()
        answer = await post(wire, NOTIFY, body)
        assert (answer.status, answer.header("retry-after")) == (200, None)


@pytest.mark.parametrize("endpoint", [WATCH, REPLAY])
async def test_a_failed_set_up_is_a_500(endpoint: str) -> None:
    """A stream that cannot be set up is a 500: before the headers, with the decoded topic."""
    backend = FaultyBackend({"bounds": OSError("nats: timeout")})
    async with edge(settings(), Parts(backend)) as broken, wired(broken.running) as wire:
        identifier = {"time": "12:00", "polygon": RING}
        answer = await post(
            wire, endpoint, request_for("test_polygon", identifier=identifier, from_id="1")
        )
        assert (answer.status, answer.header("retry-after")) == (500, "5")
        assert answer.body == compact(
            {
                "code": "SSE_STREAM_INITIALIZATION_FAILED",
                "details": "nats: timeout",
                "error": "SSE stream creation failed",
                "message": "Failed to create stream consumer",
                "request_id": answer.request_id,
                "topic": "polygon.*.1200",
            }
        )
        assert broken.hub._streams == {}
