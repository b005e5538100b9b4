"""Requests in progress, so that a shutdown can let them finish.

aiohttp's own shutdown stops reading before it waits: a body that is still on its way would never
arrive, and its request would only hold the shutdown up.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from aiohttp import web

from aviso_server.http.held import outlast

_Kind = tuple[str, web.AbstractResource | None]
"""Method and route; few, for both are bounded."""


class InFlight:
    """Knows the requests in progress, streams included."""

    def __init__(self) -> None:
        self._open: Counter[_Kind] = Counter()
        self._ends: dict[_Kind, Callable[[], None]] = {}
        """What to call at the end of each: shared, for there may be thousands that rest."""
        self._ended: set[_Kind] = set()
        """What has ended since the last call."""
        self._quiet = asyncio.Event()
        self._quiet.set()

    @web.middleware
    async def count(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        """Let a request through and count it meanwhile."""
        kind = request.method, request.match_info.route.resource
        self._open[kind] += 1
        self._quiet.clear()
        try:
            response = await handler(request)
        except BaseException:
            self._end(kind)
            raise
        outlast(response, self._ends.setdefault(kind, partial(self._end, kind)))
        return response

    def _end(self, kind: _Kind) -> None:
        self._open[kind] -= 1
        self._ended.add(kind)
        if not self._open[kind]:
            del self._open[kind]
            if not self._open:
                self._quiet.set()

    def passed(self, method: str, resource: web.AbstractResource) -> None:
        """Note a request that came and was answered in one go."""
        self._ended.add((method, resource))

    def routes(self) -> set[str]:
        """What is being served, or was since this was asked before; each route once."""
        ended, self._ended = self._ended, set()
        return {
            f"{method} {'unmatched' if resource is None else resource.canonical}"
            for method, resource in ended.union(self._open)
        }

    async def settle(self, *, within_s: float) -> None:
        """Wait until no request is in progress, but not longer than that."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._quiet.wait()
