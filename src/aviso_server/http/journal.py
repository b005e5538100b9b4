"""Log records of refused and failed requests: the four events the seeds fix (operations.md 9)."""

import structlog
from aiohttp import web

from aviso_server.core.errors import (
    AvisoError,
    BodyTooLarge,
    MalformedBody,
    RequestError,
    SetupFailed,
    UnknownMember,
    WrongShape,
)
from aviso_server.core.operation import Operation
from aviso_server.http.access import actor
from aviso_server.http.errors import row_of
from aviso_server.http.limits import BodyTooSlow, TooManyRequests
from aviso_server.http.services import REQUEST_ID


def log_refused(
    error: AvisoError,
    operation: Operation,
    request: web.Request,
    *,
    event_type: str | None = None,
    topic: str | None = None,
) -> None:
    """Log why a request was not served; its parsing, its validation, or our failure."""
    row = row_of(error, operation)
    fields = {
        "request_id": request[REQUEST_ID],
        **actor(request),
        "error_code": row.code,
        "error": row.error,
        "error_type": type(error).__name__,
        "error_message": error.message,
        "details": error.details,
    }
    journal = structlog.get_logger()
    match error:
        case MalformedBody() | UnknownMember() | WrongShape() | BodyTooLarge():
            journal.warning(
                "Request could not be parsed", event_name="api.request.parse.failed", **fields
            )
        case TooManyRequests() | BodyTooSlow():
            journal.warning(
                "Request over a limit",
                event_name="api.request.limit.reached",
                event_type=event_type,
                **fields,
            )
        case RequestError():
            journal.warning(
                "Request refused",
                event_name="api.request.validation.failed",
                event_type=event_type,
                **fields,
            )
        case SetupFailed():
            journal.error(
                "Stream could not be set up",
                event_name="stream.sse.initialization.failed",
                event_type=event_type,
                topic=topic,
                **fields,
            )
        case _:
            journal.error(
                "Request failed",
                event_name="api.request.processing.failed",
                event_type=event_type,
                topic=topic,
                **fields,
            )
