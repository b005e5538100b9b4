"""The caller, and the interface of authentication."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated caller."""

    username: str
    realm: str | None = None
    roles: tuple[str, ...] = ()
    expires_at_ns: int | None = None
    """When the credential ends; no stream outlives it."""


class Authenticator(Protocol):
    """Turns an ``Authorization`` header into an identity."""

    @property
    def mode(self) -> str:
        """The configured mode, as metrics name it."""
        ...

    @property
    def challenges(self) -> tuple[str, ...]:
        """The ``WWW-Authenticate`` lines of a 401."""
        ...

    async def identify(self, authorization: str) -> Identity:
        """The caller; raises Unauthorized, Forbidden or Unavailable.

        MalformedHeader when there is no credential in the header: the route decides what follows.
        """
        ...

    def remembered(self, authorization: str) -> Identity | None:
        """The caller, if ``identify`` would now say the same as before without asking anybody.

        None if it has to look again, MalformedHeader as there.
        """
        ...

    async def close(self) -> None:
        """Free connections; no one is identified afterwards."""
        ...
