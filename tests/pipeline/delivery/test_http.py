"""Requests to a server from a thread: what an answer is, and where credentials go."""

import asyncio
import socket
import ssl
from pathlib import Path

import pytest
from aiohttp import web
from support.access import served
from support.certificates import Authority

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


async def test_https_is_for_servers_that_this_machine_trusts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is sent to one with an unknown certificate; one that the system trusts is asked."""
    authority = Authority(tmp_path)
    pair = authority.sign("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    heads = list[bytes]()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as listening:
        url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        stranger = HttpServer(url, authorization="Bearer secret", timeout_s=20)
        with pytest.raises(Unanswered, match="certificate verify failed"):
            await asyncio.to_thread(stranger.get, "/")
        assert heads == []
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
        known = HttpServer(url, timeout_s=20)
        assert (await asyncio.to_thread(known.get, "/")).body == b"ok"
        for server in (stranger, known):
            server.close()
