"""Requests in progress, so that a shutdown can let them finish (operations.md 11).

aiohttp's own shutdown stops reading before it waits: a body that is still on its way would never
arrive, and its request would only hold the shutdown up.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from aiohttp import web


class Traffic:
    """Counts the requests in progress, streams included."""

    def __init__(self) -> None:
        self._open = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    @web.middleware
    async def counted(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        """Let a request through and count it meanwhile."""
        self._open += 1
        self._quiet.clear()
        try:
            return await handler(request)
        finally:
            self._open -= 1
            if not self._open:
                self._quiet.set()

    async def ended(self, *, within_s: float) -> None:
        """Wait until no request is in progress, but not longer than that."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._quiet.wait()
