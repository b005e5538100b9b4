"""The shortest way of a notification: one that need not wait is read, stored and answered in place.

No request, no middleware, no answer object: the code that such a request runs through is small
enough to stay in the caches of a processor, and that is most of what is gained. What is decided and
done is defined where it is for every request; here it is only asked directly.

It is for the usual case alone: the store is in memory, nobody has to be asked who the caller is,
and nothing is wrong with the notification. In any other case nothing is done, and the request takes
its usual way, which also explains to the client what is wrong with it.
"""

import time
from collections.abc import Mapping
from functools import partial

from aiohttp import hdrs, web
from aiohttp.helpers import rfc822_formatted_time

from aviso_server.auth.identity import Identity
from aviso_server.backends.memory.backend import MemoryBackend
from aviso_server.backends.metered import unwrap
from aviso_server.http.access import actor_of, guard, log_resolved, policy_of
from aviso_server.http.inflight import InFlight
from aviso_server.http.metrics import RequestMeter
from aviso_server.http.middleware import identify
from aviso_server.http.notify import acknowledge, store_now
from aviso_server.http.overload import Shedding
from aviso_server.http.services import SERVICES, new_request_id
from aviso_server.http.shortcut import PATH


class ShortestWay:
    """Serves notifications of one application in place, where that is possible."""

    def __init__(self, app: web.Application, resource: web.AbstractResource) -> None:
        self._services = services = app[SERVICES]
        self._resource = resource
        (route,) = resource
        self._policy = policy_of(app, route)
        self._shedding: Shedding | None = None
        self._meter: RequestMeter | None = None
        self._in_flight: InFlight | None = None
        possible = type(unwrap(services.backend)) is MemoryBackend
        for middleware in app.middlewares:
            match getattr(middleware, "__self__", middleware):
                case Shedding() as shedding:
                    self._shedding = shedding
                case RequestMeter() as meter:
                    self._meter = meter
                case InFlight() as in_flight:
                    self._in_flight = in_flight
                case found if found is not identify and found is not guard:
                    possible = False  # it would have to be done here, too
        self._possible = possible and self._shedding is not None

    def answer(self, headers: Mapping[str, str], body: bytes) -> bytes | None:
        """The answer, head and body, once the notification is stored; None if nothing was done."""
        services = self._services
        if (
            not self._possible
            or len(body) > services.max_body_bytes
            or services.limits.rated
            or services.sources.stop.requested
            or not self._begins()
        ):
            return None
        begun = time.perf_counter()
        request_id, gate = new_request_id(), services.gate
        sender: Identity | None = None
        key = headers.get("Idempotency-Key")
        try:
            if gate is not None:
                sender = gate.recognise(self._policy, headers.get(hdrs.AUTHORIZATION))
            recognised = time.perf_counter()
            published = store_now(services, body, sender=sender, key=key, request_id=request_id)
        except Exception:  # noqa: BLE001 - found again and explained on the usual way
            return None
        if published is None:
            return None
        if gate is not None and sender is not None:
            gate.decided("success", recognised - begun)
            log_resolved(services.journal, sender, request_id, PATH)
        text = acknowledge(services, published, request_id, partial(actor_of, sender))
        if self._in_flight is not None:
            self._in_flight.passed(hdrs.METH_POST, self._resource)
        if self._meter is not None:
            self._meter.served(self._resource, hdrs.METH_POST, 200, begun)
        head = (
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(text)}\r\nDate: {rfc822_formatted_time()}\r\n"
            f"X-Request-ID: {request_id}\r\n"
        )
        if services.cors.origins:
            for name, value in services.cors.signature(headers.get(hdrs.ORIGIN)):
                head += f"{name}: {value}\r\n"
        return f"{head}\r\n".encode() + text

    def _begins(self) -> bool:
        return self._shedding is not None and self._shedding.begins()
