"""Whatever clients send, the answer is one of the protocol's, and never a 500."""

import http.client
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import schemathesis
from hypothesis import HealthCheck, given
from hypothesis import settings as bounded
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from support.config import SCHEMAS
from support.fuzz import examples
from support.process import ServerProcess, server_process
from support.raw import UUID4

from aviso_server.core.json import Json
from aviso_server.http.openapi import document

ENDPOINTS = st.sampled_from(["notification", "notifications", "watch", "replay"])
CODES = {
    "INVALID_JSON",
    "UNKNOWN_FIELD",
    "INVALID_REQUEST_SHAPE",
    "UNKNOWN_EVENT_TYPE",
    "INVALID_NOTIFICATION_REQUEST",
    "INVALID_WATCH_REQUEST",
    "INVALID_REPLAY_REQUEST",
}
GOOD = (
    b'{"event_type":"test_polygon","identifier":{"date":"2025-07-06","time":"12:00",'
    b'"polygon":[[52.5,13.4],[52.6,13.5],[52.5,13.6],[52.5,13.4]]},"from_id":"1",'
    b'"payload":{"note":"\\u00e9"}}'
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXT
PLACES = st.lists(st.lists(st.floats(-200, 200), max_size=3), max_size=5)
SPOKEN = st.sampled_from(["0", "1", "12:00", "north", "20250706", "52.5,13.4", "1e400", "*", ""])
VALUES = st.recursive(
    SCALARS | PLACES | SPOKEN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OPERATORS = st.sampled_from(["eq", "in", "gt", "gte", "lt", "lte", "between", "EQ", ""])
CONSTRAINTS = st.dictionaries(OPERATORS, VALUES, max_size=2)
NAMES = st.sampled_from(
    [
        "region",
        "run_time",
        "severity",
        "anomaly",
        "date",
        "time",
        "polygon",
        "point",
        "point_cloud",
        "destination",
        "note",
        "nope",
    ]
)
CURSORS = NUMBERS | TEXT | SPOKEN | st.datetimes().map(str) | st.none()
REQUESTS = st.fixed_dictionaries(
    {
        "event_type": st.sampled_from(sorted(SCHEMAS)) | TEXT,
        "identifier": st.dictionaries(NAMES | TEXT, VALUES | CONSTRAINTS, max_size=5),
    },
    optional={
        "from_id": CURSORS,
        "from_date": CURSORS,
        "to_id": CURSORS,
        "to_date": CURSORS,
        "payload": VALUES,
        "extra": VALUES,
    },
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server of its own, whose log must show no fault in the end."""
    configuration: dict[str, Json] = {
        "application": {"host": "127.0.0.1", "port": 0, "base_url": "http://localhost:8000"},
        "notification_backend": {"kind": "in_memory"},
        "notification_schema": SCHEMAS,
    }
    with server_process(configuration, tmp_path_factory.mktemp("fuzz")) as process:
        yield process
        assert not process.faults
        assert "api.request.processing.failed" not in process.output


def post(server: ServerProcess, endpoint: str, body: bytes) -> tuple[int, Any]:
    """The status and, unless a stream was opened, the decoded answer."""
    host = server.url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=20)
    try:
        connection.request("POST", f"/api/v1/{endpoint}", body)
        response = connection.getresponse()
        request_id = response.headers["X-Request-ID"]
        assert UUID4.fullmatch(request_id)
        if response.headers["Content-Type"] == "text/event-stream":
            assert response.readline().startswith(b"event: ")
            return response.status, None
        answer = json.loads(response.read())
        assert answer["request_id"] == request_id
        return response.status, answer
    finally:
        connection.close()


def assert_in_protocol(status: int, answer: Any) -> None:
    """Stored, opened, or refused with a known code and both texts."""
    assert status in {200, 400}, answer
    if status == 400:
        assert answer["code"] in CODES
        assert answer["message"]
        assert answer["details"]


@given(ENDPOINTS, st.binary(max_size=300))
@bounded(max_examples=examples(100))
def test_arbitrary_bytes(server: ServerProcess, endpoint: str, body: bytes) -> None:
    """Hardly any of them are JSON, and none is a request; a batch validates line by line."""
    status, answer = post(server, endpoint, body)
    assert_in_protocol(status, answer)
    if status == 200:
        assert (endpoint, answer["accepted"]) == ("notifications", 0)


@given(ENDPOINTS, st.integers(0, len(GOOD)), st.integers(0, 20), st.binary(max_size=4))
@bounded(max_examples=examples(150))
def test_damaged_requests(
    server: ServerProcess, endpoint: str, start: int, length: int, patch: bytes
) -> None:
    """A good request with some bytes cut out and others put in."""
    body = GOOD[:start] + patch + GOOD[start + length :]
    assert_in_protocol(*post(server, endpoint, body))


@given(ENDPOINTS, REQUESTS)
@bounded(max_examples=examples(300))
def test_odd_requests(server: ServerProcess, endpoint: str, body: dict[str, Any]) -> None:
    """Requests of the right shape with odd values in every place."""
    assert_in_protocol(*post(server, endpoint, json.dumps(body).encode()))


# Hypothesis also draws what it finds in the code, such as names of event types.
UNKNOWN = st.text(min_size=1, max_size=30).filter(lambda name: name.split("@")[0] not in SCHEMAS)


@given(UNKNOWN, st.sampled_from(["schema", "admin/notification"]))
@bounded(max_examples=examples(100))
def test_odd_paths(server: ServerProcess, name: str, folder: str) -> None:
    """Names in paths are looked up, whatever they are, and refused as not there."""
    encoded = re.sub(r"[^A-Za-z0-9]", _escaped, name)
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=20)
    try:
        method = "GET" if folder == "schema" else "DELETE"
        connection.request(method, f"/api/v1/{folder}/{encoded}")
        response = connection.getresponse()
        assert response.status in {400, 404}
        assert response.headers["X-Request-ID"]
        assert "message" in json.loads(response.read())
    finally:
        connection.close()


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode(errors="surrogatepass"))


DOCUMENT: dict[str, Any] = json.loads(document("1.2.3"))
# Real names make the generated requests reach further than the check of the event type.
DOCUMENT["components"]["schemas"]["NotificationRequest"]["properties"]["event_type"]["enum"] = [
    *sorted(SCHEMAS),
    "nope",
]
# Generated texts are hardly ever NDJSON; the batch tests have those.
for _operation in (o for path in DOCUMENT["paths"].values() for o in path.values()):
    _operation.get("requestBody", {"content": {}})["content"].pop("application/x-ndjson", None)
# A watch that is accepted goes on for an hour, so it is fuzzed above, where the reader hangs up.
API = schemathesis.openapi.from_dict(DOCUMENT).exclude(path="/api/v1/watch")
CONFORMANCE = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@API.parametrize()
@bounded(max_examples=examples(25))
def test_the_openapi_document_is_true(case: schemathesis.Case[Any], server: ServerProcess) -> None:
    """Generated requests, good and bad, are answered with a documented status, type and shape."""
    case.call_and_validate(base_url=server.url, checks=CONFORMANCE)


class Sequences(API.as_state_machine()):  # type: ignore[misc]
    """Requests that follow the links of the document: notify, read back, again, delete."""

    base_url = ""
    seen: ClassVar[Counter[tuple[str, int]]] = Counter()

    def get_call_kwargs(self, case: schemathesis.Case[Any]) -> dict[str, Any]:  # noqa: ARG002
        """Where the server is."""
        return {"base_url": type(self).base_url}

    def validate_response(self, response: Any, case: schemathesis.Case[Any], **_: Any) -> None:
        """The same laws as for single requests."""
        type(self).seen[case.operation.definition.raw["operationId"], response.status_code] += 1
        # To OpenAPI 3.1 a stream of events is one text; schemathesis holds each event against it.
        stream = case.operation.path == "/api/v1/replay"
        laws = [law for law in CONFORMANCE if not stream or law is not response_schema_conformance]
        case.validate_response(response, checks=laws)


def test_sequences_of_requests(server: ServerProcess) -> None:
    """What a request leaves behind does no harm to those that follow."""
    Sequences.base_url = server.url
    Sequences.run(
        settings=bounded(
            max_examples=examples(8),
            stateful_step_count=6,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
    )
    assert Sequences.seen["notify", 200]
    assert Sequences.seen["delete_notification", 200], Sequences.seen
