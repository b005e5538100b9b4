"""The connection of a watch that waits for notifications: no task, no request, no parser.

A stream begins in the handler of its request. When a watch has nothing more to send at the moment,
its connection is taken from aiohttp and kept by a ``Resting``, which holds the feed and little
else. The hub writes to it directly. Everything else, a heartbeat that is due, a client that is
slow, the end, is done in a task for as long as it takes. After the end of the stream the
connection goes back to aiohttp, for the next request.
"""

import asyncio

from aiohttp import HttpVersion11, web

from aviso_server import tasks
from aviso_server.http.connection import ClientConnection, Parted
from aviso_server.http.gzip import LAST_CHUNK, chunk_of, encode
from aviso_server.http.held import Held, StreamAnswer
from aviso_server.http.journal import log_unexpected
from aviso_server.relay.feed import Feed
from aviso_server.relay.outlet import Outlet
from aviso_server.relay.subscription import Chunk

MAX_EARLY_BYTES = 64 * 1024
"""Of the next request, held while the stream lasts; then the client has to wait."""


class Resting(asyncio.Protocol):
    """One connection that rests; also the outlet of its feed."""

    __slots__ = (
        *("_all", "_drained", "_early", "_feed", "_gzip"),
        *("_parted", "_task", "_transport", "held"),
    )

    def __init__(
        self, parted: Parted, feed: Feed, response: StreamAnswer, held: Held, all_: "set[Resting]"
    ) -> None:
        self.held = held
        """Released with the end of the stream, or with its connection."""
        self._gzip = response.gzip
        self._parted = parted
        self._transport = parted.transport
        self._feed = feed
        self._all = all_
        self._early = b""
        """What the client sent meanwhile."""
        self._task: asyncio.Task[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        """Pending while the client's buffers are full."""
        self._all.add(self)
        self._transport.set_protocol(self)

    def rest(self) -> None:
        """Wait for the next notification, or for whatever else there is to do."""
        self._feed.rest(self, self._woken)

    def _woken(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._resume())

    async def _resume(self) -> None:
        try:
            if await self._feed.resume():
                end = b"" if self._gzip is None else chunk_of(self._gzip.end())
                self._open.write(end + LAST_CHUNK)
                await self._drain()
                self._hand_back()
            else:
                self._task = None
                self.rest()
        except ConnectionError:
            self._transport.close()
        except Exception as error:  # noqa: BLE001 - as for any request: logged, and the stream breaks off
            log_unexpected(error, self._feed.request_id)
            self._transport.close()

    def _hand_back(self) -> None:
        """Let the connection have its next request."""
        self._release()
        if not self._transport.is_closing():
            self._parted.return_with(self._early)

    def _release(self) -> None:
        self._all.discard(self)
        self.held.release()

    async def end(self) -> None:
        """Break off."""
        self._transport.abort()
        if self._task is not None:
            await tasks.end(self._task)
        self._release()

    # As a protocol

    def data_received(self, data: bytes) -> None:
        """Keep the beginning of the next request for later."""
        self._early += data
        if len(self._early) >= MAX_EARLY_BYTES:
            self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why does not matter
        """The client is gone."""
        if self._task is not None:
            self._task.cancel()
        self._release()

    def pause_writing(self) -> None:
        """The client's buffers are full."""
        self._drained = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """The client can take more."""
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None

    # As an outlet

    async def send(self, frames: bytes) -> None:
        """Write, and wait while the client's buffers are full."""
        if self._gzip is not None:
            frames = self._gzip.own(frames)
        self._open.writelines((b"%x\r\n" % len(frames), frames, b"\r\n"))
        await self._drain()

    async def deliver(self, chunk: Chunk) -> None:
        """Write a chunk, and wait while the client's buffers are full."""
        self._open.write(encode(chunk, self._gzip))
        await self._drain()

    def pass_on(self, chunk: Chunk) -> bool:
        """Write a chunk at once if the connection is idle."""
        transport = self._transport
        if not chunk.same_for_all or transport.is_closing() or transport.get_write_buffer_size():
            return False
        encoded = chunk.encoded if self._gzip is None else None
        transport.write(encoded or encode(chunk, self._gzip))
        return True

    async def _drain(self) -> None:
        if self._drained is not None:
            await self._drained

    @property
    def _open(self) -> asyncio.Transport:
        if self._transport.is_closing():
            raise ConnectionResetError("the client is gone")
        return self._transport


RESTING = web.AppKey("resting", set[Resting])
"""Those of an application, so that none is left behind at its end."""


def lay_to_rest(request: web.Request, feed: Feed, held: Held, response: StreamAnswer) -> bool:
    """Take the connection of a stream that may rest; False if aiohttp has to keep it."""
    connection = request.protocol
    # HTTP/1.0 has no chunks. What a client has already sent for later is in aiohttp's parser.
    if request.version < HttpVersion11 or not isinstance(connection, ClientConnection):
        return False
    parted = connection.part()
    if parted is None:
        return False
    response.held = held.keep()
    Resting(parted, feed, response, response.held, request.app[RESTING]).rest()
    return True


async def end_resting(app: web.Application) -> None:
    """Break off the streams that were asked to end and did not."""
    left: set[Resting] = app[RESTING]
    await asyncio.gather(*(resting.end() for resting in tuple(left)))


_: type[Outlet] = Resting
