"""A TCP connection that can be cut, made slow, or made to hang, between two real processes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Cable:
    """Forwards bytes between clients and a port on loopback, as long as it is whole."""

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream
        self._server: asyncio.Server | None = None
        self._ends: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._delay_s = 0.0
        self._whole = True
        self.port = 0

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def end(self) -> None:
        """Let go of everything."""
        self.cut()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def cut(self) -> None:
        """Break every connection and refuse new ones."""
        self._whole = False
        self._flowing.set()
        for end in self._ends:
            end.transport.abort()

    def hang(self) -> None:
        """Keep connections and carry nothing: with no sign that anything is wrong."""
        self._flowing.clear()

    def delay(self, seconds: float) -> None:
        """Carry everything that much later."""
        self._delay_s = seconds

    def mend(self) -> None:
        """As new."""
        self._whole, self._delay_s = True, 0.0
        self._flowing.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._whole:
            writer.transport.abort()
            return
        try:
            there = await asyncio.open_connection("127.0.0.1", self._upstream)
        except OSError:
            writer.transport.abort()
            return
        self._ends |= {writer, there[1]}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._carry(reader, there[1]))
                group.create_task(self._carry(there[0], writer))
        finally:
            self._ends -= {writer, there[1]}

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        # uvloop raises RuntimeError for a transport that was aborted meanwhile.
        with contextlib.suppress(OSError, RuntimeError):
            while data := await source.read(65_536):
                await asyncio.sleep(self._delay_s)
                await self._flowing.wait()
                target.write(data)
                await target.drain()
        target.transport.abort()


@asynccontextmanager
async def cable(upstream: int) -> AsyncIterator[Cable]:
    """A whole one; it is let go with the block."""
    made = Cable(upstream)
    await made.start()
    try:
        yield made
    finally:
        await made.end()
