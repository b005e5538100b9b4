"""A chunked response as a feed's outlet.

Frames are written straight to the transport in HTTP chunks that are encoded once and shared by
every connection that gets them. aiohttp's own writer does the headers and the end of the body.
"""

from aiohttp import HttpVersion11, web
from aiohttp.abc import AbstractStreamWriter

from aviso_server.relay.outlet import Outlet
from aviso_server.relay.subscription import Chunk


class ChunkedOutlet:
    """Writes frames to one prepared response."""

    def __init__(
        self, request: web.Request, response: web.StreamResponse, writer: AbstractStreamWriter
    ) -> None:
        self._response = response
        self._writer = writer
        self._transport = request.transport
        # HTTP/1.0 has no chunks; such a connection takes the ordinary way only.
        self._chunked = request.version >= HttpVersion11
        self._begun = False

    async def send(self, frames: bytes) -> None:
        """Write, and wait while the client's buffers are full."""
        transport = self._transport
        if not self._begun or not self._chunked:
            self._begun = True  # the first write takes the headers along
            await self._response.write(frames)
            return
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client is gone")
        transport.write(_encoded(frames))
        await self._writer.drain()

    def pass_on(self, chunk: Chunk) -> bool:
        """Write a chunk at once if the connection is idle."""
        transport, frames = self._transport, chunk.frames
        if transport is None or frames is None or not self._chunked:
            return False
        if transport.is_closing() or transport.get_write_buffer_size():
            return False
        if chunk.encoded is None:
            chunk.encoded = _encoded(frames)
        transport.write(chunk.encoded)
        return True


def _encoded(frames: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(frames), frames)


_: type[Outlet] = ChunkedOutlet
