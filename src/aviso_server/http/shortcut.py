"""A short cut for notifications: no queue, no search for a route, and mostly no task.

aiohttp serves a connection with a task that waits for requests, and each request with another task,
after a search for its route. A producer sends the same small request again and again, and of what
such a request cost, this was a large part.

Only what is around a request is left out. Parser, request, middlewares, handler and answer are the
same as everywhere, so nothing can be decided differently here. And only requests of one shape that
came whole and alone are taken. With anything else a connection is handed over to aiohttp for good:
then its parser has seen all bytes since or none, and both cannot disagree where a request begins.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from enum import Enum
from functools import partial
from typing import Any

from aiohttp import HttpVersion11, StreamReader, hdrs, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import HttpRequestParser, RawRequestMessage
from aiohttp.http_writer import StreamWriter, _serialize_headers
from aiohttp.web_protocol import RequestHandler

from aviso_server.backends.memory.backend import MemoryBackend
from aviso_server.http.services import SERVICES
from aviso_server.relay.turns import TURN_BYTES

PATH = "/api/v1/notification"

MAX_BYTES = TURN_BYTES
"""Of a request with its head: what takes longer is done in a thread."""

_BEGINNING = f"POST {PATH} HTTP/1.1\r\n".encode()
_READ_BYTES = 64 * 1024


_Direct = Callable[[Mapping[str, str], bytes], bytes | None]
DIRECT: web.AppKey[Callable[[web.Application, web.AbstractResource], _Direct]]
DIRECT = web.AppKey("direct")
"""What makes the shortest way of an application; it gives None where it cannot be taken."""


class Unread(Enum):
    """Why there is no request in some bytes."""

    INCOMPLETE = "the rest may come"
    OTHER = "it is not for the short cut"


class Shortcut:
    """Reads plain requests to notify, and has the handler that serves them."""

    def __init__(self, app: web.Application, route: web.AbstractRoute) -> None:
        self._app = app
        self._services = app[SERVICES]
        self._loop = asyncio.get_running_loop()
        self._parser = _fresh_parser()
        self._writer = StreamWriter(BaseProtocol(self._loop), self._loop)
        """One for all requests, for nothing is written with it."""
        # One for all requests: it says which route of which application they have, no more.
        self._matched = web.UrlMappingMatchInfo({}, route)
        self._matched.add_app(app)
        self._matched.freeze()
        self.handler: Callable[[web.Request], Awaitable[web.StreamResponse]] = route.handler
        direct = app.get(DIRECT)
        resource = route.resource
        self.answer_at_once: _Direct | None = None
        """Serves a request in place and gives the answer, or does nothing and gives None."""
        if direct is not None and resource is not None:
            self.answer_at_once = direct(app, resource)
        for middleware in reversed(app.middlewares):
            self.handler = partial(middleware, handler=self.handler)

    @classmethod
    def of(cls, app: web.Application) -> "Shortcut | None":
        """The short cut of an application; None if it takes no notifications."""
        for route in app.router.routes():
            if route.resource is not None and route.resource.canonical == PATH:
                return cls(app, route)
        return None

    def read(self, data: bytes) -> tuple[RawRequestMessage, StreamReader] | Unread:
        """The request that these bytes are, from the first to the last."""
        if len(data) > MAX_BYTES or not data.startswith(_BEGINNING):
            return Unread.OTHER
        body_at = data.find(b"\r\n\r\n") + 4
        if body_at < 4:
            return Unread.INCOMPLETE
        try:
            messages, _, _ = self._parser.feed_data(data)
        except HttpProcessingError:
            messages = []
        if len(messages) != 1:
            self._parser = _fresh_parser()
            return Unread.OTHER
        message, payload = messages[0]
        plain = _is_plain(message)
        if plain and payload.is_eof() and body_at + payload.total_bytes == len(data):
            self._parser.message_consumed()
            return message, payload
        # It has bytes of which it will not see the rest, or expects nothing after what it has seen.
        self._parser = _fresh_parser()
        return Unread.INCOMPLETE if plain and not payload.is_eof() else Unread.OTHER

    def request(
        self, message: RawRequestMessage, payload: StreamReader, connection: RequestHandler
    ) -> web.Request:
        """The request as handlers know it."""
        task: asyncio.Task[None] = connection._task_handler  # type: ignore[assignment]  # noqa: SLF001
        request = web.Request(message, payload, connection, self._writer, task, self._loop)
        request._match_info = self._matched  # noqa: SLF001
        return request

    async def render(self, request: web.Request, response: web.StreamResponse) -> bytes:
        """An answer as it is sent, with the headers that aiohttp gives it, in its order."""
        body = response.body if isinstance(response, web.Response) else None
        text = body if isinstance(body, bytes) else b""
        headers = response.headers
        headers[hdrs.CONTENT_LENGTH] = str(len(text))
        headers[hdrs.DATE] = rfc822_formatted_time()
        if response.keep_alive is False:
            headers[hdrs.CONNECTION] = "close"
        for finish in self._app.on_response_prepare:
            await finish(request, response)
        return _serialize_headers(f"HTTP/1.1 {response.status} {response.reason}", headers) + text

    def waits(self, request: web.Request) -> bool:
        """Whether something has to be waited for, in the network: that needs a task."""
        services = self._services
        if services.backend.kind != MemoryBackend.kind:
            return True
        return services.gate is not None and hdrs.AUTHORIZATION in request.headers


def begin(serving: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
    """Run a coroutine at once, up to where it waits; the task that does the rest, if it does."""
    try:
        waited_for = serving.send(None)
    except StopIteration:
        return None
    return asyncio.get_running_loop().create_task(_Begun(serving, waited_for))


class _Begun(Coroutine[Any, Any, None]):
    """A coroutine that has begun: its first step for a task is what it waits for."""

    def __init__(self, serving: Coroutine[Any, Any, None], waited_for: object) -> None:
        self._serving = serving
        self._first = [waited_for]

    def send(self, value: object) -> object:
        """Go on."""
        return self._first.pop() if self._first else self._serving.send(value)

    def throw(self, *error: Any) -> object:  # noqa: ANN401 - as a coroutine has it
        """Go on with an error; the task may be cancelled before its first step."""
        return self._serving.throw(*error)

    def close(self) -> None:
        """End."""
        self._serving.close()

    def __await__(self) -> Generator[Any, None, None]:
        """For a task this is never asked."""
        return self._serving.__await__()


def _is_plain(message: RawRequestMessage) -> bool:
    return (
        message.version == HttpVersion11
        and not (message.should_close or message.upgrade)
        and hdrs.CONTENT_ENCODING not in message.headers
        and hdrs.EXPECT not in message.headers
        and not message.chunked
    )


def _fresh_parser() -> HttpRequestParser:
    """A parser like that of every connection, except for its limits: nothing so large is taken."""
    loop = asyncio.get_running_loop()
    # Bodies that are complete need no control of their flow.
    return HttpRequestParser(
        BaseProtocol(loop), loop, _READ_BYTES, auto_decompress=False, max_msg_queue_size=1
    )
