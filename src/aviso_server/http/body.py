"""Request bodies: bounded while they arrive, decoded with bounds."""

import asyncio
import zlib
from collections.abc import Callable
from functools import partial

from aiohttp import HttpVersion11, StreamReader, web

from aviso_server.core.errors import BodyTooLarge, MalformedBody
from aviso_server.http.limits import BodyTooSlow
from aviso_server.http.services import SERVICES
from aviso_server.relay.turns import aside

_GZIP = 16 + zlib.MAX_WBITS
_ZLIB = zlib.MAX_WBITS
_RAW = -zlib.MAX_WBITS


def _hold_nothing(_: int) -> None:
    """Small bodies are bounded by the number of requests."""


async def read_body(
    request: web.Request, limit: int, hold: Callable[[int], None] = _hold_nothing
) -> bytes:
    """The body, decoded; BodyTooLarge as soon as it is over the limit.

    ``hold`` is called with the bytes that are about to be kept, and may refuse them.
    """
    declared = request.content_length
    if declared is not None and declared > limit:
        raise BodyTooLarge(limit)
    try:
        if request.content.is_eof():  # complete: most bodies arrive together with their head
            received = request.content.read_nowait()
            hold(len(received))
        else:
            received = await _in_time(request, limit, hold)
    except web.RequestPayloadError:
        raise MalformedBody("JSON parsing failed: broken transfer encoding") from None
    if len(received) > limit:
        raise BodyTooLarge(limit)
    encoding = request.headers.get("Content-Encoding", "").strip()
    if encoding.lower() in ("", "identity"):
        return received
    hold(limit)
    # Small ones inflate as well: up to a thousand times their size, so the limit decides.
    return await aside(limit, partial(_decode, received, encoding, limit))


async def _in_time(request: web.Request, limit: int, hold: Callable[[int], None]) -> bytes:
    """What arrives; BodyTooSlow if that takes too long, however slowly it trickles in."""
    limit_s = request.app[SERVICES].body_timeout_s
    try:
        async with asyncio.timeout(limit_s):
            return await _receive(request.content, limit, hold)
    except TimeoutError:
        raise BodyTooSlow(limit_s) from None


async def _receive(content: StreamReader, limit: int, hold: Callable[[int], None]) -> bytes:
    """What arrives, up to the limit; most bodies arrive in one piece."""
    piece = await content.readany()
    hold(len(piece))
    if content.at_eof() and len(piece) <= limit:
        return piece
    received = bytearray()
    while piece:
        received += piece
        if len(received) > limit:
            raise BodyTooLarge(limit)
        piece = await content.readany()
        hold(len(piece))
    return bytes(received)


async def answer_expectation(request: web.Request) -> None:
    """Ask for the body a client holds back, unless its declared size is refused anyway."""
    declared = request.content_length
    if request.version < HttpVersion11:
        return
    services = request.app[SERVICES]
    batch = request.path.endswith("/notifications")
    limit = services.max_batch_bytes if batch else services.max_body_bytes
    if declared is None or declared <= limit:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        # The answer itself has not begun; the middleware and aiohttp go by this number.
        request.writer.output_size = 0


def _decode(body: bytes, encoding: str, limit: int) -> bytes:
    try:
        match encoding.lower():
            case "gzip" | "x-gzip":
                return _inflate(body, _GZIP, limit)
            case "deflate":
                # The name means zlib, but some clients send the bare stream.
                try:
                    return _inflate(body, _ZLIB, limit)
                except zlib.error:
                    return _inflate(body, _RAW, limit)
    except zlib.error:
        pass
    # Header bytes that are not UTF-8 arrive as lone surrogates, which no answer can carry.
    shown = encoding.encode(errors="replace").decode()
    raise MalformedBody(f"JSON parsing failed: unsupported or corrupt content encoding '{shown}'")


def _inflate(body: bytes, window: int, limit: int) -> bytes:
    """Inflate at most ``limit`` bytes: a small body must not become a large one in memory."""
    inflater = zlib.decompressobj(window)
    inflated = inflater.decompress(body, limit + 1)
    if len(inflated) > limit:
        raise BodyTooLarge(limit)
    if not inflater.eof or inflater.unused_data:
        raise zlib.error("truncated or trailing data")
    return inflated
