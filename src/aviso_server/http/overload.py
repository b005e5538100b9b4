"""Too much at once: requests wait for their turn, and notifications are refused.

A server that is behind falls further behind with everything it accepts, and its clients give up
while it still works for them. Those refused at once can wait and try again.
"""

from collections.abc import Awaitable, Callable

import structlog
from aiohttp import web

from aviso_server.auth.access import Policy
from aviso_server.core.errors import RequestError
from aviso_server.core.operation import Operation
from aviso_server.http.access import POLICIES
from aviso_server.http.errors import error_answer
from aviso_server.http.journal import about
from aviso_server.http.limits import Overloaded
from aviso_server.http.metrics import count_refused
from aviso_server.http.services import REQUEST_ID, Services
from aviso_server.http.turnstile import Turnstile
from aviso_server.telemetry.sparing import Sparing

MAX_BEHIND_S = 2.0
"""How long a request may have waited for its turn: beyond it all who wait as long are refused."""

PROBES = ("/health", "/ready")

LOG_EVERY_S = 10.0

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Shedding:
    """Keeps order among requests, and refuses notifications while there are too many of them."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._turnstile = Turnstile()
        self._in_progress = 0
        self._reports = Sparing(LOG_EVERY_S, services.limits.clock)

    @web.middleware
    async def shed(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Let a request through to access control and its handler, or answer 503.

        Probes neither wait nor are refused: a failed liveness probe would kill the server.
        """
        if request.app[POLICIES].get(request.match_info.route) is not Policy.WRITE:
            if request.path not in PROBES:
                await self._turnstile.enter()
            return await handler(request)
        await self._turnstile.enter()
        if self._too_much():
            return self._refusal(request)
        self._in_progress += 1
        try:
            return await handler(request)
        finally:
            self._in_progress -= 1

    def begins(self) -> bool:
        """Whether a notification that is over as soon as it has begun may begin now."""
        return self._turnstile.passes() and not self._too_much()

    def _too_much(self) -> bool:
        limit = self._services.limits.bounds.notifying
        return 0 < limit <= self._in_progress or self._turnstile.behind_s > MAX_BEHIND_S

    def _refusal(self, request: web.Request) -> web.Response:
        error = Overloaded()
        self._report(request, error)
        count_refused(self._services.sources.metrics, self._services.catalogue, error, None)
        return error_answer(error, Operation.NOTIFY, request[REQUEST_ID])

    def _report(self, request: web.Request, error: RequestError) -> None:
        """Log now and then: writing a line for each would be most of the work."""
        unreported = self._reports.ask()
        if unreported is not None:
            structlog.get_logger().warning(
                "Notifications are refused, for there are too many at once",
                event_name="api.request.limit.reached",
                request_id=request[REQUEST_ID],
                **about(error, Operation.NOTIFY),
                in_progress=self._in_progress,
                behind_seconds=round(self._turnstile.behind_s, 3),
                unreported=unreported,
            )
