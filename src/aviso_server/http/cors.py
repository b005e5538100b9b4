"""Cross-origin requests from browsers: allowed origins only, and none unless configured.

Without a list there is what the protocol has: ``*`` on streams, nothing elsewhere, and OPTIONS is
405. With a list, preflights of allowed origins are answered on every route, every
answer to them may be read, and answers to others carry no header, streams included.

Credentials come in ``Authorization``, which a page sets itself; cookies are not used, so
``Access-Control-Allow-Credentials`` is never sent.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from aiohttp import hdrs, web

ANY = "*"
ALLOWED_HEADERS = "Authorization, Content-Type, Idempotency-Key, Traceparent"
EXPOSED_HEADERS = "Retry-After, X-Request-ID"
MAX_AGE_S = 600
"""How long a browser may remember a preflight."""


@dataclass(slots=True)
class Cors:
    """The allowed origins, which may be replaced at any time."""

    origins: frozenset[str] = frozenset()

    def allow(self, origins: Iterable[str]) -> None:
        """Replace the list."""
        self.origins = frozenset(origins)

    def answer_to(self, origin: str | None) -> str | None:
        """The value of ``Access-Control-Allow-Origin``; None if it is not allowed."""
        if ANY in self.origins:
            return ANY
        return origin if origin in self.origins else None

    def preflight(
        self, request: web.Request, refused: web.HTTPMethodNotAllowed
    ) -> web.Response | None:
        """The answer to a browser that asks whether it may send a request; None to others."""
        headers = request.headers
        if (
            request.method != hdrs.METH_OPTIONS
            or hdrs.ACCESS_CONTROL_REQUEST_METHOD not in headers
            or self.answer_to(headers.get(hdrs.ORIGIN)) is None
        ):
            return None
        return web.Response(
            status=204,
            headers={
                hdrs.ACCESS_CONTROL_ALLOW_METHODS: ", ".join(sorted(refused.allowed_methods)),
                hdrs.ACCESS_CONTROL_ALLOW_HEADERS: ALLOWED_HEADERS,
                hdrs.ACCESS_CONTROL_MAX_AGE: str(MAX_AGE_S),
            },
        )

    async def sign(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """Say on every answer who may read it."""
        if not self.origins:
            return
        headers = response.headers
        headers.popall(hdrs.ACCESS_CONTROL_ALLOW_ORIGIN, None)
        for name, value in self.signature(request.headers.get(hdrs.ORIGIN)):
            headers.add(name, value)

    def signature(self, origin: str | None) -> Iterator[tuple[str, str]]:
        """The headers that say who may read an answer; none unless there are origins."""
        if not self.origins:
            return
        allowed = self.answer_to(origin)
        if allowed is not None:
            yield hdrs.ACCESS_CONTROL_ALLOW_ORIGIN, allowed
            yield hdrs.ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS
        if allowed != ANY:
            # Caches must not give one origin the answer meant for another.
            yield hdrs.VARY, hdrs.ORIGIN
