"""The http transport: ranges of sequences through ``/replay``, for where NATS cannot be reached.

Rules
- The server filters, caps and ends replays; after a cap, an error or a broken connection the reader
  continues after the last sequence it got.
- The server reports that history begins later than asked for, not why: every such gap counts as
  lost, even after a wipe.
- Topics and a polygon's own spelling are not part of a CloudEvent and so are not known.
"""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import aiohttp

from aviso_server.backends.backend import Bounds
from aviso_server.core.declaration import read_declaration
from aviso_server.core.errors import AvisoError
from aviso_server.core.json import Json, compact, parse
from aviso_server.core.moment import rfc3339
from aviso_server.core.notification import Entry, Unreadable
from aviso_server.core.schema import Schema
from aviso_server.pipeline.source.events import record_of
from aviso_server.pipeline.source.failure import QuestionRefused, Unreached
from aviso_server.pipeline.source.log import LogBatch, SourceLog
from aviso_server.pipeline.source.options import Access, SourceOptions
from aviso_server.pipeline.source.ranges import Range

ATTEMPTS = 5
"""How often in a row a replay may fail before the task does; Spark may then run it again."""

_PAUSE_S = 0.5
"""Waited before the second attempt; the n-th waits n - 1 times as long."""

_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=90)
"""A silent stream is dead: the server sends heartbeats every 30 s unless configured otherwise."""

_NEVER = 2**63 - 1
"""A sequence no stream reaches."""

_PASSING = frozenset({408, 500, 502, 503, 504})
_REFUSALS = {
    400: "fields that the server requires are given with the option filter",
    401: "the server wants other credentials (token, or username and password)",
    403: "these credentials may not read this",
    429: "the server limits how often we may ask: use fewer partitions, or ask its operator",
}


_Answer = TypeVar("_Answer")


class _Interrupted(Exception):
    """A replay broke off; trying again may help."""


@dataclass(frozen=True, slots=True)
class _Frame:
    """One frame of the event stream."""

    name: bytes
    data: bytes

    def members(self) -> Mapping[str, Json]:
        """The JSON object in it."""
        value = parse(self.data)
        return value if isinstance(value, dict) else {}


@asynccontextmanager
async def open_http(options: SourceOptions) -> AsyncIterator["HttpLog"]:
    """A session with the server; nothing is sent yet."""
    access = options.access
    headers = {}
    if access.token is not None:
        headers["Authorization"] = f"Bearer {access.token}"
    elif access.username is not None:
        login = f"{access.username}:{access.password or ''}".encode()
        headers["Authorization"] = f"Basic {b64encode(login).decode()}"
    connector = aiohttp.TCPConnector(ssl=_tls(access))
    async with aiohttp.ClientSession(
        headers=headers, connector=connector, timeout=_TIMEOUT
    ) as session:
        yield HttpLog(session, options)


class HttpLog:
    """The streams behind one server."""

    topics = False

    def __init__(self, session: aiohttp.ClientSession, options: SourceOptions) -> None:
        self._session = session
        self._base = options.access.addresses[0].rstrip("/")
        self._identifier = dict(options.identifier or {})
        self._declared = options.schemas
        self._listed: Mapping[str, Schema] | None = None

    async def event_types(self) -> Sequence[str]:
        """Every event type the server has a schema for."""
        return sorted(await self._listing())

    async def schema(self, event_type: str) -> Schema:
        """As the server shows it, which says nothing about topics."""
        known = self._declared.get(event_type) or (await self._listing()).get(event_type)
        return known or Schema(event_type=event_type, base=event_type, generic=True)

    async def bounds(self, event_type: str) -> Bounds:
        """Two replays that deliver at most one notification give both ends."""
        return await self._patiently(lambda: self._ends(event_type))

    async def since(self, event_type: str, ns: int) -> int:
        """The first sequence stored at or after a time that the filter lets through."""
        return await self._patiently(lambda: self._since(event_type, ns))

    async def until(self, event_type: str, ns: int) -> int:
        """The last sequence stored at or before a time, from the opening frame."""
        return await self._patiently(lambda: self._end(event_type, {"to_date": rfc3339(ns)}))

    async def read(self, wanted: Range) -> AsyncGenerator[LogBatch, None]:
        """The range, as it arrives."""
        schema = await self.schema(wanted.event_type)
        position, failures = wanted.first, 0
        while position <= wanted.last:
            begun = position
            try:
                async with aclosing(self._replay(schema, position, wanted.last)) as parts:
                    async for part in parts:
                        yield part
                        position = part.following
                why = "the replay ended before it was complete"
            except _Interrupted as error:
                why = str(error)
            failures = 0 if position > begun else failures + 1
            if failures == ATTEMPTS:
                raise Unreached(f"replaying '{wanted.event_type}' failed: {why}")
            if failures:
                await asyncio.sleep(_PAUSE_S * failures)

    async def _patiently(self, ask: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """An answer, asked for again where that may help."""
        for attempt in range(1, ATTEMPTS):
            try:
                return await ask()
            except _Interrupted:
                await asyncio.sleep(_PAUSE_S * attempt)
        try:
            return await ask()
        except _Interrupted as error:
            raise Unreached(str(error)) from None

    async def _ends(self, event_type: str) -> Bounds:
        last = await self._end(event_type, {"to_id": str(_NEVER)})
        if last == 0:
            return Bounds(1, 0)
        async with aclosing(self._frames(event_type, {"from_id": "1", "to_id": "1"})) as frames:
            async for frame in frames:
                if frame.name == b"replay-control":
                    members = frame.members()
                    if members.get("type") == "history_gap":
                        return Bounds(_number(members, "first_available_sequence"), last)
                    if members.get("type") == "replay_completed":
                        break
        return Bounds(1, last)

    async def _since(self, event_type: str, ns: int) -> int:
        asked: dict[str, Json] = {"from_date": rfc3339(ns), "to_id": str(_NEVER)}
        end = 0
        async with aclosing(self._frames(event_type, asked)) as frames:
            async for frame in frames:
                members = frame.members()
                if members.get("type") == "replay_started":
                    end = _number(members, "end_sequence")
                elif "sequence" in members:
                    return _number(members, "sequence")
                elif members.get("type") == "replay_completed":
                    return end + 1
        raise _Interrupted("the server broke a replay off")

    async def _replay(
        self, schema: Schema, first: int, last: int
    ) -> AsyncGenerator[LogBatch, None]:
        """One replay: its notifications, and that it was complete if it was."""
        asked: dict[str, Json] = {"from_id": str(first), "to_id": str(last)}
        async with aclosing(self._chunks(schema.event_type, asked)) as chunks:
            async for frames in chunks:
                entries: list[Entry] = []
                for frame in frames:
                    if frame.name == b"replay":
                        entries.append(_record(schema, frame.data))
                        continue
                    members = frame.members()
                    if frame.name == b"error" and "sequence" in members:
                        entries.append(_unreadable(members))
                    elif frame.name == b"error":
                        if entries:
                            yield LogBatch(entries, entries[-1].sequence + 1)
                        raise _Interrupted(str(members.get("message")))
                    elif members.get("type") == "history_gap":
                        until = min(_number(members, "first_available_sequence"), last + 1)
                        yield LogBatch((), until, [(first, until - 1)])
                    elif members.get("type") == "replay_completed":
                        yield LogBatch(entries, last + 1)
                        return
                if entries:
                    size = sum(len(frame.data) for frame in frames)
                    yield LogBatch(entries, entries[-1].sequence + 1, size=size)

    async def _end(self, event_type: str, end: Mapping[str, Json]) -> int:
        """The effective end of a replay that begins after everything and so delivers nothing."""
        async with aclosing(self._frames(event_type, {"from_id": str(_NEVER), **end})) as frames:
            async for frame in frames:
                return _number(frame.members(), "end_sequence")
        raise _Interrupted("the server broke a replay off")

    async def _frames(
        self, event_type: str, window: Mapping[str, Json]
    ) -> AsyncGenerator[_Frame, None]:
        """The frames of a short replay, one by one."""
        async with aclosing(self._chunks(event_type, window)) as chunks:
            async for frames in chunks:
                for frame in frames:
                    yield frame

    async def _chunks(
        self, event_type: str, window: Mapping[str, Json]
    ) -> AsyncGenerator[Sequence[_Frame], None]:
        """The frames of a replay as they come over the connection."""
        body = compact({"event_type": event_type, "identifier": self._identifier, **window})
        async with self._ask("POST", "/api/v1/replay", body) as response:
            buffer = b""
            try:
                async for piece in response.content.iter_any():
                    *whole, buffer = (buffer + piece).split(b"\n\n")
                    yield [_frame(text) for text in whole]
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise _Interrupted(f"the connection was lost ({type(error).__name__})") from None

    async def _listing(self) -> Mapping[str, Schema]:
        if self._listed is None:
            shown = await self._patiently(self._views)
            views = shown.get("schema") if isinstance(shown, dict) else None
            self._listed = {
                name: _schema(name, view)
                for name, view in (views.items() if isinstance(views, dict) else ())
            }
        return self._listed

    async def _views(self) -> Json:
        async with self._ask("GET", "/api/v1/schema") as response:
            return parse(await response.read())

    @asynccontextmanager
    async def _ask(
        self, method: str, path: str, body: bytes | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer that is good, or Unreached or _Interrupted with the reason."""
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            response = await self._session.request(
                method, self._base + path, data=body, headers=headers
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _Interrupted(f"cannot reach {self._base}: {error}") from None
        async with response:
            if response.status != 200:
                raise await _refusal(response)
            yield response


async def _refusal(response: aiohttp.ClientResponse) -> Exception:
    """What an answer other than 200 means."""
    try:
        answer = parse(await response.read())
    except (AvisoError, aiohttp.ClientError, TimeoutError):
        answer = None
    said = answer.get("message") if isinstance(answer, dict) else None
    text = f"status {response.status}" + (f": {said}" if said else "")
    if response.status in _PASSING:
        return _Interrupted(text)
    hint = _REFUSALS.get(response.status)
    reason = f"the server refused: {text}" + (f" ({hint})" if hint else "")
    return QuestionRefused(response.status, reason)


def _frame(text: bytes) -> _Frame:
    name = data = b""
    for line in text.split(b"\n"):
        key, _, value = line.partition(b": ")
        if key == b"event":
            name = value.strip()
        elif key == b"data":
            data = value
    return _Frame(name, data or b"null")


def _record(schema: Schema, text: bytes) -> Entry:
    try:
        return record_of(schema, text)
    except ValueError as error:
        raise Unreached(f"the server sent what is {error}") from None


def _unreadable(members: Mapping[str, Json]) -> Unreadable:
    return Unreadable(
        _number(members, "sequence"), 0, str(members.get("topic")), str(members.get("message"))
    )


def _number(members: Mapping[str, Json], name: str) -> int:
    value = members.get(name)
    if not isinstance(value, int):
        raise Unreached(f"the server's answer has no {name}: it is no replay")
    return value


def _schema(event_type: str, view: Json) -> Schema:
    shown = view.get("identifier") if isinstance(view, dict) else None
    specs = shown.items() if isinstance(shown, dict) else ()
    fields: list[Json] = [{"name": name, **spec} for name, spec in specs if isinstance(spec, dict)]
    try:
        return read_declaration(
            {"event_type": event_type, "base": event_type, "identifier": fields}
        )
    except AvisoError as error:
        raise Unreached(f"the server's schema of '{event_type}': {error.message}") from None


def _tls(access: Access) -> ssl.SSLContext | bool:
    if access.tls_ca_file is None and access.tls_cert_file is None:
        return True
    try:
        context = ssl.create_default_context(cafile=access.tls_ca_file)
        if access.tls_cert_file is not None:
            context.load_cert_chain(access.tls_cert_file, access.tls_key_file)
    except OSError as error:
        raise Unreached(f"the TLS files cannot be used: {error}") from None
    return context


_: type[SourceLog] = HttpLog
