"""Requests to a server from a thread: what an answer is, and where credentials go."""

import asyncio
import socket

import pytest
from aiohttp import web
from support.access import served

from aviso_server.pipeline.delivery.http import HttpServer, Unanswered


async def test_answers_are_answers_whatever_their_status() -> None:
    """Nothing is tried again, and a redirect is not followed with our credentials."""
    seen: list[tuple[str, str | None]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.path, request.headers.get("Authorization")))
        if request.path == "/base/moved":
            return web.Response(status=307, headers={"Location": "/elsewhere"})
        return web.Response(status=503, text="busy", headers={"Retry-After": "7"})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with served(app) as url:
        server = HttpServer(f"{url}/base/", authorization="Bearer t", timeout_s=5)
        moved = await asyncio.to_thread(server.get, "/moved")
        busy = await asyncio.to_thread(server.post, "/busy", b"{}")
        server.close()
    assert (moved.status, busy.status, busy.body, busy.retry_after_s) == (307, 503, b"busy", 7)
    assert seen == [("/base/moved", "Bearer t"), ("/base/busy", "Bearer t")]


def test_no_answer_keeps_secrets() -> None:
    """Nobody there, or a server that is silent: an error that shows no credentials."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (1, silent.getsockname()[1]):
            url = f"http://127.0.0.1:{port}"
            server = HttpServer(url, authorization="Bearer secret", timeout_s=0.05)
            with pytest.raises(Unanswered, match="no answer: ") as failure:
                server.get("/")
            assert "secret" not in str(failure.value)
            server.close()
