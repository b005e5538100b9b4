"""Request bodies: bounded while they arrive, decoded with bounds (http.md 2)."""

import zlib

from aiohttp import web

from aviso_server.core.errors import BodyTooLarge, MalformedBody

_GZIP = 16 + zlib.MAX_WBITS
_ZLIB = zlib.MAX_WBITS
_RAW = -zlib.MAX_WBITS


async def read_body(request: web.Request, limit: int) -> bytes:
    """The body, decoded; BodyTooLarge as soon as it is over the limit (D19)."""
    declared = request.content_length
    if declared is not None and declared > limit:
        raise BodyTooLarge(limit)
    received = bytearray()
    async for piece in request.content.iter_any():
        received += piece
        if len(received) > limit:
            raise BodyTooLarge(limit)
    encoding = request.headers.get("Content-Encoding", "").strip()
    if encoding.lower() in ("", "identity"):
        return bytes(received)
    return _decoded(bytes(received), encoding, limit)


def _decoded(body: bytes, encoding: str, limit: int) -> bytes:
    try:
        match encoding.lower():
            case "gzip" | "x-gzip":
                return _inflated(body, _GZIP, limit)
            case "deflate":
                # The name means zlib, but some clients send the bare stream.
                try:
                    return _inflated(body, _ZLIB, limit)
                except zlib.error:
                    return _inflated(body, _RAW, limit)
    except zlib.error:
        pass
    raise MalformedBody(
        f"JSON parsing failed: unsupported or corrupt content encoding '{encoding}'"
    )


def _inflated(body: bytes, window: int, limit: int) -> bytes:
    """Inflate at most ``limit`` bytes: a small body must not become a large one in memory."""
    inflater = zlib.decompressobj(window)
    inflated = inflater.decompress(body, limit + 1)
    if len(inflated) > limit:
        raise BodyTooLarge(limit)
    if not inflater.eof or inflater.unused_data:
        raise zlib.error("truncated or trailing data")
    return inflated
