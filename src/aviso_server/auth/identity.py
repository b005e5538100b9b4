"""Who is asking, and the seam at which authentication plugs in (operations.md 4)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated caller."""

    username: str
    realm: str | None = None
    roles: tuple[str, ...] = ()
    expires_at_ns: int | None = None
    """When the credential ends; no stream outlives it (D22)."""


class Authenticator(Protocol):
    """Turns request headers into an identity."""

    async def identify(self, headers: Mapping[str, str]) -> Identity | None:
        """The caller; None when no usable credential was presented."""
        ...


class Anonymous:
    """Authentication switched off: nobody is anybody, and every route is open."""

    async def identify(self, headers: Mapping[str, str]) -> Identity | None:  # noqa: ARG002 - nothing to look at
        """Nobody."""
        return None


_: type[Authenticator] = Anonymous
