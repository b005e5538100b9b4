"""The OpenAPI document."""

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
import schemathesis

from aviso_server.core.cursor import refuse_ends, window
from aviso_server.core.errors import RequestError
from aviso_server.core.json import compact
from aviso_server.core.operation import Operation
from aviso_server.core.wire import NotificationRequest, parse_request, parse_wipe
from aviso_server.http.openapi import document

DOCUMENT: dict[str, Any] = json.loads(document("1.2.3"))
OPERATIONS = {
    ("/health", "get"): "health_check",
    ("/ready", "get"): "readiness_check",
    ("/", "get"): "homepage",
    ("/api/v1/schema", "get"): "get_notification_schema",
    ("/api/v1/schema/{event_type}", "get"): "get_event_schema",
    ("/api/v1/notification", "post"): "notify",
    ("/api/v1/notifications", "post"): "notify_many",
    ("/api/v1/watch", "post"): "watch",
    ("/api/v1/replay", "post"): "replay",
    ("/api/v1/auth/check", "get"): "auth_check",
    ("/api/v1/overview", "get"): "overview",
    ("/api/v1/admin/wipe/stream", "delete"): "wipe_stream",
    ("/api/v1/admin/wipe/all", "delete"): "wipe_all",
    ("/api/v1/admin/notification/{notification_id}", "delete"): "delete_notification",
}
COMPONENTS = {
    "HealthResponse",
    "ReadyResponse",
    "NotificationRequest",
    "NotificationResponse",
    "ApiEventSchema",
    "PayloadConfig",
    "WipeStreamRequest",
    "WipeResponse",
    "DeleteNotificationResponse",
}


def operations() -> dict[str, dict[str, Any]]:
    return {
        operation["operationId"]: operation
        for path in DOCUMENT["paths"].values()
        for operation in path.values()
    }


def resolved(part: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in part:
        return part
    found: Any = DOCUMENT
    for step in part["$ref"].removeprefix("#/").split("/"):
        found = found[step]
    assert isinstance(found, dict)
    return found


def walk(part: object) -> Iterator[dict[str, Any]]:
    """Every object of the document."""
    if isinstance(part, dict):
        yield part
        for inner in part.values():
            yield from walk(inner)
    if isinstance(part, list):
        for inner in part:
            yield from walk(inner)


def validator(schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator({**schema, "components": DOCUMENT["components"]})


def test_the_document_is_valid_openapi_3_1() -> None:
    """The published schema of OpenAPI 3.1 accepts it, and each component is a JSON Schema."""
    assert DOCUMENT["openapi"].startswith("3.1")
    schemathesis.openapi.from_dict(DOCUMENT).validate()
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema_rs.meta.validate(schema)


def test_every_reference_resolves() -> None:
    """No $ref points nowhere."""
    references = [part for part in walk(DOCUMENT) if "$ref" in part]
    assert references
    assert all(resolved(part) for part in references)


def test_titles_and_tags_are_fixed() -> None:
    """Title, version, tags and operation ids, byte for byte."""
    info = DOCUMENT["info"]
    assert info["title"] == "Aviso Notification Service API"
    assert info["description"] == "Real-time notification service developed by ECMWF"
    assert info["version"] == "1.2.3"
    assert [tag["name"] for tag in DOCUMENT["tags"]] == (
        ["health", "general", "schema", "notification", "streaming", "admin"]
    )


def test_operation_ids_and_components_are_fixed() -> None:
    """Every documented route has its id, and every named component exists."""
    found = {
        (path, method): operation["operationId"]
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
    }
    assert found == OPERATIONS
    assert set(DOCUMENT["components"]["schemas"]) >= COMPONENTS


def test_credentials_are_optional_on_streams_and_mandatory_on_admin() -> None:
    """Two schemes, and who must use them."""
    schemes = DOCUMENT["components"]["securitySchemes"]
    assert schemes == {
        "bearer_jwt": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
        "basic": {"type": "http", "scheme": "basic"},
    }
    either: list[dict[str, list[str]]] = [{"bearer_jwt": []}, {"basic": []}]
    for name, operation in operations().items():
        if operation["tags"] == ["admin"] or name == "auth_check":
            assert operation["security"] == either
        elif name in ("notify", "notify_many", "watch", "replay", "overview"):
            assert operation["security"] == [{}, *either]
        else:
            assert "security" not in operation


@pytest.mark.parametrize(
    ("name", "statuses"),
    [
        ("health_check", "200"),
        ("readiness_check", "200 503"),
        ("homepage", "200"),
        ("get_notification_schema", "200 500"),
        ("get_event_schema", "200 404 500"),
        ("notify", "200 400 401 403 408 409 413 429 500 503"),
        ("notify_many", "200 400 401 403 408 413 429 500 501 503"),
        ("watch", "200 400 401 403 408 413 429 500 503"),
        ("replay", "200 400 401 403 408 413 429 500 503"),
        ("auth_check", "200 401 403 500 503"),
        ("overview", "200 401 403 500 503"),
        ("wipe_stream", "200 400 401 403 404 408 413 500 503"),
        ("wipe_all", "200 401 403 500 503"),
        ("delete_notification", "200 400 401 403 404 500 503"),
    ],
)
def test_every_status_is_documented_with_its_request_id(name: str, statuses: str) -> None:
    """Every status a route can answer, each with X-Request-ID."""
    responses = operations()[name]["responses"]
    assert sorted(responses) == statuses.split()
    for response in responses.values():
        assert "X-Request-ID" in resolved(response)["headers"]


def test_the_request_component_is_the_struct_that_is_parsed() -> None:
    """Members and the refusal of others come from the struct; cursors may be integers."""
    request = DOCUMENT["components"]["schemas"]["NotificationRequest"]
    assert list(request["properties"]) == list(NotificationRequest.__struct_fields__)
    assert request["required"] == ["event_type", "identifier"]
    assert request["additionalProperties"] is False
    for name, schema in request["properties"].items():
        assert schema["description"] != "Any JSON value."
        if name.startswith(("from_", "to_")):
            assert [kind["type"] for kind in schema["anyOf"]] == ["string", "integer", "null"]


@pytest.mark.parametrize(
    "text",
    [
        '{"event_type":"a","identifier":{}}',
        '{"event_type":"a","identifier":{"x":[1]},"from_id":5,"to_date":null,"payload":null}',
        '{"event_type":"a","identifier":{},"from_id":1.5}',
        '{"event_type":"a","identifier":{},"to_id":true}',
        '{"event_type":"a","identifier":{},"foo":1}',
        '{"event_type":"a"}',
        '{"event_type":null,"identifier":{}}',
        '{"event_type":"a","identifier":[]}',
    ],
)
def test_the_request_component_and_the_parser_agree(text: str) -> None:
    """A body is valid by the document exactly when it parses."""
    schema = DOCUMENT["components"]["schemas"]["NotificationRequest"]
    try:
        parse_request(text.encode())
        parses = True
    except RequestError:
        parses = False
    assert validator(schema).is_valid(json.loads(text)) is parses


def test_every_example_matches_its_schema() -> None:
    """What is shown is what is described."""
    shown = 0
    for part in walk(DOCUMENT):
        content = part.get("application/json")
        if not isinstance(content, dict):
            continue
        examples = [entry["value"] for entry in content.get("examples", {}).values()]
        examples += [content["example"]] if "example" in content else []
        for example in examples:
            validator(content["schema"]).validate(example)
            shown += 1
    assert shown >= 15


def test_every_example_request_would_be_accepted() -> None:
    """Examples pass the parser and, on streams, the rules for cursors."""
    for name, operation in operations().items():
        content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        for entry in content.get("examples", {}).values():
            body = compact(entry["value"])
            if name == "wipe_stream":
                assert parse_wipe(body)
            elif name == "notify":
                parse_request(body)
            else:
                asked, kind = parse_request(body), Operation(name)
                refuse_ends(asked, kind)
                window(asked, kind)


@pytest.mark.parametrize("name", ["watch", "replay"])
def test_the_example_streams_are_frames_as_they_are_sent(name: str) -> None:
    """Each frame is one event line and one line of compact sorted JSON."""
    content = operations()[name]["responses"]["200"]["content"]["text/event-stream"]
    text = content["examples"]["frames"]["value"]
    frames = text.removesuffix("\n\n").split("\n\n")
    assert len(frames) == 4
    for frame in frames:
        match = re.fullmatch(r"event: ([a-z-]+)\ndata: (.+)", frame)
        assert match is not None
        assert compact(json.loads(match[2])).decode() == match[2]
    assert frames[-1].startswith("event: connection-closing\n")


def test_the_idempotency_key_is_documented_as_it_is_checked() -> None:
    """1 to 255 visible ASCII characters."""
    (parameter,) = operations()["notify"]["parameters"]
    assert (parameter["name"], parameter["in"]) == ("Idempotency-Key", "header")
    assert not parameter.get("required", False)
    checked = validator(parameter["schema"])
    assert checked.is_valid("!~" * 127)
    assert not any(map(checked.is_valid, ["", "a b", "é", "\x7f", "x" * 256]))
