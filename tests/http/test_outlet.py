"""Slow readers share what is shared: one copy of a notification, however many wait for it."""

import asyncio
import socket
import tracemalloc

from support.config import settings
from support.edge import Edge, edge
from support.raw import PATIENCE_S, request

READERS = 24
WATCH = request("POST", "/api/v1/watch", b'{"event_type":"ev","identifier":{}}')


async def reader(served: Edge) -> socket.socket:
    """A watcher that takes nothing off its socket by itself."""
    loop = asyncio.get_running_loop()
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
    connection.settimeout(0)
    await loop.sock_connect(connection, (served.running.host, served.running.port))
    await loop.sock_sendall(connection, WATCH)
    return connection


async def read(connection: socket.socket, amount: int) -> None:
    """Take some bytes off."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(PATIENCE_S):
        while amount > 0:
            amount -= len(await loop.sock_recv(connection, min(amount, 16 * 1024)))


async def test_readers_that_trickle_hold_no_copies_of_their_own() -> None:
    """Up to 4 MiB wait for each; together they hold what one of them would."""
    async with edge(settings()) as served:
        readers = [await reader(served) for _ in range(READERS)]
        async with asyncio.timeout(PATIENCE_S):
            while len(list(served.hub.depths())) < READERS:
                await served.notify(
                    "diss2", {"destination": "FOO", "note": "x"}
                )  # takes as long as it takes
        tracemalloc.start()
        try:
            for _ in range(50):
                await served.notify("ev", {"region": "n"}, payload="x" * 200_000)
            for _ in range(4):
                for connection in readers:
                    await read(connection, 1_000_000)
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
            for connection in readers:
                connection.close()
        assert most < 60_000_000  # the log has 10 MB; with a copy for each it was 212 MB
