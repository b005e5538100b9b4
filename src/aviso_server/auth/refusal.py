"""Why a caller is refused: the errors of access control.

    AvisoError
    └── Refusal                     access is not granted
        ├── Unauthorized            401, not identified
        │   └── MalformedHeader     the header cannot be read; on streams it counts as none
        ├── Forbidden               403, known but not allowed
        ├── Unavailable             503, a service that decides cannot be asked
        └── Undecided               500, access cannot be decided at all

``message`` is for the caller (docs/authentication.md#refusals). ``details`` is the reason for the
log, such as ``signature``; it is never sent.
"""

from typing import ClassVar

from aviso_server.core.errors import AvisoError


class Refusal(AvisoError):
    """Access is not granted."""

    outcome: ClassVar[str]
    """Its name in metrics and logs."""

    def __init__(
        self,
        message: str,
        *,
        details: str | None = None,
        field: str | None = None,
        username: str | None = None,
    ) -> None:
        super().__init__(message, details=details, field=field)
        self.username = username
        """Who was refused, for the log, if known."""


class Unauthorized(Refusal):
    """No credential where one is needed, or one that is not accepted."""

    outcome = "unauthorized"


class MalformedHeader(Unauthorized):
    """The ``Authorization`` header holds no credential that can be read."""


class Forbidden(Refusal):
    """The caller is known and may not do this."""

    outcome = "forbidden"


class Unavailable(Refusal):
    """A service that decides about access cannot be asked."""

    outcome = "service_unavailable"


class Undecided(Refusal):
    """The server cannot decide about access, through its own fault."""

    outcome = "internal_error"


INVALID_TOKEN = "Invalid or expired token"  # noqa: S105 - a message
"""All that a caller learns about a token that is not accepted."""

AUTH_AWAY = "Authentication service temporarily unavailable"
