"""Requests in progress."""

import asyncio

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from aviso_server.http.inflight import InFlight


class Served:
    """An application whose requests are counted, and one of which is slow."""

    def __init__(self) -> None:
        self.in_flight, self.entered, self.leave = InFlight(), asyncio.Event(), asyncio.Event()
        app = web.Application(middlewares=[self.in_flight.count])
        app.router.add_get("/slow/{name}", self._slow)
        self.client = TestClient(TestServer(app))

    async def _slow(self, _: web.Request) -> web.Response:
        self.entered.set()
        await self.leave.wait()
        return web.Response()


async def test_waits_for_requests() -> None:
    """InFlight has ended when the last request has, and at once when there is none."""
    served = Served()
    in_flight = served.in_flight
    async with served.client as client, asyncio.TaskGroup() as group:
        await in_flight.settle(within_s=60)
        request = group.create_task(client.get("/slow/one"))
        await served.entered.wait()
        ended = group.create_task(in_flight.settle(within_s=60))
        await in_flight.settle(within_s=0)
        assert not ended.done()
        served.leave.set()
        await ended
        assert (await request).status == 200


async def test_failed_request_has_ended() -> None:
    """A handler that raises is no longer in progress."""
    served = Served()
    async with served.client as client, asyncio.timeout(20):
        assert (await client.get("/nothing")).status == 404
        await served.in_flight.settle(within_s=60)


async def test_routes_are_those_since_somebody_looked() -> None:
    """What is in progress is reported every time, what has ended once."""
    served = Served()
    in_flight = served.in_flight
    async with served.client as client, asyncio.TaskGroup() as group:
        group.create_task(client.get("/slow/one"))
        await served.entered.wait()
        await client.post("/nothing")
        assert in_flight.routes() == {"GET /slow/{name}", "POST unmatched"}
        assert in_flight.routes() == {"GET /slow/{name}"}
        served.leave.set()
        await in_flight.settle(within_s=60)
        assert in_flight.routes() == {"GET /slow/{name}"}
        assert in_flight.routes() == set()
