"""The server that notifications are delivered to."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field

from aviso_server.core.json import Json, compact


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Its address, our credentials, how much goes into one request, and how fast."""

    url: str
    """Of the server, without ``/api/v1``."""
    authorization: str | None = field(default=None, repr=False)
    """The header's value."""
    batch_size: int = 500
    """Notifications in one request."""
    retries: int = 5
    """Of one request, after the first try."""
    timeout_s: float = 30.0
    """For one request."""
    rate: float | None = None
    """Notifications per second; None is as fast as it goes."""

    def source_options(self, event_type: str, identifier: Mapping[str, Json]) -> dict[str, str]:
        """The options of the Spark source that read what is stored here, as the same user."""
        options = {
            "url": self.url,
            "eventType": event_type,
            "filter": compact(dict(identifier)).decode(),
        }
        scheme, _, credentials = (self.authorization or "").partition(" ")
        if scheme == "Bearer":
            options["token"] = credentials
        elif scheme == "Basic":
            username, _, password = base64.b64decode(credentials).decode().partition(":")
            options |= {"username": username, "password": password}
        return options
