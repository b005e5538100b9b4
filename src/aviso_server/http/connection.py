"""Connections: what happens below routing (http.md 1.1), where there is no request yet.

aiohttp answers bytes that are not HTTP with its own name in ``Server``, an echo of what it did not
like, and a traceback in the log. Anybody can send such bytes, so here they get a short answer and
one debug record.
"""

import asyncio
import socket
import ssl
from functools import partial

import structlog
from aiohttp import EMPTY_PAYLOAD, StreamReader, hdrs, web
from aiohttp.web_protocol import RequestHandler, _ErrInfo

from aviso_server.http.tls import HANDSHAKE_S

IDLE_S = 5.0
"""How long a connection may be idle; also how long a request head may take (operations.md 11).

aiohttp has one timer for both: it starts with the connection and after each answer, and only a
complete head stops it, so a head sent byte by byte gains nothing."""

LINGER_S = 5.0
"""How long the rest of a body nobody wants is read after the answer, before the connection is
closed. Closing at once would reset it, and the client could lose an answer such as 413."""


class Connection(RequestHandler):
    """One client connection."""

    __slots__ = ("_latest",)

    _latest: StreamReader
    """Body of the request whose head came last."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._latest = EMPTY_PAYLOAD
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Parse what arrived; a body that turns out to be broken fails at its reader.

        aiohttp's parser only queues an error behind the request, which then waits for the rest of
        its body for ever.
        """
        known = self._request_count
        super().data_received(data)
        if self._request_count == known:
            return
        message, payload = self._messages[-1]
        if not isinstance(message, _ErrInfo):
            self._latest = payload
        elif not self._latest.is_eof():
            self._messages.pop()
            self._latest.set_exception(web.RequestPayloadError(message.message))
            self._latest.feed_eof()
            self.close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what could not be read as a request, and close.

        Also reached when a stream breaks after its headers went out: then nothing can be said any
        more, and the missing end of the chunked body tells the client.
        """
        self.log_exception(message, exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("the answer is already under way") from exc
        response = _Anonymous(status=status)
        response.force_close()
        return response

    def log_exception(self, *args: object, **details: object) -> None:
        """Note what went wrong with a connection; failures of our own are logged by the routes."""
        structlog.get_logger().debug(
            "Connection failed",
            event_name="api.connection.failed",
            error=" ".join(map(str, args)),
            error_type=type(details.get("exc_info")).__name__,
        )


class _Anonymous(web.Response):
    """An empty answer that does not name the software.

    The application's own hook for that runs for routed requests only.
    """

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        self.headers.popall(hdrs.SERVER, None)


class Site(web.BaseSite):
    """Serves a runner's application on a listening socket, over our connections."""

    def __init__(
        self,
        runner: web.AppRunner,
        listener: socket.socket,
        *,
        idle_s: float = IDLE_S,
        linger_s: float = LINGER_S,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(runner, backlog=1024)
        self._tls = tls
        self._listener = listener
        self._idle_s = idle_s
        self._linger_s = linger_s

    @property
    def name(self) -> str:
        """The address."""
        host, port = self._listener.getsockname()[:2]
        return f"{'https' if self._tls else 'http'}://{host}:{port}"

    async def start(self) -> None:
        """Accept connections."""
        await super().start()
        self._server = await self._listen()

    async def renew(self, tls: ssl.SSLContext) -> None:
        """Use other certificates for connections from now on; those that are open stay.

        The new listener shares the socket and is there before the old one goes, so no
        connection is refused meanwhile.
        """
        before, self._tls = self._server, tls
        self._server = await self._listen()
        if before is not None:
            before.close()

    async def stop(self) -> None:
        """Accept no more."""
        await super().stop()
        self._listener.close()

    async def _listen(self) -> asyncio.AbstractServer:
        server = self._runner.server
        if server is None:
            raise RuntimeError("the runner has not been set up")
        return await asyncio.get_running_loop().create_server(
            partial(self._connection, server),
            sock=self._listener.dup(),
            backlog=self._backlog,
            ssl=self._tls,
            ssl_handshake_timeout=HANDSHAKE_S if self._tls else None,
        )

    def _connection(self, server: web.Server) -> Connection:
        return Connection(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=self._idle_s,
            lingering_time=self._linger_s,
            access_log=None,  # type: ignore[arg-type]  # None is how aiohttp spells "off"
            # Bodies are decoded by read_body, with its bounds and its words.
            auto_decompress=False,
        )
