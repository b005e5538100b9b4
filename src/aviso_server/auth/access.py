"""What each route demands of its caller (operations.md 4.1)."""

from enum import Enum


class Policy(Enum):
    """Attached to every route; a route without one is treated as ADMIN."""

    PUBLIC = "public"
    """No credential is looked at."""
    STREAM = "stream"
    """The event type of the request decides."""
    ADMIN = "admin"
    """Administrators only."""
