"""Requests in progress."""

import asyncio

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from aviso_server.http.inflight import InFlight


async def test_waits_for_requests() -> None:
    """InFlight has ended when the last request has, and at once when there is none."""
    in_flight, entered, leave = InFlight(), asyncio.Event(), asyncio.Event()

    async def slow(_: web.Request) -> web.Response:
        entered.set()
        await leave.wait()
        return web.Response()

    app = web.Application(middlewares=[in_flight.count])
    app.router.add_get("/", slow)
    async with TestClient(TestServer(app)) as client, asyncio.TaskGroup() as group:
        await in_flight.settle(within_s=60)
        request = group.create_task(client.get("/"))
        await entered.wait()
        ended = group.create_task(in_flight.settle(within_s=60))
        await in_flight.settle(within_s=0)
        assert not ended.done()
        leave.set()
        await ended
        assert (await request).status == 200


async def test_failed_request_has_ended() -> None:
    """A handler that raises is no longer in progress."""
    in_flight = InFlight()

    async def broken(_: web.Request) -> web.Response:
        raise web.HTTPNotFound

    app = web.Application(middlewares=[in_flight.count])
    app.router.add_get("/", broken)
    async with TestClient(TestServer(app)) as client:
        assert (await client.get("/")).status == 404
        async with asyncio.timeout(20):
            await in_flight.settle(within_s=60)


async def test_routes_are_those_since_somebody_looked() -> None:
    """What is in progress is reported every time, what has ended once."""
    in_flight, entered, leave = InFlight(), asyncio.Event(), asyncio.Event()

    async def slow(_: web.Request) -> web.Response:
        entered.set()
        await leave.wait()
        return web.Response()

    app = web.Application(middlewares=[in_flight.count])
    app.router.add_get("/slow/{name}", slow)
    async with TestClient(TestServer(app)) as client, asyncio.TaskGroup() as group:
        group.create_task(client.get("/slow/one"))
        await entered.wait()
        await client.post("/nothing")
        assert in_flight.routes() == {"GET /slow/{name}", "POST unmatched"}
        assert in_flight.routes() == {"GET /slow/{name}"}
        leave.set()
        await in_flight.settle(within_s=60)
        assert in_flight.routes() == {"GET /slow/{name}"}
        assert in_flight.routes() == set()
