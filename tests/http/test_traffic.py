"""Requests in progress."""

import asyncio

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from aviso_server.http.traffic import Traffic


async def test_waits_for_requests() -> None:
    """Traffic has ended when the last request has, and at once when there is none."""
    traffic, entered, leave = Traffic(), asyncio.Event(), asyncio.Event()

    async def slow(_: web.Request) -> web.Response:
        entered.set()
        await leave.wait()
        return web.Response()

    app = web.Application(middlewares=[traffic.counted])
    app.router.add_get("/", slow)
    async with TestClient(TestServer(app)) as client, asyncio.TaskGroup() as group:
        await traffic.ended(within_s=60)
        request = group.create_task(client.get("/"))
        await entered.wait()
        ended = group.create_task(traffic.ended(within_s=60))
        await traffic.ended(within_s=0)
        assert not ended.done()
        leave.set()
        await ended
        assert (await request).status == 200


async def test_failed_request_has_ended() -> None:
    """A handler that raises is no longer in progress."""
    traffic = Traffic()

    async def broken(_: web.Request) -> web.Response:
        raise web.HTTPNotFound

    app = web.Application(middlewares=[traffic.counted])
    app.router.add_get("/", broken)
    async with TestClient(TestServer(app)) as client:
        assert (await client.get("/")).status == 404
        async with asyncio.timeout(20):
            await traffic.ended(within_s=60)


async def test_routes_are_those_since_somebody_looked() -> None:
    """What is in progress is told every time, what has ended once."""
    traffic, entered, leave = Traffic(), asyncio.Event(), asyncio.Event()

    async def slow(_: web.Request) -> web.Response:
        entered.set()
        await leave.wait()
        return web.Response()

    app = web.Application(middlewares=[traffic.counted])
    app.router.add_get("/slow/{name}", slow)
    async with TestClient(TestServer(app)) as client, asyncio.TaskGroup() as group:
        group.create_task(client.get("/slow/one"))
        await entered.wait()
        await client.post("/nothing")
        assert traffic.routes() == {"GET /slow/{name}", "POST unmatched"}
        assert traffic.routes() == {"GET /slow/{name}"}
        leave.set()
        await traffic.ended(within_s=60)
        assert traffic.routes() == {"GET /slow/{name}"}
        assert traffic.routes() == set()
