"""Requests to other services: bounded in time and size, and without a memory for cookies."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from support.access import served
from yarl import URL

from aviso_server.auth.outbound import Failed, Outbound, Timeouts, fetch


@pytest.fixture
async def outbound() -> AsyncIterator[Outbound]:
    made = Outbound(Timeouts(total_s=5), max_bytes=100)
    yield made
    await made.close()


def answering(*answers: web.Response) -> web.Application:
    """An application that gives these answers one after another."""
    left = list(answers)

    async def answer(request: web.Request) -> web.Response:
        given = left.pop(0)
        given.headers["X-Cookie"] = request.headers.get("Cookie", "")
        return given

    app = web.Application()
    app.router.add_get("/", answer)
    return app


async def test_answers_up_to_the_limit_are_read(outbound: Outbound) -> None:
    """One byte more is a failure, and not a reason to take it all in."""
    app = answering(web.Response(body=b"x" * 100), web.Response(body=b"x" * 101))
    async with served(app) as url:
        assert (await outbound.get(URL(url))).body == b"x" * 100
        with pytest.raises(Failed, match="more than 100 bytes"):
            await outbound.get(URL(url))


async def test_cookies_are_not_kept(outbound: Outbound) -> None:
    """What a service answers one caller never comes back with another's request."""
    first = web.Response()
    first.set_cookie("session", "alice")
    async with served(answering(first, web.Response())) as url:
        await outbound.get(URL(url))
        assert (await outbound.get(URL(url))).headers["X-Cookie"] == ""


async def test_time_is_bounded() -> None:
    """A service that accepts and says nothing."""
    never = asyncio.Event()

    async def silent(_: web.Request) -> web.Response:
        await never.wait()
        return web.Response()

    app = web.Application()
    app.router.add_get("/", silent)
    impatient = Outbound(Timeouts(total_s=0.05), max_bytes=100)
    async with served(app) as url:
        with pytest.raises(Failed, match="no answer in time"):
            await impatient.get(URL(url))
    await impatient.close()


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "nonsense", "ftp://127.0.0.1/"])
async def test_nobody_to_ask(outbound: Outbound, url: str) -> None:
    """Whatever goes wrong on the way is one kind of failure."""
    with pytest.raises(Failed):
        await outbound.get(URL(url))


@pytest.mark.parametrize("status", [302, 404, 500])
async def test_documents_must_be_there(outbound: Outbound, status: int) -> None:
    """Redirects are not followed to them."""
    answer = web.Response(status=status, headers={"Location": "/"})
    async with served(answering(answer)) as url:
        with pytest.raises(Failed, match=f"status {status}"):
            await fetch(outbound, URL(url))
