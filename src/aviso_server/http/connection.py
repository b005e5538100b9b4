"""Connections: what happens below routing, before there is a request.

aiohttp answers bytes that are not HTTP with its own name in ``Server``, an echo of the offending
bytes, and a traceback in the log. Any client can send such bytes, so here they get a short answer
and one debug record.

Heads are bounded as a whole: aiohttp bounds each line only. Requests that come together are parsed
one by one, each when the one before it was taken: a fault in a later one then cannot discard the
earlier ones.
"""

import asyncio
from dataclasses import dataclass
from typing import NamedTuple

import structlog
from aiohttp import EMPTY_PAYLOAD, HttpVersion10, HttpVersion11, StreamReader, hdrs, web
from aiohttp.http_exceptions import BadHttpMessage, LineTooLong
from aiohttp.http_parser import HttpRequestParser, RawRequestMessage
from aiohttp.web_protocol import RequestHandler, _ErrInfo
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from aviso_server.core.errors import RequestError
from aviso_server.core.operation import Operation
from aviso_server.http.errors import error_answer
from aviso_server.http.journal import about
from aviso_server.http.limits import HeadTooLarge
from aviso_server.http.services import new_request_id
from aviso_server.http.shortcut import Shortcut, Unread, begin

MAX_FIELDS = 128
"""Header fields of one request."""

MAX_PATH, MAX_STEPS = 8190, 64
"""Bytes and slashes of a path that is routed; no route is longer. aiohttp searches for a route at
every slash, each time through all that is before it."""

_NOWHERE = URL("/no/such/path")

_READ_BYTES = 64 * 1024
"""Of an unread body, before the client has to wait."""

_HOLD_S = 0.05
"""How long the beginning of a request is kept for the short cut before aiohttp has it: many clients
send head and body separately, but one after the other."""

_TOO_MANY_FIELDS = "Too many headers received"
"""How aiohttp reports it, with the class of every other fault of a head."""


@dataclass(frozen=True, slots=True)
class ConnectionRules:
    """What a connection may do, and for how long."""

    max_head_bytes: int = 131_072
    head_s: float = 5.0
    """How long a head may take, from its first byte or from the beginning of the connection."""
    idle_s: float = 75.0
    """How long a connection is kept after an answer: longer than usual client pools keep it, so
    that they do not send a request into a closing connection."""
    linger_s: float = 5.0
    """How long the unwanted rest is read after the answer, before the connection is closed. Closing
    at once would reset it, and the client could lose an answer such as 413."""


class ClientConnection(RequestHandler):
    """One client connection."""

    __slots__ = (
        "_ending",
        "_head_bytes",
        "_head_timer",
        "_held",
        "_hold_timer",
        "_latest",
        "_refused",
        "_rules",
        "_serving",
        "_shortcut",
    )

    _latest: StreamReader
    """Body of the request whose head came last."""

    def __init__(
        self, server: web.Server, rules: ConnectionRules, shortcut: Shortcut | None = None
    ) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=rules.idle_s,
            lingering_time=rules.linger_s,
            access_log=None,  # type: ignore[arg-type]  # None is how aiohttp spells "off"
        )
        self._rules = rules
        self._latest = EMPTY_PAYLOAD
        self._head_bytes = 0
        """Of a head that has begun and not ended."""
        self._ending = b""
        """The last bytes of that head."""
        self._head_timer: asyncio.TimerHandle | None = None
        self._refused = False
        """Whether a head was too large: then nothing more is read as HTTP."""
        self._shortcut = shortcut
        """None from the first bytes on that aiohttp was given."""
        self._serving: asyncio.Task[None] | None = None
        """The request that took the short cut and waits for something."""
        self._held = b""
        """What came meanwhile, or what may be the beginning of a request for the short cut."""
        self._hold_timer: asyncio.TimerHandle | None = None
        self._max_msg_queue_size, self._msg_queue_resume_size = 1, 0
        self._parser = HttpRequestParser(
            self,
            loop,
            _READ_BYTES,
            max_line_size=rules.max_head_bytes,
            max_field_size=rules.max_head_bytes,
            max_headers=MAX_FIELDS,
            payload_exception=web.RequestPayloadError,
            # Bodies are decoded by read_body, with its bounds and its errors.
            auto_decompress=False,
            max_msg_queue_size=self._max_msg_queue_size,
        )

    @property
    def closing(self) -> bool:
        """Whether the request in progress is the last one."""
        return self._close

    def part(self) -> "Parted | None":
        """Give the connection away in the middle of an answer; None if there is more to do with it.

        aiohttp then ends with that answer, as if the connection were gone.
        """
        transport, server = self.transport, self._manager
        idle = not (self._messages or self._buffer_paused or self._head_bytes)
        if transport is None or server is None or not idle or self._close or self._force_close:
            return None
        self._force_close, self.transport, self._parser = True, None, None
        self.keep_alive(False)  # noqa: FBT003 - also drops its timer
        self._head_came()
        server.connection_lost(self)
        # These know us: they would wait for the garbage collector, and we with them.
        self._task_handler, self._latest = None, EMPTY_PAYLOAD
        return Parted(transport, server, self._rules)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Expect the first head."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop waiting for a head, and for what only this client wants."""
        self._head_came()
        self._hold(b"")
        if self._serving is not None:
            self._serving.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what arrived; a head over its limit is refused before that."""
        if self._shortcut is not None and not (self._close or self._force_close):
            data = self._held + data
            if self._takes(self._shortcut, data):
                return
            self._shortcut = None
            self._hold(b"")
        if self._refused:
            return
        in_head = self._latest.is_eof()
        if in_head and not self._fits(data):
            self._refuse_head()
            return
        known = self._request_count
        super().data_received(data)
        if not in_head and self._latest.is_eof():
            super().data_received(b"")  # what came after the body was held back
        if self._request_count > known:
            self._head_came()
            self._look_at_latest()
        elif data and self._latest.is_eof():
            self._head_goes_on(data)

    def _takes(self, shortcut: Shortcut, data: bytes) -> bool:
        """Whether all that came is served by the short cut, or may be once there is more."""
        if self._serving is not None or self.writing_paused:
            self._hold(data)
            self._pause_transport_reading()
            return True
        read = shortcut.read(data)
        if isinstance(read, Unread):
            if read is Unread.INCOMPLETE:
                self._hold(data, at_most_s=_HOLD_S)
            return read is Unread.INCOMPLETE
        self._hold(b"")
        self._head_came()
        message, payload = read
        if shortcut.answer_at_once is not None and self.transport is not None:
            body = data[len(data) - payload.total_bytes :]
            answer = shortcut.answer_at_once(message.headers, body)
            if answer is not None:
                self.transport.write(answer)
                self._next_keepalive_close_time = self._loop.time() + self._rules.idle_s
                return True
        request = shortcut.request(message, payload, self)
        serving = self._serve(request, shortcut)
        if shortcut.waits(request):
            self._serving = self._loop.create_task(serving)
        else:
            self._serving = begin(serving)
        self._request_in_progress = self._serving is not None
        return True

    def _hold(self, data: bytes, *, at_most_s: float | None = None) -> None:
        """Keep bytes for later; if nothing else comes in that time, they are for aiohttp."""
        self._held = data
        if self._hold_timer is not None:
            if data and at_most_s is not None:
                return
            self._hold_timer.cancel()
            self._hold_timer = None
        if at_most_s is not None:
            self._hold_timer = self._loop.call_later(at_most_s, self._hand_over)

    def _hand_over(self) -> None:
        """Let aiohttp have it: it waits for slow heads and bodies, with their limits."""
        self._shortcut = None
        held = self._held
        self._hold(b"")
        self.data_received(held)

    async def _serve(self, request: web.Request, shortcut: Shortcut) -> None:
        """Serve one request as aiohttp does, and go on."""
        try:
            try:
                response = await shortcut.handler(request)
            except Exception as error:  # noqa: BLE001 - as aiohttp does
                response = self.handle_error(request, 500, error)
            answer = await shortcut.render(request, response)
            if self.transport is not None:
                self.transport.write(answer)
            self._next_keepalive_close_time = self._loop.time() + self._rules.idle_s
            if response.keep_alive is False:
                self.force_close()
        finally:
            if self._serving is not None:
                self._served()

    def _served(self) -> None:
        """Go on after a request that was waited for."""
        self._serving = None
        self._request_in_progress = False
        if self._handler_waiter is not None:  # of a shutdown
            self._handler_waiter.set_result(None)
        self._go_on()

    def _go_on(self) -> None:
        """Look at what came while a request was served, or while the client did not read."""
        if self._held and self._hold_timer is None:
            held, self._held = self._held, b""
            self._resume_transport_reading()
            self.data_received(held)

    def resume_writing(self) -> None:
        """The client reads its answers again."""
        super().resume_writing()
        if self._serving is None:
            self._go_on()

    def _process_keepalive(self) -> None:
        """Close an idle connection; aiohttp does not know of what took the short cut."""
        if self._serving is not None:
            self._next_keepalive_close_time = self._loop.time() + self._rules.idle_s
        super()._process_keepalive()

    def _fits(self, data: bytes) -> bool:
        """Whether the head that continues here ends within the limit, or may still do so."""
        room = self._rules.max_head_bytes - self._head_bytes
        if len(data) <= room:
            return True
        return (self._ending + data).find(b"\r\n\r\n", 0, len(self._ending) + room) >= 0

    def _head_goes_on(self, data: bytes) -> None:
        self._head_bytes += len(data)
        self._ending = (self._ending + data)[-3:]
        self._expect_head()

    def _expect_head(self) -> None:
        """Let the head come in time; aiohttp's own timer is for connections that are idle."""
        if self._head_timer is None:
            self._head_timer = self._loop.call_later(self._rules.head_s, self._head_is_late)

    def _head_came(self) -> None:
        self._head_bytes, self._ending = 0, b""
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self._waiter is None:
            self._expect_head()  # a request is in progress, which the next one must not disturb
        else:
            self.force_close()

    def _look_at_latest(self) -> None:
        """Check the new request for what aiohttp would stumble over."""
        message, payload = self._messages[-1]
        if isinstance(message, _ErrInfo):
            self._look_at_fault(message)
            return
        self._latest = payload
        if message.version not in (HttpVersion10, HttpVersion11):
            fault = BadHttpMessage("HTTP version is not supported")
            self._messages[-1] = (_ErrInfo(400, fault, fault.message), payload)
            return
        expected = message.headers.get(hdrs.EXPECT)
        if expected is not None and expected.lower() != "100-continue":
            # There are no others. They are ignored, for aiohttp cannot name some of them.
            message = _without(message, hdrs.EXPECT)
            self._messages[-1] = (message, payload)
        if len(message.path) > MAX_STEPS and _leads_nowhere(message.url.raw_path):
            self._messages[-1] = (message._replace(url=_NOWHERE), payload)

    def _look_at_fault(self, fault: _ErrInfo) -> None:
        """Something is not HTTP: a head, or the body before it.

        aiohttp's parser only queues an error after the request, which then waits for ever for the
        rest of its body.
        """
        if not self._latest.is_eof():
            self._messages.pop()
            self._latest.set_exception(web.RequestPayloadError(fault.message))
            self._latest.feed_eof()
            self.close()
        elif isinstance(fault.exc, LineTooLong) or fault.message == _TOO_MANY_FIELDS:
            self._messages.pop()
            self._refuse_head()

    def _refuse_head(self) -> None:
        """Answer and read no more, but let the client send the rest: it may look afterwards."""
        self._refused = True
        self._head_came()
        error = HeadTooLarge(self._rules.max_head_bytes, MAX_FIELDS)
        rest = StreamReader(self, _READ_BYTES, loop=self._loop)
        self._request_count += 1
        self._messages.append((_ErrInfo(431, error, error.message), rest))
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what could not be read as a request, and close.

        Also reached when a stream breaks after its headers went out: then nothing more can be sent,
        and the missing end of the chunked body shows it to the client.
        """
        if request.writer.output_size > 0:
            self.log_exception(message, exc_info=exc)
            raise ConnectionError("the answer is already under way") from exc
        # aiohttp answers in 1.0 what it could not read.
        request._version = HttpVersion11  # noqa: SLF001
        if isinstance(exc, RequestError):
            response = _refusal(exc)
        else:
            self.log_exception(message, exc_info=exc)
            response = _Anonymous(status=status)
        response.force_close()
        return response

    def log_exception(self, *args: object, **details: object) -> None:
        """Note what went wrong with a connection; failures of our own are logged by the routes."""
        structlog.get_logger().debug(
            "ClientConnection failed",
            event_name="api.connection.failed",
            error=" ".join(map(str, args)),
            error_type=type(details.get("exc_info")).__name__,
        )


class Parted(NamedTuple):
    """A connection that was given away."""

    transport: asyncio.Transport
    server: web.Server
    rules: ConnectionRules

    def return_with(self, early: bytes) -> None:
        """Read requests from it again; the first bytes were received meanwhile."""
        connection = ClientConnection(self.server, self.rules)
        self.transport.set_protocol(connection)
        connection.connection_made(self.transport)
        if early:
            self.transport.resume_reading()
            connection.data_received(early)


def _leads_nowhere(path: str) -> bool:
    return len(path) > MAX_PATH or path.count("/") > MAX_STEPS


def _without(message: RawRequestMessage, name: str) -> RawRequestMessage:
    headers = CIMultiDict(message.headers)
    headers.popall(name)
    return message._replace(headers=CIMultiDictProxy(headers))


def _refusal(error: RequestError) -> "_Anonymous":
    """The usual error object, with an id that the log knows."""
    request_id = new_request_id()
    structlog.get_logger().warning(
        "Request over a limit",
        event_name="api.request.limit.reached",
        request_id=request_id,
        **about(error, Operation.NOTIFY),
    )
    answer = error_answer(error, Operation.NOTIFY, request_id)
    answer.headers["X-Request-ID"] = request_id
    return _Anonymous(status=answer.status, body=answer.body, headers=answer.headers)


class _Anonymous(web.Response):
    """An answer that does not name the software.

    The application's own hook for that runs for routed requests only.
    """

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        self.headers.popall(hdrs.SERVER, None)
