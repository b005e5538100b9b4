"""A response in the hands of its handler as a feed's outlet.

Frames are written straight to the transport in HTTP chunks that are encoded once and shared by
every connection that gets them. aiohttp's own writer does the headers and the end of the body.
"""

import asyncio

from aiohttp import HttpVersion11, web
from aiohttp.abc import AbstractStreamWriter

from aviso_server.http.gzip import encode
from aviso_server.http.held import StreamAnswer
from aviso_server.relay.outlet import Outlet
from aviso_server.relay.subscription import Chunk


class ChunkedOutlet:
    """Writes frames to one prepared response."""

    def __init__(
        self, request: web.Request, response: StreamAnswer, writer: AbstractStreamWriter
    ) -> None:
        self._response = response
        self._gzip = response.gzip
        self._writer = writer
        self._transport = request.transport
        # HTTP/1.0 has no chunks; such a connection takes the ordinary way only.
        self._chunked = request.version >= HttpVersion11
        self._begun = False

    async def send(self, frames: bytes) -> None:
        """Write, and wait while the client's buffers are full."""
        if self._gzip is not None:
            frames = self._gzip.own(frames)
        if not self._begun or not self._chunked:
            self._begun = True  # the first write takes the headers along
            await self._response.write(frames)
            return
        # Not joined: a reader that is slow would hold two copies.
        self._open.writelines((b"%x\r\n" % len(frames), frames, b"\r\n"))
        await self._writer.drain()

    async def deliver(self, chunk: Chunk) -> None:
        """Write a chunk, and wait while the client's buffers are full."""
        if not self._begun or not self._chunked:
            await self.send(chunk.frames)
            return
        self._open.write(encode(chunk, self._gzip))
        await self._writer.drain()

    def pass_on(self, _: Chunk) -> bool:
        """Leave it to the feed: connections that rest have another outlet (http/resting)."""
        return False

    @property
    def _open(self) -> asyncio.Transport:
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the client is gone")
        return self._transport


_: type[Outlet] = ChunkedOutlet
