"""JSON Web Tokens: from a token to an identity, or Unauthorized (docs/authentication.md#tokens).

Rules
- The algorithm is looked up among those that have a key; ``none`` is not among them.
- The signature comes first: no claim of an unsigned token is read.
- ``exp`` must be there and may lie at most 60 s in the past. Other times, audience and issuer are
  not checked.
- The caller learns that a token is not accepted, never why. The log has the reason's class.
"""

import re
from collections.abc import Callable, Sequence
from typing import Annotated, NamedTuple

import jwt
import msgspec
from jwt.api_jws import PyJWS

from aviso_server.auth.credential import Fingerprints
from aviso_server.auth.identity import Identity
from aviso_server.auth.keyring import KeySource
from aviso_server.auth.keys import ALGORITHMS, Key
from aviso_server.auth.refusal import INVALID_TOKEN, Unauthorized
from aviso_server.core.json import UNREADABLE
from aviso_server.core.moment import NS_PER_SECOND

LEEWAY_S = 60
"""How far the clocks of issuer and server may be apart."""

MAX_REMEMBERED = 1000
"""Tokens; then all are forgotten, for there is no telling which are still used."""
MAX_LENGTH = 4096
"""Characters of a token that is remembered; what it claims is kept with it."""

_JWT = re.compile(r"(?:[A-Za-z0-9_-]+\.){2}[A-Za-z0-9_-]+")
_JWS = PyJWS(algorithms=list(ALGORITHMS))


class _Claims(msgspec.Struct, frozen=True):
    """The claims that are read; others are ignored."""

    exp: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    username: str | None = None
    sub: str | None = None
    realm: str | None = None
    roles: tuple[str, ...] | None = None


_CLAIMS = msgspec.json.Decoder(_Claims)


def looks_like_token(text: str) -> bool:
    """True for three non-empty base64url segments."""
    return _JWT.fullmatch(text) is not None


class _Accepted(NamedTuple):
    """What a signature was found good with, and whom it names."""

    source: KeySource
    key: Key
    identity: Identity


class TokenCheck:
    """Checks tokens with the keys of its sources.

    A producer sends the same token with every notification, and a signature takes longer to check
    than everything else. So one that was good is not checked again while its key is one.
    """

    def __init__(self, sources: Sequence[KeySource], *, now_ns: Callable[[], int]) -> None:
        self._sources = tuple(sources)
        self._now_ns = now_ns
        self._fingerprints = Fingerprints()
        self._accepted: dict[bytes, _Accepted] = {}

    def remembered(self, token: str) -> Identity | None:
        """The user of a token that was accepted before and would be again."""
        short = len(token) <= MAX_LENGTH
        accepted = self._accepted.get(self._fingerprints.of(token)) if short else None
        if accepted is None or not accepted.source.holds(accepted.key):
            return None
        return None if self._is_over(accepted.identity) else accepted.identity

    async def identify(self, token: str) -> Identity:
        """The user of the token; Unauthorized, or Unavailable if no key can be had."""
        known = self.remembered(token)
        if known is not None:
            return known
        algorithm, kid = _header(token)
        for source in self._sources:
            for key in await source.find(algorithm, kid):
                payload = _payload(token, key)
                if payload is not None:
                    identity = self._identity(payload)
                    self._remember(token, _Accepted(source, key, identity))
                    return identity
        raise Unauthorized(INVALID_TOKEN, details="signature")

    def _identity(self, payload: bytes) -> Identity:
        try:
            claims = _CLAIMS.decode(payload)
        except UNREADABLE:
            raise Unauthorized(INVALID_TOKEN, details="malformed") from None
        username = claims.username or claims.sub or ""
        ends_ns = claims.exp * NS_PER_SECOND
        identity = Identity(username, claims.realm, claims.roles or (), ends_ns)
        if self._is_over(identity):
            raise Unauthorized(INVALID_TOKEN, details="expired")
        if not username:
            raise Unauthorized("Token is missing required user claims")
        return identity

    def _is_over(self, identity: Identity) -> bool:
        ends_ns = identity.expires_at_ns
        return ends_ns is not None and ends_ns < self._now_ns() - LEEWAY_S * NS_PER_SECOND

    def _remember(self, token: str, accepted: _Accepted) -> None:
        if len(token) > MAX_LENGTH:
            return
        if len(self._accepted) >= MAX_REMEMBERED:
            self._accepted.clear()
        self._accepted[self._fingerprints.of(token)] = accepted


def _header(token: str) -> tuple[str, str | None]:
    """Algorithm and key id, as the token claims them."""
    if not looks_like_token(token):
        raise Unauthorized(INVALID_TOKEN, details="malformed")
    try:
        header = _JWS.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise Unauthorized(INVALID_TOKEN, details="malformed") from None
    algorithm, kid = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise Unauthorized(INVALID_TOKEN, details="algorithm")
    return algorithm, kid if isinstance(kid, str) else None


def _payload(token: str, key: Key) -> bytes | None:
    """The signed bytes; None when this key did not sign them."""
    try:
        # One key, one algorithm: the token's own header decides nothing here.
        payload: bytes = _JWS.decode(token, key.material, algorithms=[key.algorithm])
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        return None
    return payload
