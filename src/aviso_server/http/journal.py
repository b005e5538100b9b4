"""Log records of refused and failed requests."""

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
from aviso_server.http.errors import INTERNAL_ERROR, row_of
from aviso_server.http.limits import BodyTooSlow, TooManyRequests
from aviso_server.http.services import REQUEST_ID
from aviso_server.telemetry.redaction import redact_text

MAX_TEXT = 200
"""Characters of one text of an error chain."""
_MAX_LOOKED_AT = 2000
"""Of these, this many are redacted: what is cut off must not be the end of a secret."""


def about(error: AvisoError, operation: Operation) -> dict[str, object]:
    """What every record about an error has; the client sees no more than the message."""
    row = row_of(error, operation)
    return {
        "outcome": "error",
        "error_code": row.code,
        "error": row.error,
        "error_type": row.error,
        "error_message": error.message,
        "error_chain": chain_of(error),
    }


def chain_of(error: BaseException) -> list[str]:
    """The texts of an error and its causes, the outermost first; redacted and cut."""
    texts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(texts) < 10:
        if isinstance(cause, AvisoError):
            texts += [cause.message, cause.details]
        else:
            texts.append(f"{type(cause).__name__}: {cause}")
        cause = cause.__cause__
    cut = (redact_text(text[:_MAX_LOOKED_AT])[:MAX_TEXT] for text in texts)
    return list(dict.fromkeys(cut))


def log_unexpected(error: Exception, request_id: str) -> None:
    """Log what nobody foresaw, with its traceback."""
    structlog.get_logger().error(
        "Request failed unexpectedly",
        event_name="api.request.processing.failed",
        request_id=request_id,
        outcome="error",
        error_code=INTERNAL_ERROR.code,
        error=INTERNAL_ERROR.error,
        error_type=INTERNAL_ERROR.error,
        error_message=str(error),
        error_chain=chain_of(error),
        exc_info=True,
    )


def log_refused(
    error: AvisoError,
    operation: Operation,
    request: web.Request,
    *,
    event_type: str | None = None,
    topic: str | None = None,
) -> None:
    """Log why a request was not served; its parsing, its validation, or our failure."""
    fields = {
        "request_id": request[REQUEST_ID],
        **actor(request),
        **about(error, operation),
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
