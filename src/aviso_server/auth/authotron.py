"""Direct mode: auth-o-tron identifies the caller (docs/authentication.md#modes).

The caller's header is forwarded once; concurrent requests with the same header share the answer,
and it is remembered for a few seconds, never beyond the token's ``exp``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic

import msgspec
import structlog
from yarl import URL

from aviso_server.auth.credential import Fingerprints, forwardable
from aviso_server.auth.identity import Authenticator, Identity
from aviso_server.auth.outbound import Failed, Outbound, Reply, Timeouts
from aviso_server.auth.refusal import (
    AUTH_AWAY,
    INVALID_TOKEN,
    Forbidden,
    Unauthorized,
    Unavailable,
)
from aviso_server.auth.token import TokenCheck, looks_like_token
from aviso_server.core.json import UNREADABLE
from aviso_server.singleflight import SingleFlight

MAX_ANSWER_BYTES = 65_536
MAX_REMEMBERED = 10_000
_MEMBERS = ("token", "jwt", "access_token")


@dataclass(frozen=True, slots=True)
class DirectOptions:
    """Where auth-o-tron is and how long to wait for it and to remember what it said."""

    url: str
    timeout_s: float = 5.0
    cache_s: float = 10.0


class Direct:
    """Authentication by asking auth-o-tron."""

    mode = "direct"
    challenges = ("Bearer", "Basic")

    def __init__(
        self,
        options: DirectOptions,
        tokens: TokenCheck,
        *,
        now_ns: Callable[[], int],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._address = _address(options.url)
        self._tokens = tokens
        self._now_ns = now_ns
        self._cache_s = options.cache_s
        self._outbound = Outbound(Timeouts(options.timeout_s), max_bytes=MAX_ANSWER_BYTES)
        self._flights: SingleFlight[bytes, Identity] = SingleFlight(
            max_entries=MAX_REMEMBERED, ttl_s=self._remembered_s, clock=clock
        )
        self._fingerprints = Fingerprints()

    async def identify(self, authorization: str) -> Identity:
        """Ask, unless the same was just asked."""
        header = forwardable(authorization)
        if self._address is None:
            raise Unavailable("Authentication service is not configured correctly")
        known_as = self._fingerprints.of(header)
        identity, _ = await self._flights.get(known_as, lambda: self._ask(header))
        return identity

    def remembered(self, authorization: str) -> Identity | None:
        """Whom auth-o-tron named a moment ago."""
        return self._flights.kept(self._fingerprints.of(forwardable(authorization)))

    async def close(self) -> None:
        """Close the connections to auth-o-tron."""
        await self._flights.close()
        await self._outbound.close()

    def _remembered_s(self, identity: Identity) -> float:
        if identity.expires_at_ns is None:
            return 0
        return min(self._cache_s, (identity.expires_at_ns - self._now_ns()) / 1e9)

    async def _ask(self, header: str) -> Identity:
        assert self._address is not None  # noqa: S101 - checked before
        try:
            reply = await self._outbound.get(self._address, {"Authorization": header})
        except Failed as error:
            raise _away(str(error)) from error
        if reply.status == 401:
            raise Unauthorized(INVALID_TOKEN, details="refused by auth-o-tron")
        if reply.status == 403:
            raise Forbidden("Token validation was denied")
        if not reply.good:
            raise _away(f"status {reply.status}")
        token = find_token(reply)
        if token is None:
            raise _away("no token in the answer")
        return await self._tokens.identify(token)


def find_token(reply: Reply) -> str | None:
    """The first in an answer that looks like a token (docs/authentication.md#modes)."""
    return next((text for text in _candidates(reply) if looks_like_token(text)), None)


def _candidates(reply: Reply) -> Iterator[str]:
    scheme, _, rest = reply.headers.get("Authorization", "").strip().partition(" ")
    if scheme.lower() == "bearer":
        yield rest.strip()
    try:
        data = msgspec.json.decode(reply.body)
    except UNREADABLE:
        data = None
    if isinstance(data, dict):
        yield from (data[name] for name in _MEMBERS if isinstance(data.get(name), str))
    elif isinstance(data, str):
        yield data
    yield reply.body.decode(errors="replace").strip()


def _address(url: str) -> URL | None:
    """Where to ask; None when the setting is no address one can ask at."""
    try:
        address = URL(f"{url.rstrip('/')}/authenticate")
    except ValueError:
        address = URL()
    # Credentials in the address would take the place of the caller's own.
    if address.scheme in {"http", "https"} and address.host and not address.user:
        return address
    structlog.get_logger().warning(
        "auth.auth_o_tron_url cannot be used",
        event_name="auth.middleware.client.initialization.failed",
        error="not an absolute http or https URL without credentials",
    )
    return None


def _away(why: str) -> Unavailable:
    structlog.get_logger().warning(
        "auth-o-tron gave no usable answer",
        event_name="auth.middleware.remote.validation.failed",
        error=why,
    )
    return Unavailable(AUTH_AWAY, details=why)


_: type[Authenticator] = Direct
