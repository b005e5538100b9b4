"""The errors a request can meet, in one tree; auth, http and the pipeline derive more.

    AvisoError
    ├── RequestError                the client can correct it (4xx)
    │   ├── MalformedBody           not JSON
    │   ├── UnknownMember           a top-level member outside the protocol
    │   ├── WrongShape              JSON of the wrong shape
    │   ├── UnknownEventType        strict mode, event type not configured
    │   ├── InvalidRequest          anything else the protocol refuses
    │   ├── KeyReused               an idempotency key already used for something else
    │   └── BodyTooLarge            over ``application.max_body_bytes``
    ├── NotFound                    an admin target that is not there
    ├── StorageFailed               the backend did not take a notification
    ├── Unacknowledged              whether an atomic batch was stored cannot be known
    ├── NotTogether                 one of an atomic batch, not stored because of another
    ├── NoBatches                   the store has no atomic batches
    ├── SetupFailed                 a stream could not be opened
    ├── HistoryFailed               history could not be read
    │   └── HistoryLost             history that is needed is no longer kept
    └── LiveFailed                  the live source is gone for good

An error carries ``message`` (the outermost text) and ``details`` (the innermost cause, equal to
``message`` for single-level errors), both cut where a client's text made them long, and ``field``:
the field of the identifier, or else the member of the request, to correct. Its class decides the
HTTP status, in one table at the edge; nothing ever inspects the text.
"""

from aviso_server.core.excerpt import excerpt


class AvisoError(Exception):
    """Base of all deliberate errors."""

    def __init__(
        self, message: str, *, details: str | None = None, field: str | None = None
    ) -> None:
        self.message = excerpt(message)
        self.details = self.message if details is None else excerpt(details)
        self.field = None if field is None else excerpt(field)
        """None if the error concerns no single one."""
        super().__init__(self.message)


class RequestError(AvisoError):
    """The request cannot be served as sent; the client can correct it."""


class MalformedBody(RequestError):
    """The body is not JSON, or is in an encoding we do not read."""


class UnknownMember(RequestError):
    """The request object has a member outside the protocol."""


class WrongShape(RequestError):
    """The body is JSON but not of the request's shape."""


class UnknownEventType(RequestError):
    """Strict mode and the event type is not configured."""

    def __init__(self, event_type: str, configured: tuple[str, ...]) -> None:
        super().__init__(f"unknown event type '{event_type}'", field="event_type")
        self.configured = configured


class InvalidRequest(RequestError):
    """A well-formed request that breaks a rule of its endpoint, schema or a field."""


class KeyReused(RequestError):
    """An idempotency key was used before for another notification; nothing was stored."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"Idempotency-Key '{key}' was already used for a different notification. "
            "Use a new key for a new notification"
        )


class BodyTooLarge(RequestError):
    """The body exceeds the configured limit."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"Request body exceeds the limit of {limit_bytes} bytes")


class NotFound(AvisoError):
    """An admin operation names something that does not exist."""


class StorageFailed(AvisoError):
    """The backend did not accept a notification; nothing was stored."""


class Unacknowledged(AvisoError):
    """An atomic batch was sent and not acknowledged: all of it was stored, or nothing."""

    def __init__(self, details: str) -> None:
        super().__init__(
            "It is not known whether the atomic batch was stored. Send it again with the same "
            "idempotency keys; without any, with the request id as Idempotency-Key",
            details=details,
        )


class NotTogether(AvisoError):
    """A notification of an atomic batch that was not stored because of others in it."""


class NoBatches(AvisoError):
    """The store cannot store several notifications as one."""

    def __init__(self, details: str) -> None:
        super().__init__(
            "The store cannot take an atomic batch. Nothing was stored", details=details
        )


class SetupFailed(AvisoError):
    """A watch or replay could not be set up."""


class HistoryFailed(AvisoError):
    """Reading history failed part-way."""


class HistoryLost(HistoryFailed):
    """A reader needs history that is no longer kept."""


class LiveFailed(AvisoError):
    """The live source of a stream is lost and could not be recreated."""
