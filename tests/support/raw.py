"""HTTP by hand: one TCP connection, the exact bytes out and the exact bytes back."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aviso_server.server.serve import Running

UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
PATIENCE_S = 20
"""Ends a test whose server does not answer; nothing waits this long when all is well."""


@dataclass(frozen=True)
class Answer:
    """One HTTP response as it came."""

    status: int
    version: str
    headers: tuple[tuple[str, str], ...]
    """Names in lower case, in wire order, repeated ones kept."""
    body: bytes

    def header(self, name: str) -> str | None:
        """The value of a header that must not be repeated; None when it is absent."""
        values = [value for known, value in self.headers if known == name.lower()]
        assert len(values) <= 1, f"{name} is repeated: {values}"
        return values[0] if values else None

    @property
    def request_id(self) -> str:
        """The ``X-Request-ID`` header, which is a UUID version 4."""
        value = self.header("x-request-id")
        assert value is not None, f"no X-Request-ID in {self.headers}"
        assert UUID4.fullmatch(value), value
        return value

    @property
    def data(self) -> dict[str, Any]:
        """The body as a JSON object."""
        decoded: dict[str, Any] = json.loads(self.body)
        return decoded


class Wire:
    """An open connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @property
    def here(self) -> object:
        """The address of this end."""
        return self.writer.get_extra_info("sockname")

    async def send(self, data: bytes) -> None:
        """Write bytes, as they are."""
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, *, to: str = "GET") -> Answer:
        """The next response; ``to`` is the request's method, since HEAD has no body."""
        async with asyncio.timeout(PATIENCE_S):
            answer = await self._head()
            if to == "HEAD" or answer.status == 204:
                return answer
            return Answer(
                answer.status, answer.version, answer.headers, await self._body_of(answer)
            )

    async def ask(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        headers: Iterable[tuple[str, str]] = (),
    ) -> Answer:
        """Send a request with a ``Content-Length`` and read its response."""
        await self.send(request(method, target, body, headers))
        return await self.answer(to=method)

    async def rest(self) -> bytes:
        """Everything up to the end of the connection, which the server must close."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.read()

    async def _head(self) -> Answer:
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        version, status, _ = (lines[0] + " ").split(" ", 2)
        headers = tuple(
            (name.lower(), value.strip())
            for name, _, value in (line.partition(":") for line in lines[1:] if line)
        )
        return Answer(int(status), version, headers, b"")

    async def _body_of(self, answer: Answer) -> bytes:
        length = answer.header("content-length")
        if length is not None:
            return await self.reader.readexactly(int(length))
        if answer.header("transfer-encoding") != "chunked":
            return await self.reader.read()
        body = b""
        while piece := await self.chunk():
            body += piece
        return body

    async def chunk(self) -> bytes:
        """The next chunk of a chunked body; empty at its end."""
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        piece = await self.reader.readexactly(size + 2)
        return piece[:-2]


def request(
    method: str, target: str, body: bytes = b"", headers: Iterable[tuple[str, str]] = ()
) -> bytes:
    """The bytes of a plain HTTP/1.1 request."""
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body or method in {"POST", "PUT", "DELETE"}:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def chunked(pieces: Iterable[bytes]) -> bytes:
    """The pieces as a chunked body."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@asynccontextmanager
async def wired(running: Running) -> AsyncIterator[Wire]:
    """Connect to a running server; the connection ends with the block."""
    reader, writer = await asyncio.open_connection(running.host, running.port, limit=2**20)
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()
