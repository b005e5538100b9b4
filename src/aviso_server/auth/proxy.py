"""Trusted-proxy mode: the proxy has put a token into the request, which is checked here."""

from aviso_server.auth.credential import bearer_token
from aviso_server.auth.identity import Authenticator, Identity
from aviso_server.auth.token import TokenCheck


class TrustedProxy:
    """Authentication by a bearer token alone."""

    mode = "trusted_proxy"
    challenges = ("Bearer",)

    def __init__(self, tokens: TokenCheck) -> None:
        self._tokens = tokens

    async def identify(self, authorization: str) -> Identity:
        """Whom the token names."""
        return await self._tokens.identify(bearer_token(authorization))

    def remembered(self, authorization: str) -> Identity | None:
        """Whom a token names that was accepted before."""
        return self._tokens.remembered(bearer_token(authorization))

    async def close(self) -> None:
        """Nothing is held."""


_: type[Authenticator] = TrustedProxy
