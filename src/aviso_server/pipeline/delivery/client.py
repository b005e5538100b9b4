"""Posts batches of notifications to the server and tries again what is worth trying again.

Rules
- Requests carry their idempotency keys, the same at every try: the server stores each once.
- No answer, 408, 5xx: tried again with growing pauses, at least ``Retry-After``. The same for
  single notifications that the server could not store.
- 429 is the server's way to pace its callers: waited for, and no try is lost. Nothing was stored.
- 401 and 403 are errors at once, even for a single notification: more of them would follow.
- A batch that is refused as a whole (413, 400) is halved; a single one is refused.

Tries are counted here and not by urllib3, whose Retry knows nothing of single notifications
inside a 200, of a 429 that costs no try, or of a task that has ended meanwhile.
"""

import threading
from collections.abc import Callable, Sequence
from http.client import responses
from typing import TypeAlias

import msgspec

from aviso_server.core.errors import AvisoError
from aviso_server.core.json import UNREADABLE
from aviso_server.pipeline.delivery.http import HttpReply, HttpServer, Unanswered
from aviso_server.pipeline.delivery.target import Target

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 15.0

PATIENCE = 200
"""How often in a row one request takes 429 for an answer; each asks to wait a second or more."""

_AGAIN = frozenset(
    {"NOTIFICATION_STORAGE_FAILED", "INTERNAL_ERROR", "SERVICE_UNAVAILABLE", "TOO_MANY_REQUESTS"}
)
"""Codes of single notifications that say nothing against the notification."""
_DENIED = frozenset({"UNAUTHORIZED", "FORBIDDEN"})


class NotSent(AvisoError):
    """Notifications cannot be published now; none of them is lost."""


class Accepted(msgspec.Struct, frozen=True, tag_field="status", tag="success"):
    """The server has it."""

    id: str

    @property
    def sequence(self) -> int:
        """In the server's stream."""
        return int(self.id.rpartition("@")[2])


class Rejected(msgspec.Struct, frozen=True, tag_field="status", tag="error"):
    """The server does not want it."""

    code: str = ""
    error: str = ""
    message: str = ""
    details: str = ""
    field: str | None = None


class _Answer(msgspec.Struct, frozen=True):
    results: list[Accepted | Rejected]


Result: TypeAlias = Accepted | Rejected
"""The result of one notification."""

_ANSWER = msgspec.json.Decoder(_Answer)
_REJECTED = msgspec.json.Decoder(Rejected)


class Client:
    """Publishes to one server. ``post`` may be called from several threads."""

    def __init__(
        self,
        target: Target,
        *,
        connections: int = 1,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        self._url = target.url
        self._retries = target.retries
        self._server = HttpServer(
            target.url,
            authorization=target.authorization,
            timeout_s=target.timeout_s,
            connections=connections,
        )
        self._stopped = threading.Event()
        self._wait = self._stopped.wait if wait is None else wait

    def post(self, bodies: Sequence[bytes]) -> list[Result]:
        """Publish them; one result each, in order. NotSent when that is not possible."""
        done: dict[int, Result] = {}
        left = list(enumerate(bodies))
        tries, patience, why = 0, PATIENCE, ""
        while True:
            pause = 0.0
            try:
                reply = self._server.post(
                    "/api/v1/notifications", b"[" + b",".join(body for _, body in left) + b"]"
                )
            except Unanswered as error:
                why = str(error)
            else:
                if reply.status == 200:
                    left = self._sort(left, reply.body, done)
                    why = "the server could not store every notification"
                elif reply.status in {400, 413}:
                    return self._halve(left, reply, done)
                else:
                    why, pause = self._reason(reply), reply.retry_after_s
                    if reply.status == 429 and patience:
                        patience -= 1
                        tries -= 1
            if not left:
                return [done[number] for number in range(len(bodies))]
            if tries >= self._retries:
                raise NotSent(f"{self._url}: {why} (tried {tries + 1} times)")
            self._pause(max(pause, min(FIRST_PAUSE_S * 2 ** max(tries, 0), LONGEST_PAUSE_S)))
            tries += 1

    def stop(self) -> None:
        """End pauses: waiting callers give up."""
        self._stopped.set()

    def close(self) -> None:
        """Close the connections; no thread may be using them any more."""
        self._server.close()

    def _pause(self, seconds: float) -> None:
        self._wait(seconds)
        if self._stopped.is_set():
            raise NotSent("the task has ended")

    def _sort(
        self, sent: list[tuple[int, bytes]], answer: bytes, done: dict[int, Result]
    ) -> list[tuple[int, bytes]]:
        """Note what is decided; the rest is to be sent again."""
        results = _results(self._url, answer)
        if len(results) != len(sent):
            raise NotSent(f"{self._url}: {len(results)} results for {len(sent)} requests")
        left = []
        for (number, body), result in zip(sent, results, strict=True):
            if isinstance(result, Rejected) and result.code in _DENIED:
                raise NotSent(f"{self._url}: {_denial(result.message)}")
            if isinstance(result, Rejected) and result.code in _AGAIN:
                left.append((number, body))
            else:
                done[number] = result
        return left

    def _halve(
        self, left: list[tuple[int, bytes]], reply: HttpReply, done: dict[int, Result]
    ) -> list[Result]:
        """Too much for one request, or one spoils it: search for it by halves."""
        if len(left) == 1:
            done[left[0][0]] = _problem(reply.body)
        else:
            middle = len(left) // 2
            for half in (left[:middle], left[middle:]):
                results = self.post([body for _, body in half])
                done |= {number: result for (number, _), result in zip(half, results, strict=True)}
        return [done[number] for number in sorted(done)]

    def _reason(self, reply: HttpReply) -> str:
        """The reason to try again, or NotSent where that is of no use."""
        message = _problem(reply.body).message or responses.get(reply.status, "")
        if reply.status in {401, 403}:
            raise NotSent(f"{self._url}: {_denial(message)}")
        if reply.status in {408, 429} or reply.status >= 500:
            return f"status {reply.status} {message}".rstrip()
        raise NotSent(f"{self._url}: status {reply.status} {message}; is this an aviso-server?")


def _denial(message: str) -> str:
    return f"access denied: {message or 'no reason given'}. Check token, or username and password"


def _results(url: str, body: bytes) -> list[Result]:
    try:
        return _ANSWER.decode(body).results
    except UNREADABLE as error:
        raise NotSent(f"{url} does not answer as aviso-server: {error}") from None


def _problem(body: bytes) -> Rejected:
    """The error of a whole request; its text, if it is not our JSON."""
    try:
        return _REJECTED.decode(body)
    except UNREADABLE:
        return Rejected(message=body[:200].decode(errors="replace"))
