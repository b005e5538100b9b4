"""From an error's class to its answer: the one table of docs/errors.md#codes."""

from typing import NamedTuple

from aiohttp import web

from aviso_server.auth.refusal import (
    Forbidden,
    MalformedHeader,
    Refusal,
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
    NoBatches,
    NotTogether,
    SetupFailed,
    StorageFailed,
    Unacknowledged,
    UnknownEventType,
    UnknownMember,
    WrongShape,
)
from aviso_server.core.json import Json, compact
from aviso_server.core.operation import Operation
from aviso_server.http.limits import BodyTooSlow, HeadTooLarge, Overloaded, TooManyRequests

JSON_TYPE = {"Content-Type": "application/json"}

RETRY_AFTER_S = 5
"""For clients while the store is unavailable: longer than a reconnect or an election takes."""


class ErrorRow(NamedTuple):
    """How one class of errors is answered; None in ``code`` or ``error``: the operation's own."""

    status: int
    code: str | None
    error: str | None


INTERNAL_ERROR = ErrorRow(500, "INTERNAL_ERROR", "internal_error")

TABLE: dict[type[AvisoError], ErrorRow] = {
    BodyTooLarge: ErrorRow(413, "PAYLOAD_TOO_LARGE", "Payload Too Large"),
    MalformedBody: ErrorRow(400, "INVALID_JSON", None),
    UnknownMember: ErrorRow(400, "UNKNOWN_FIELD", None),
    WrongShape: ErrorRow(400, "INVALID_REQUEST_SHAPE", None),
    UnknownEventType: ErrorRow(400, "UNKNOWN_EVENT_TYPE", "unknown_event_type"),
    InvalidRequest: ErrorRow(400, None, None),
    TooManyRequests: ErrorRow(429, "TOO_MANY_REQUESTS", "Too Many Requests"),
    BodyTooSlow: ErrorRow(408, "REQUEST_TIMEOUT", "Request Timeout"),
    Overloaded: ErrorRow(503, "SERVER_OVERLOADED", "Server Overloaded"),
    HeadTooLarge: ErrorRow(431, "REQUEST_HEAD_TOO_LARGE", "Request Head Too Large"),
    KeyReused: ErrorRow(409, "IDEMPOTENCY_KEY_REUSED", "Idempotency Key Reused"),
    Unauthorized: ErrorRow(401, "UNAUTHORIZED", "unauthorized"),
    MalformedHeader: ErrorRow(401, "UNAUTHORIZED", "unauthorized"),
    Forbidden: ErrorRow(403, "FORBIDDEN", "forbidden"),
    Unavailable: ErrorRow(503, "SERVICE_UNAVAILABLE", "service_unavailable"),
    Undecided: INTERNAL_ERROR,
    StorageFailed: ErrorRow(500, "NOTIFICATION_STORAGE_FAILED", "Notification Storage Failed"),
    Unacknowledged: ErrorRow(503, "BATCH_OUTCOME_UNKNOWN", "Batch Outcome Unknown"),
    NotTogether: ErrorRow(409, "BATCH_NOT_STORED", "Batch Not Stored"),
    NoBatches: ErrorRow(501, "ATOMIC_BATCH_UNSUPPORTED", "Atomic Batch Unsupported"),
    SetupFailed: ErrorRow(500, "SSE_STREAM_INITIALIZATION_FAILED", "SSE stream creation failed"),
}

_WORDS = {
    Operation.NOTIFY: ("INVALID_NOTIFICATION_REQUEST", "Invalid Notification Request"),
    Operation.WATCH: ("INVALID_WATCH_REQUEST", "Invalid Watch Request"),
    Operation.REPLAY: ("INVALID_REPLAY_REQUEST", "Invalid Replay Request"),
}


def row_of(error: AvisoError, operation: Operation) -> ErrorRow:
    """The table's row, with the operation's name filled in."""
    status, code, label = TABLE[type(error)]
    own_code, own_label = _WORDS[operation]
    return ErrorRow(status, code or own_code, label or own_label)


def error_answer(
    error: AvisoError, operation: Operation, request_id: str, *, topic: str | None = None
) -> web.Response:
    """The error object, keys in alphabetical order."""
    status, code, label = row_of(error, operation)
    body: dict[str, Json] = {
        "code": code,
        "error": label,
        "message": error.message,
        "request_id": request_id,
    }
    if not isinstance(error, Refusal):  # whose details are for the log only
        body["details"] = error.details
    if error.field is not None:
        body["field"] = error.field
    if isinstance(error, UnknownEventType):
        body["configured_event_types"] = list(error.configured)
    if isinstance(error, SetupFailed) and topic is not None:
        body["topic"] = topic
    headers = JSON_TYPE
    if isinstance(error, StorageFailed | Unacknowledged | SetupFailed):
        headers = {**JSON_TYPE, "Retry-After": str(RETRY_AFTER_S)}
    if isinstance(error, TooManyRequests | Overloaded):
        headers = {**JSON_TYPE, "Retry-After": str(error.retry_after_s)}
    response = web.Response(status=status, body=compact(body), headers=headers)
    if isinstance(error, BodyTooLarge | BodyTooSlow):
        response.force_close()  # the rest of the body may still come, and is no request
    return response


def unexpected_answer(request_id: str) -> web.Response:
    """What a client sees of an unforeseen fault; the log has the rest."""
    body: Json = {
        "code": INTERNAL_ERROR.code,
        "error": INTERNAL_ERROR.error,
        "message": "Internal server error",
        "request_id": request_id,
    }
    return web.Response(status=500, body=compact(body), headers=JSON_TYPE)
