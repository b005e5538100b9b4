"""Connections of a server as they are inside, and answers of both ways to compare."""

import re
from typing import Any

from support.raw import Answer, Wire
from support.server import Client

from aviso_server.http.connection import ClientConnection


def connection_of(served: Client, here: object) -> ClientConnection:
    """The server's end of a connection, by the address of the client's."""
    assert served.running.live is not None
    server = served.running.live.site._runner.server
    assert server is not None
    (found,) = (item for item in server.connections if item.peername == here)
    assert isinstance(found, ClientConnection)
    return found


def takes_shortcut(served: Client, wire: Wire) -> bool:
    """Whether aiohttp has seen nothing of a connection."""
    return connection_of(served, wire.here)._shortcut is not None


def comparable(answer: Answer) -> tuple[Any, ...]:
    """An answer without what differs from one to the next."""
    text = re.sub(rb"[0-9a-f]{8}-[0-9a-f-]{27}|@\d+|\"sequence\":\d+|T[\d:]+Z", b"?", answer.body)
    varying = ("date", "x-request-id", "content-length")
    headers = [(name, "?" if name in varying else value) for name, value in answer.headers]
    return answer.status, answer.version, headers, text
