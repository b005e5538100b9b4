"""From an error's class to its answer: the one table of docs/errors.md#codes."""

from typing import NamedTuple

from aiohttp import web

from aviso_server.auth.refusal import (
    Forbidden,
    MalformedHeader,
    Unauthorized,
    Unavailable,
    Undecided,
)
from aviso_server.core.errors import (
    AvisoError,
    BodyTooLarge,
    InvalidRequest,
    KeyReused,
    MalformedBody,
    SetupFailed,
    StorageFailed,
    UnknownEventType,
    UnknownMember,
    WrongShape,
)
from aviso_server.core.json import Json, compact
from aviso_server.core.operation import Operation
from aviso_server.http.limits import BodyTooSlow, HeadTooLarge, Overloaded, TooManyRequests

JSON_TYPE = {"Content-Type": "application/json"}

RETRY_AFTER_S = 5
"""Told to clients while the store is away: longer than a reconnect or an election takes."""


class Row(NamedTuple):
    """How one class of errors is answered; None in ``code`` or ``error``: the operation's own."""

    status: int
    code: str | None
    error: str | None


INTERNAL_ERROR = Row(500, "INTERNAL_ERROR", "internal_error")

TABLE: dict[type[AvisoError], Row] = {
    BodyTooLarge: Row(413, "PAYLOAD_TOO_LARGE", "Payload Too Large"),
    MalformedBody: Row(400, "INVALID_JSON", None),
    UnknownMember: Row(400, "UNKNOWN_FIELD", None),
    WrongShape: Row(400, "INVALID_REQUEST_SHAPE", None),
    UnknownEventType: Row(400, "UNKNOWN_EVENT_TYPE", "unknown_event_type"),
    InvalidRequest: Row(400, None, None),
    TooManyRequests: Row(429, "TOO_MANY_REQUESTS", "Too Many Requests"),
    BodyTooSlow: Row(408, "REQUEST_TIMEOUT", "Request Timeout"),
    Overloaded: Row(503, "SERVER_OVERLOADED", "Server Overloaded"),
    HeadTooLarge: Row(431, "REQUEST_HEAD_TOO_LARGE", "Request Head Too Large"),
    KeyReused: Row(409, "IDEMPOTENCY_KEY_REUSED", "Idempotency Key Reused"),
    Unauthorized: Row(401, "UNAUTHORIZED", "unauthorized"),
    MalformedHeader: Row(401, "UNAUTHORIZED", "unauthorized"),
    Forbidden: Row(403, "FORBIDDEN", "forbidden"),
    Unavailable: Row(503, "SERVICE_UNAVAILABLE", "service_unavailable"),
    Undecided: INTERNAL_ERROR,
    StorageFailed: Row(500, "NOTIFICATION_STORAGE_FAILED", "Notification Storage Failed"),
    SetupFailed: Row(500, "SSE_STREAM_INITIALIZATION_FAILED", "SSE stream creation failed"),
}

_WORDS = {
    Operation.NOTIFY: ("INVALID_NOTIFICATION_REQUEST", "Invalid Notification Request"),
    Operation.WATCH: ("INVALID_WATCH_REQUEST", "Invalid Watch Request"),
    Operation.REPLAY: ("INVALID_REPLAY_REQUEST", "Invalid Replay Request"),
}


def row_of(error: AvisoError, operation: Operation) -> Row:
    """The table's row, with the operation's words filled in."""
    status, code, label = TABLE[type(error)]
    own_code, own_label = _WORDS[operation]
    return Row(status, code or own_code, label or own_label)


def error_answer(
    error: AvisoError, operation: Operation, request_id: str, *, topic: str | None = None
) -> web.Response:
    """The error object, keys in alphabetical order."""
    status, code, label = row_of(error, operation)
    body: dict[str, Json] = {
        "code": code,
        "details": error.details,
        "error": label,
        "message": error.message,
        "request_id": request_id,
    }
    if error.field is not None:
        body["field"] = error.field
    if isinstance(error, UnknownEventType):
        body["configured_event_types"] = list(error.configured)
    if isinstance(error, SetupFailed) and topic is not None:
        body["topic"] = topic
    headers = JSON_TYPE
    if isinstance(error, StorageFailed | SetupFailed):
        headers = {**JSON_TYPE, "Retry-After": str(RETRY_AFTER_S)}
    if isinstance(error, TooManyRequests | Overloaded):
        headers = {**JSON_TYPE, "Retry-After": str(error.retry_after_s)}
    response = web.Response(status=status, body=compact(body), headers=headers)
    if isinstance(error, BodyTooLarge | BodyTooSlow):
        response.force_close()  # the rest of the body may still come, and is no request
    return response


def unexpected_answer(request_id: str) -> web.Response:
    """What a client sees of a fault nobody foresaw; the log has the rest."""
    body: Json = {
        "code": INTERNAL_ERROR.code,
        "error": INTERNAL_ERROR.error,
        "message": "Internal server error",
        "request_id": request_id,
    }
    return web.Response(status=500, body=compact(body), headers=JSON_TYPE)
