"""Posts batches of requests to the server and tries again what is worth trying again.

Rules
- Requests go with their idempotency keys, the same at every try: the server stores each once.
- No answer, 408, 5xx: tried again with growing pauses, at least ``Retry-After``. The same for
  single notifications that the server could not store.
- 429 is the server's way to pace its callers: waited for, and no try is lost. Nothing was stored.
- 401 and 403 are errors at once, also for a single notification: more of them would follow.
- A batch that is refused as a whole (413, 400) is halved; a single one is rejected.

It is written for threads, not for asyncio: a task's rows come from a blocking iterator.
"""

import http.client
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import urlsplit

import msgspec

from aviso_server.core.json import UNREADABLE
from aviso_server.pipeline.sink.options import Options
from aviso_server.pipeline.sink.request import Refusal, Request

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 15.0

PATIENCE = 200
"""How often in a row one request takes 429 for an answer; each asks to wait a second or more."""

_AGAIN = frozenset(
    {"NOTIFICATION_STORAGE_FAILED", "INTERNAL_ERROR", "SERVICE_UNAVAILABLE", "TOO_MANY_REQUESTS"}
)
"""Codes of single notifications that say nothing against the notification."""
_DENIED = frozenset({"UNAUTHORIZED", "FORBIDDEN"})


class NotSent(RuntimeError):
    """The rows of this task cannot be published now; none of them is lost."""


class Stored(msgspec.Struct, frozen=True, tag_field="status", tag="success"):
    """The server has it."""

    id: str


class Refused(msgspec.Struct, frozen=True, tag_field="status", tag="error"):
    """The server does not want it."""

    code: str
    error: str
    message: str
    details: str
    field: str | None = None


class _Answer(msgspec.Struct, frozen=True):
    results: list[Stored | Refused]


class _Problem(msgspec.Struct, frozen=True):
    code: str = ""
    error: str = ""
    message: str = ""
    details: str = ""
    field: str | None = None


Outcome: TypeAlias = Stored | Refusal
"""What became of one request."""

_ANSWER = msgspec.json.Decoder(_Answer)
_PROBLEM = msgspec.json.Decoder(_Problem)


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    body: bytes
    retry_after_s: float


class Client:
    """A client for one task. ``post`` may be called from several threads."""

    def __init__(self, options: Options, *, wait: Callable[[float], object] | None = None) -> None:
        self._options = options
        self._stopped = threading.Event()
        self._wait = self._stopped.wait if wait is None else wait
        self._mine = threading.local()
        self._open: list[http.client.HTTPConnection] = []

    def post(self, requests: Sequence[Request]) -> list[Outcome]:
        """Publish them; one outcome each, in order. NotSent when that is not possible."""
        done: dict[int, Outcome] = {}
        left = list(enumerate(requests))
        tries, patience, why = 0, PATIENCE, ""
        while True:
            reply = self._send([request for _, request in left])
            pause = 0.0
            if isinstance(reply, str):
                why = reply
            elif reply.status == 200:
                left = self._sort(left, reply.body, done)
                why = "the server could not store every notification"
            elif reply.status in {400, 413}:
                return self._halved(left, reply, done)
            else:
                why, pause = self._told(reply), reply.retry_after_s
                if reply.status == 429 and patience:
                    patience -= 1
                    tries -= 1
            if not left:
                return [done[number] for number in range(len(requests))]
            if tries >= self._options.retries:
                raise NotSent(f"{self._options.url}: {why} (tried {tries + 1} times)")
            self._pause(max(pause, min(FIRST_PAUSE_S * 2 ** max(tries, 0), LONGEST_PAUSE_S)))
            tries += 1

    def stop(self) -> None:
        """End pauses: whoever waits gives up."""
        self._stopped.set()

    def close(self) -> None:
        """Close the connections; no thread may be using them any more."""
        for connection in self._open:
            connection.close()

    def _pause(self, seconds: float) -> None:
        self._wait(seconds)
        if self._stopped.is_set():
            raise NotSent("the task has ended")

    def _sort(
        self, sent: list[tuple[int, Request]], body: bytes, done: dict[int, Outcome]
    ) -> list[tuple[int, Request]]:
        """Note what is decided; the rest is to be sent again."""
        results = _results(self._options.url, body)
        if len(results) != len(sent):
            raise NotSent(f"{self._options.url}: {len(results)} results for {len(sent)} requests")
        left = []
        for (number, request), result in zip(sent, results, strict=True):
            if isinstance(result, Stored):
                done[number] = result
            elif result.code in _DENIED:
                raise NotSent(f"{self._options.url}: {_denied(result.message)}")
            elif result.code in _AGAIN:
                left.append((number, request))
            else:
                done[number] = _refusal(request, result)
        return left

    def _halved(
        self, left: list[tuple[int, Request]], reply: _Reply, done: dict[int, Outcome]
    ) -> list[Outcome]:
        """Too much for one request, or one spoils it: look for it by halves."""
        if len(left) == 1:
            number, request = left[0]
            done[number] = _refusal(request, _problem(reply.body))
        else:
            middle = len(left) // 2
            for half in (left[:middle], left[middle:]):
                outcomes = self.post([request for _, request in half])
                done |= {number: out for (number, _), out in zip(half, outcomes, strict=True)}
        return [done[number] for number in sorted(done)]

    def _told(self, reply: _Reply) -> str:
        """The reason to try again, or NotSent where that is of no use."""
        message = _problem(reply.body).message or http.client.responses.get(reply.status, "")
        if reply.status in {401, 403}:
            raise NotSent(f"{self._options.url}: {_denied(message)}")
        if reply.status in {408, 429} or reply.status >= 500:
            return f"status {reply.status} {message}".rstrip()
        raise NotSent(
            f"{self._options.url}: status {reply.status} {message}; is this an aviso-server?"
        )

    def _send(self, requests: Sequence[Request]) -> _Reply | str:
        """One try: the reply, or why there is none."""
        body = b"[" + b",".join(request.body for request in requests) + b"]"
        headers = {"Content-Type": "application/json"}
        if self._options.authorization is not None:
            headers["Authorization"] = self._options.authorization
        connection, path = self._connection()
        try:
            connection.request("POST", f"{path}/api/v1/notifications", body, headers)
            response = connection.getresponse()
            after = response.headers.get("Retry-After", "")
            return _Reply(
                response.status, response.read(), float(after) if after.isdecimal() else 0.0
            )
        except (OSError, http.client.HTTPException) as error:
            connection.close()  # opened again by the next request
            return f"no answer: {str(error) or type(error).__name__}"

    def _connection(self) -> tuple[http.client.HTTPConnection, str]:
        """This thread's own connection, kept open between requests."""
        parts = urlsplit(self._options.url)
        connection: http.client.HTTPConnection | None = getattr(self._mine, "connection", None)
        if connection is None:
            host, port, timeout = parts.hostname or "", parts.port, self._options.timeout_s
            if parts.scheme == "https":
                context = ssl.create_default_context()
                connection = http.client.HTTPSConnection(
                    host, port, timeout=timeout, context=context
                )
            else:
                connection = http.client.HTTPConnection(host, port, timeout=timeout)
            self._mine.connection = connection
            self._open.append(connection)
        return connection, parts.path


def _denied(message: str) -> str:
    return f"access denied: {message or 'no reason given'}. Check token, or username and password"


def _refusal(request: Request, why: "Refused | _Problem") -> Refusal:
    return Refusal(
        request.row,
        request.key,
        why.code,
        why.message,
        error=why.error,
        details=why.details,
        field=why.field,
    )


def _results(url: str, body: bytes) -> list[Stored | Refused]:
    try:
        return _ANSWER.decode(body).results
    except UNREADABLE as error:
        raise NotSent(f"{url} does not answer as aviso-server: {error}") from None


def _problem(body: bytes) -> _Problem:
    try:
        return _PROBLEM.decode(body)
    except UNREADABLE:
        return _Problem(message=body[:200].decode(errors="replace"))
