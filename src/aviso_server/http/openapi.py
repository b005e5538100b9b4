"""The OpenAPI 3.1 document, built from the structs that cross the wire."""

from collections.abc import Mapping
from typing import TypeAlias, cast

import msgspec

from aviso_server.core.json import Json
from aviso_server.core.wire import NotificationRequest
from aviso_server.http import answers, samples

Part: TypeAlias = dict[str, Json]
"""Any object of the document."""

_DOCUMENTED = (
    answers.HealthResponse,
    answers.ReadyResponse,
    answers.ArchiveResponse,
    NotificationRequest,
    answers.NotificationResponse,
    answers.ApiEventSchema,
    answers.PayloadConfig,
    answers.FieldView,
    answers.SchemaListResponse,
    answers.EventSchemaResponse,
    answers.SchemaNotFoundResponse,
    answers.WipeStreamRequest,
    answers.WipeResponse,
    answers.DeleteNotificationResponse,
    answers.AuthCheckResponse,
    answers.OverviewResponse,
    answers.ErrorResponse,
    answers.BatchResponse,
    answers.ItemAccepted,
    answers.ItemRefused,
)
_TAGS = {
    "health": "Liveness and readiness.",
    "general": "The home page, who is asking, and what there is.",
    "schema": "Which event types exist and what their identifiers look like.",
    "notification": "Announce that data exists.",
    "streaming": "Follow notifications live or read their history, as server-sent events.",
    "admin": "Remove stored notifications.",
}
_MEMBERS = {
    "event_type": "Names the family the notification belongs to; case-sensitive.",
    "identifier": (
        "On notify the facts; on watch and replay a filter whose values may be constraints such as "
        '`{"gte": 5}`. `polygon` and `point` filter by place.'
    ),
    "from_id": "First sequence wanted, inclusive; 0 is the beginning. Ignored on notify.",
    "from_date": (
        "Earliest storage time wanted, inclusive: RFC 3339, or epoch seconds or milliseconds. "
        "Ignored on notify."
    ),
    "to_id": "Last sequence wanted, inclusive. Replay only.",
    "to_date": "Latest storage time wanted, inclusive. Replay only.",
    "payload": "Any JSON value; null is a value. Ignored on watch and replay.",
}
_ADMIN_ACCESS: list[Json] = [{"bearer_jwt": []}, {"basic": []}]
_STREAM_ACCESS: list[Json] = [{}, *_ADMIN_ACCESS]
"""The empty requirement makes credentials optional; a stream's own rules may still ask for them."""


def document(version: str) -> bytes:
    """The whole document as JSON, for a server of this version."""
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Aviso Notification Service API",
                "description": "Real-time notification service developed by ECMWF",
                "version": version,
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            # Relative to the document itself, so that it also holds behind a proxy's path prefix.
            "servers": [{"url": "..", "description": "This server"}],
            "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
            "paths": _paths(),
            "components": {
                "schemas": _schemas(),
                "headers": _headers(),
                "responses": _shared_responses(),
                "securitySchemes": {
                    "bearer_jwt": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
                    "basic": {"type": "http", "scheme": "basic"},
                },
            },
        }
    )


def _paths() -> Part:
    return {
        "/": {"get": _home()},
        "/health": {"get": _health()},
        "/ready": {"get": _ready()},
        "/api/v1/schema": {"get": _schema_list()},
        "/api/v1/schema/{event_type}": {"get": _event_schema()},
        "/api/v1/notification": {"post": _notify()},
        "/api/v1/notifications": {"post": _notify_many()},
        "/api/v1/watch": {"post": _stream("watch")},
        "/api/v1/replay": {"post": _stream("replay")},
        "/api/v1/auth/check": {"get": _auth_check()},
        "/api/v1/overview": {"get": _overview()},
        "/api/v1/admin/wipe/stream": {"delete": _wipe_stream()},
        "/api/v1/admin/wipe/all": {"delete": _wipe_all()},
        "/api/v1/admin/notification/{notification_id}": {"delete": _delete_notification()},
    }


def _home() -> Part:
    return _operation(
        "homepage",
        "general",
        "Home page",
        responses={"200": _response("The page.", {"text/html": {"schema": {"type": "string"}}})},
    )


def _health() -> Part:
    return _operation(
        "health_check",
        "health",
        "Is the process serving?",
        responses={"200": _json("It is.", "HealthResponse", samples.HEALTH)},
    )


def _ready() -> Part:
    return {
        **_operation(
            "readiness_check",
            "health",
            "Does the service take traffic?",
            responses={
                "200": _json("It does.", "ReadyResponse", samples.READY),
                "503": _json("It cannot store now, or shutdown began.", "ReadyResponse"),
            },
        ),
        "parameters": [
            {
                "name": "details",
                "in": "query",
                "description": "Tell about the archive job too; any value, also none.",
                "allowEmptyValue": True,
                "schema": {"type": "string"},
            }
        ],
    }


def _schema_list() -> Part:
    return _operation(
        "get_notification_schema",
        "schema",
        "All event types",
        responses={
            "200": _json("Event types, sorted.", "SchemaListResponse", samples.SCHEMA_LIST),
            "500": _shared("InternalError"),
        },
    )


def _event_schema() -> Part:
    return {
        **_operation(
            "get_event_schema",
            "schema",
            "One event type",
            responses={
                "200": _json("Its schema.", "EventSchemaResponse", samples.EVENT_SCHEMA),
                "404": _json("No such event type.", "SchemaNotFoundResponse"),
                "500": _shared("InternalError"),
            },
        ),
        "parameters": [_path_parameter("event_type", "Exact name.", "mars")],
    }


def _notify() -> Part:
    return {
        **_operation(
            "notify",
            "notification",
            "Announce that data exists",
            description="Answers only after the notification is stored.",
            responses={
                "200": {
                    **_json("Stored.", "NotificationResponse", samples.NOTIFIED),
                    "links": samples.AFTER_NOTIFY,
                },
                "409": _shared("KeyReused"),
                **_stream_errors(),
            },
        ),
        "parameters": [
            _key_parameter(
                "Makes a repeat safe: a second notify for the same event type with the same key "
                "within 120 s stores nothing and answers with the first `id`. The same key with "
                "another notification is refused with 409."
            )
        ],
        "requestBody": _body("NotificationRequest", samples.NOTIFY_REQUESTS),
        "security": _STREAM_ACCESS,
    }


def _notify_many() -> Part:
    """The batch: an array, or one request object per line."""
    item: Part = {
        "allOf": [_ref("schemas", "NotificationRequest")],
        "description": "May also carry `idempotency_key`, which wins over the header.",
    }
    return {
        **_operation(
            "notify_many",
            "notification",
            "Announce many things at once",
            description=(
                "A JSON array of request objects, or NDJSON with one per line. Each is judged for "
                "itself: those that are acceptable are stored even when others are not. The "
                "results stand in the order sent."
            ),
            responses={
                "200": _json("What became of each.", "BatchResponse", samples.BATCH_ANSWER),
                **_stream_errors(),
            },
        ),
        "parameters": [
            _key_parameter("Makes a repeat of the whole batch safe: item n gets the key `<key>#n`.")
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"type": "array", "minItems": 1, "items": item},
                    "example": samples.BATCH,
                },
                "application/x-ndjson": {"schema": {"type": "string"}},
            },
        },
        "security": _STREAM_ACCESS,
    }


def _key_parameter(description: str) -> Part:
    return {
        "name": "Idempotency-Key",
        "in": "header",
        "description": description,
        "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
        "example": "forecast-20260304-00-step-6",
    }


def _stream(name: str) -> Part:
    """Watch and replay: the same request, the same frames, different lifecycles."""
    summary, description, requests, frames = samples.STREAMS[name]
    example = {"frames": {"summary": "What the body looks like", "value": frames}}
    headers: Part = {
        "Cache-Control": {"schema": {"const": "no-cache"}},
        "X-Accel-Buffering": {"schema": {"const": "no"}},
        "Access-Control-Allow-Origin": {"schema": {"const": "*"}},
    }
    stream = _response(
        "Server-sent events until the stream ends; the last one is `connection-closing`.",
        {"text/event-stream": {"schema": {"type": "string"}, "examples": cast("Json", example)}},
        headers,
    )
    return {
        **_operation(
            name,
            "streaming",
            summary,
            description=description,
            responses={"200": stream, **_stream_errors()},
        ),
        "requestBody": _body("NotificationRequest", requests),
        "security": _STREAM_ACCESS,
    }


def _auth_check() -> Part:
    return {
        **_operation(
            "auth_check",
            "general",
            "Who am I?",
            description=(
                "Tests a credential without side effects. While authentication is off the caller "
                "is `anonymous` and everything is open."
            ),
            responses={
                "200": _json("The credential is accepted.", "AuthCheckResponse", samples.CHECKED),
                **_access_errors(),
                "500": _shared("InternalError"),
            },
        ),
        "security": _ADMIN_ACCESS,
    }


def _overview() -> Part:
    return {
        **_operation(
            "overview",
            "general",
            "What does the server hold?",
            description=samples.OVERVIEW_TEXT,
            responses={
                "200": _json("As it is now.", "OverviewResponse", samples.OVERVIEW),
                **_access_errors(),
                "500": _shared("InternalError"),
            },
        ),
        "security": _STREAM_ACCESS,
    }


def _wipe_stream() -> Part:
    return {
        **_operation(
            "wipe_stream",
            "admin",
            "Remove all notifications of one event type",
            description="Sequences are not reset.",
            responses={
                "200": _json("Wiped.", "WipeResponse", samples.WIPED),
                "400": _json("The body is not a wipe request.", "WipeResponse"),
                "404": _json("No such stream.", "WipeResponse"),
                "408": _shared("RequestTimeout"),
                "413": _shared("PayloadTooLarge"),
                "500": _json("The backend failed.", "WipeResponse"),
                **_access_errors(),
            },
        ),
        "requestBody": _body("WipeStreamRequest", {"mars": {"value": {"stream_name": "mars"}}}),
        "security": _ADMIN_ACCESS,
    }


def _wipe_all() -> Part:
    return {
        **_operation(
            "wipe_all",
            "admin",
            "Remove all notifications",
            description="Sequences are not reset.",
            responses={
                "200": _json("Wiped.", "WipeResponse"),
                "500": _json("At least one stream could not be wiped.", "WipeResponse"),
                **_access_errors(),
            },
        ),
        "security": _ADMIN_ACCESS,
    }


def _delete_notification() -> Part:
    answer = "DeleteNotificationResponse"
    return {
        **_operation(
            "delete_notification",
            "admin",
            "Remove one notification",
            description="Its sequence stays a hole; streams under way are not affected.",
            responses={
                "200": _json("Deleted.", answer, samples.DELETED),
                "400": _json("Not a notification id.", answer),
                "404": _json("No such notification.", answer),
                "500": _json("The backend failed.", answer),
                **_access_errors(),
            },
        ),
        "parameters": [_path_parameter("notification_id", "`<event_type>@<sequence>`.", "mars@42")],
        "security": _ADMIN_ACCESS,
    }


def _operation(
    name: str, tag: str, summary: str, *, responses: Part, description: str = ""
) -> Part:
    operation: Part = {"operationId": name, "tags": [tag], "summary": summary}
    if description:
        operation["description"] = description
    return {**operation, "responses": responses}


def _stream_errors() -> Part:
    """What notify, watch and replay answer when they refuse or fail."""
    return {
        "400": _shared("BadRequest"),
        **_access_errors(),
        "408": _shared("RequestTimeout"),
        "413": _shared("PayloadTooLarge"),
        "429": _shared("TooManyRequests"),
        "500": _shared("InternalError"),
    }


def _access_errors() -> Part:
    return {
        "401": _shared("Unauthorized"),
        "403": _shared("Forbidden"),
        "503": _shared("ServiceUnavailable"),
    }


def _shared_responses() -> Part:
    unauthorized = _json("Credentials are missing or wrong.", "ErrorResponse", samples.UNAUTHORIZED)
    headers = cast("Part", unauthorized["headers"])
    headers["WWW-Authenticate"] = _ref("headers", "WWW-Authenticate")
    limited = _json("A limit of the service is reached.", "ErrorResponse", samples.LIMITED)
    failed = _json("The service or its store failed.", "ErrorResponse", samples.NOT_STORED)
    for answer in (limited, failed):
        cast("Part", answer["headers"])["Retry-After"] = _ref("headers", "Retry-After")
    return {
        "BadRequest": _json("The request is refused.", "ErrorResponse", samples.BAD_REQUEST),
        "Unauthorized": unauthorized,
        "Forbidden": _json("The user may not do this.", "ErrorResponse"),
        "KeyReused": _json("The key stands for another notification.", "ErrorResponse"),
        "PayloadTooLarge": _json("The body is too large.", "ErrorResponse", samples.TOO_LARGE),
        "RequestTimeout": _json("The body did not arrive in time.", "ErrorResponse"),
        "TooManyRequests": limited,
        "InternalError": failed,
        "ServiceUnavailable": _json("A service that decides access is away.", "ErrorResponse"),
    }


def _headers() -> Part:
    return {
        "X-Request-ID": {
            "description": "A fresh UUID version 4 for every request.",
            "required": True,
            "schema": {"type": "string", "format": "uuid"},
        },
        "Retry-After": {
            "description": "Seconds after which the request may succeed.",
            "schema": {"type": "integer", "minimum": 1},
        },
        "WWW-Authenticate": {
            "description": "`Bearer`; in direct mode a second line `Basic`.",
            "schema": {"type": "string"},
        },
    }


def _schemas() -> Part:
    """The component schemas, from the structs; cursors also take integers."""
    _, components = msgspec.json.schema_components(
        _DOCUMENTED,
        schema_hook=lambda _: {"description": "Any JSON value."},
        ref_template="#/components/schemas/{name}",
    )
    request = components["NotificationRequest"]
    request["description"] = "What a client sends to notify, watch or replay."
    for name, text in _MEMBERS.items():
        request["properties"][name]["description"] = text
        if name.startswith(("from_", "to_")):
            # Clients may send numbers; the struct holds the text they are turned into.
            request["properties"][name]["anyOf"].insert(1, {"type": "integer"})
    return components


def _path_parameter(name: str, description: str, example: str) -> Part:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": {"type": "string", "minLength": 1},
        "example": example,
    }


def _body(schema: str, examples: Mapping[str, Json]) -> Part:
    content: Part = {"schema": _ref("schemas", schema), "examples": dict(examples)}
    return {"required": True, "content": {"application/json": content}}


def _json(description: str, schema: str, example: Json = None) -> Part:
    content: Part = {"schema": _ref("schemas", schema)}
    if example is not None:
        content["example"] = example
    return _response(description, {"application/json": content})


def _response(description: str, content: Part, headers: Part | None = None) -> Part:
    shown: Part = {"X-Request-ID": _ref("headers", "X-Request-ID"), **(headers or {})}
    return {"description": description, "headers": shown, "content": content}


def _shared(name: str) -> Part:
    return _ref("responses", name)


def _ref(kind: str, name: str) -> Part:
    return {"$ref": f"#/components/{kind}/{name}"}
