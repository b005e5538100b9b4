"""The one NATS connection of a process: opening it, keeping it, asking through it.

Rules
- Nothing is sent while the connection is down. nats-py would queue it and send it on reconnect,
  and a publish that was reported as failed would then be stored after all.
- nats-py reconnects indefinitely, or as often as configured. But some errors of the server (an
  expired credential, for one) make it close for good: then a new client is made here.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Self

import msgspec
import structlog
from nats import errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from aviso_server import tasks
from aviso_server.backends.jetstream.answers import RawAnswer
from aviso_server.backends.jetstream.client import (
    NatsClient,
    credentials,
    publish_command,
    tls_context,
)
from aviso_server.backends.jetstream.messages import Stored
from aviso_server.backends.jetstream.options import CannotStart, JetStreamOptions
from aviso_server.core.json import UNREADABLE, Json, compact

OLDEST = (2, 10, 23)
"""Older servers can lose acknowledged messages or stall consumers."""

BATCH_GET = (2, 11, 0)
"""Since then one direct get can ask for many messages."""

ATOMIC_BATCHES = (2, 12, 1)
"""Since then messages can be stored together, all or none, and their ids count."""

_API = "$JS.API."
_NO_RESPONDER = "503"

_FLUSH_S = 1
"""Nothing that matters is unsent when we close: every publish was waited for. And nothing else
would notice a server that disappears during the flush."""


class Unavailable(Exception):
    """NATS did not answer: no connection, no responder, or no answer in time."""


class Refused(Exception):
    """NATS answered with an error."""

    def __init__(self, status: int, code: int, description: str) -> None:
        super().__init__(description)
        self.status = status
        """HTTP-like class of the error."""
        self.code = code
        """The precise error; see ``server/errors.json`` of nats-server."""


class Connection:
    """Requests and subscriptions on the current NATS connection."""

    def __init__(self, options: JetStreamOptions) -> None:
        self._options = options
        self._client = NatsClient()
        self._up = asyncio.Event()
        self._ended = False
        """Closed by us, or given up for good."""
        self._reopening: asyncio.Task[None] | None = None
        self._watchers: set[Callable[[], None]] = set()
        self._numbers = itertools.count()
        self._questions: dict[bytes, _Question] = {}
        """What is being asked, by the end of the subject that gets the answers."""
        self._inbox = ""
        self._denied = ""
        """What the server said last about something we may not do, in lower case."""
        self._journal = structlog.get_logger().bind(url=options.url)
        self.generation = 0
        """Grows with every connection made; what was learnt under an older one may not hold."""
        self.reconnects = 0

    @classmethod
    async def open(cls, options: JetStreamOptions) -> Self:
        """Connect as often as configured, or CannotStart."""
        connection = cls(options)
        journal = connection._journal
        secret = options.token or options.username or options.credentials_file
        journal.info(
            "NATS credentials configured" if secret else "NATS without credentials",
            event_name="backend.jetstream.auth.token_configured"
            if secret
            else "backend.jetstream.auth.unauthenticated",
        )
        journal.info("Connecting", event_name="backend.jetstream.connection.started")
        for attempt in range(1, options.retry_attempts + 1):
            try:
                await connection._attempt()
                break
            except (OSError, errors.Error, TimeoutError, Unavailable, Refused) as error:
                if attempt == options.retry_attempts:
                    raise CannotStart(
                        f"NATS connect failed: {_why(error)} ({options.place})"
                    ) from error
                journal.warning(
                    "NATS connect failed, trying again",
                    event_name="backend.jetstream.connection.retry",
                    attempt=attempt,
                    max_attempts=options.retry_attempts,
                    retry_delay_ms=int(options.reconnect_delay_s * 1000),
                    error=_why(error),
                )
                await asyncio.sleep(options.reconnect_delay_s)
        return connection

    @property
    def connected(self) -> bool:
        """Whether NATS can be reached now."""
        return self._up.is_set() and self._client.is_connected

    @property
    def ended(self) -> bool:
        """Whether the connection is gone for good."""
        return self._ended

    @property
    def version(self) -> tuple[int, int, int]:
        """The version of the server we are connected to."""
        version = self._client.connected_server_version
        return version.major, version.minor, version.patch

    @property
    def max_payload(self) -> int:
        """Bytes a message may have, headers included; the server cuts us off beyond it."""
        return self._client.max_payload

    async def until_connected(self, timeout_s: float) -> None:
        """Wait for the connection, or Unavailable."""
        if self._ended:
            raise Unavailable("the connection to NATS was given up")
        try:
            async with asyncio.timeout(timeout_s):
                await self._up.wait()
        except TimeoutError:
            raise Unavailable("not connected to NATS") from None

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Register for losing, restoring and giving up the connection; the way to unregister."""
        self._watchers.add(changed)
        return lambda: self._watchers.discard(changed)

    async def request(
        self,
        subject: str,
        body: bytes,
        *,
        head: bytes = b"",
        timeout_s: float,
        ahead: Sequence[bytes] = (),
    ) -> RawAnswer:
        """One question, one answer; raises Unavailable.

        ``head`` are the lines of its headers, ``ahead`` commands to send before.
        """
        question = _Question()
        return await self._ask(question, subject, body, timeout_s, head=head, ahead=ahead)

    async def call(self, api: str, body: Json = None) -> "Answer":
        """One call of the JetStream API; raises Unavailable or Refused."""
        raw = b"" if body is None else compact(body)
        answer = await self.request(_API + api, raw, timeout_s=self._options.pace.request_s)
        return read_answer(answer.body)

    async def collect(self, api: str, body: Json) -> tuple[list[Stored], RawAnswer]:
        """One question, many answers: stored messages, then the answer that ends them."""
        question = _Question(many=True)
        end = await self._ask(question, _API + api, compact(body), self._options.pace.request_s)
        return question.taken, end

    async def publish(self, subject: str) -> None:
        """Send an empty message without waiting for anything."""
        try:
            await self._client.publish(subject)
        except (errors.Error, OSError) as error:
            raise Unavailable(_why(error)) from error

    async def subscribe(self, subject: str, arrived: Callable[[Msg], Awaitable[None]]) -> "Inbox":
        """Receive what is sent to a subject."""
        try:
            return Inbox(await self._client.subscribe(subject, cb=arrived))
        except (errors.Error, OSError) as error:
            raise Unavailable(_why(error)) from error

    async def _ask(
        self,
        question: "_Question",
        subject: str,
        body: bytes,
        timeout_s: float,
        *,
        head: bytes = b"",
        ahead: Sequence[bytes] = (),
    ) -> RawAnswer:
        """The answer that ends a question.

        nats-py asks, too, but takes some 100 us of CPU for it, and lets a question wait for its
        timeout when the connection is lost.
        """
        if not self.connected:
            raise Unavailable("not connected to NATS")
        if len(head) + len(body) > self.max_payload:
            # The server would cut the connection.
            raise Unavailable("the message exceeds the limit of the NATS server")
        token = str(next(self._numbers))
        command = publish_command(subject, body, head=head, reply=f"{self._inbox}.{token}")
        self._questions[key := token.encode()] = question
        try:
            await self._client.send(b"".join([*ahead, command]))
            async with asyncio.timeout(timeout_s):
                answer = await question.end
        except TimeoutError:
            if f'"{subject}"'.lower() in self._denied:
                raise Refused(403, 0, f"not permitted to publish to {subject}") from None
            raise NoAnswer(f"no answer within {timeout_s:g} s") from None
        except (errors.Error, OSError) as error:
            raise Unavailable(_why(error)) from error
        finally:
            del self._questions[key]
        if answer.status[0] == _NO_RESPONDER:
            raise NoResponder("no responder for this subject")
        return answer

    def new_inbox(self) -> str:
        """A subject that no one else knows."""
        return self._client.new_inbox()

    async def close(self) -> None:
        """Send what is pending and close."""
        self._ended = True
        if self._reopening is not None:
            await tasks.end(self._reopening)
        with contextlib.suppress(errors.Error, OSError, TimeoutError):
            if self._client.is_connected:
                await self._client.flush(_FLUSH_S)
        await self._client.close()
        self._up.clear()

    async def _attempt(self) -> None:
        """Connect to a server that is new enough and has JetStream ready.

        A cluster that just started has no leader yet, which passes: it counts as a failed attempt.
        """
        await self._connect()
        try:
            check_version(self.version)
            await self.call("INFO")
        except BaseException as error:
            self._up.clear()
            await self._client.abandon()
            if isinstance(error, Unavailable | Refused):
                raise Unavailable(f"JetStream is not available: {error}") from error
            raise

    async def _connect(self) -> None:
        """One attempt: every address once. Raises what the last one failed with."""
        options = self._options
        client = NatsClient(require_tls=options.wants_tls)
        failures = 0

        async def failed(error: Exception) -> None:
            nonlocal failures
            failures += 1
            if not client_ready and failures >= len(options.servers):
                # nats-py goes round its list for ever; raising here ends the attempt.
                raise _AttemptFailed(error)
            if "permissions violation" in (text := _why(error).lower()):
                # Nothing more to do: the caller just gets no answer.
                self._denied = text
            self._journal.debug(
                "NATS error", event_name="backend.jetstream.connection.error", error=_why(error)
            )

        client_ready = False
        attempts = options.max_reconnect_attempts
        tls, login = tls_context(options), credentials(options)
        try:
            async with asyncio.timeout(options.timeout_s):
                await client.connect(
                    servers=list(options.servers),
                    name="aviso-server",
                    error_cb=failed,
                    disconnected_cb=self._lost,
                    reconnected_cb=self._restored,
                    closed_cb=self._closed,
                    connect_timeout=options.timeout_s,  # type: ignore[arg-type] # float is fine
                    reconnect_time_wait=options.reconnect_delay_s,  # type: ignore[arg-type]
                    max_reconnect_attempts=attempts or -1,
                    ping_interval=options.pace.ping_s,
                    tls=tls,
                    **login,  # type: ignore[arg-type]
                )
            client.check_confirmed()
            inbox = client.new_inbox()
            client.divert(await client.subscribe(f"{inbox}.*"), self._answered)
        except BaseException as error:
            # Whatever it was, this one must not go on and reconnect by itself.
            await client.abandon()
            if isinstance(error, _AttemptFailed):
                raise client.explained(error.error) from None
            if isinstance(error, TimeoutError):
                raise TimeoutError(f"no answer within {options.timeout_s:g} s") from None
            raise
        client_ready = True
        self._client, self._inbox = client, inbox
        self.generation += 1
        self._up.set()

    def _answered(self, subject: bytes, head: bytes, body: bytes) -> None:
        question = self._questions.get(subject.rpartition(b".")[2])
        if question is not None:
            question.add(RawAnswer(head, body))

    async def _lost(self) -> None:
        if self._up.is_set():
            self._up.clear()
            for question in self._questions.values():
                question.fail()
            if not self._ended:
                self._journal.warning(
                    "Connection to NATS lost", event_name="backend.jetstream.connection.lost"
                )
            self._notify_watchers()

    async def _restored(self) -> None:
        self.generation += 1
        self.reconnects += 1
        self._up.set()
        self._journal.info(
            "Connection to NATS restored", event_name="backend.jetstream.connection.restored"
        )
        self._notify_watchers()

    async def _closed(self) -> None:
        """nats-py has given up: for good if it ran out of attempts, else we start again."""
        if self._ended:
            return
        if isinstance(self._client.last_error, errors.NoServersError):
            self._ended = True
            self._notify_watchers()
            return
        self._reopening = asyncio.create_task(self._reopen(), name="reopen NATS connection")

    async def _reopen(self) -> None:
        limit = self._options.max_reconnect_attempts
        for _ in range(limit) if limit else itertools.count():
            await asyncio.sleep(self._options.reconnect_delay_s)
            try:
                await self._connect()
            except (OSError, errors.Error, TimeoutError, CannotStart) as error:
                self._journal.debug(
                    "NATS connect failed",
                    event_name="backend.jetstream.connection.failed",
                    error=_why(error),
                )
                continue
            await self._restored()
            return
        self._ended = True
        self._notify_watchers()

    def _notify_watchers(self) -> None:
        for changed in tuple(self._watchers):
            changed()


class NoResponder(Unavailable):
    """Nothing listens: the stream is not there, or has no leader just now."""


class NoAnswer(Unavailable):
    """The question was sent; whether it had an effect is not known."""


class Inbox:
    """A subscription that can be ended without fuss."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription

    async def end(self) -> None:
        """Stop receiving; a connection that is gone has stopped already."""
        with contextlib.suppress(errors.Error, OSError):
            await self._subscription.unsubscribe()


class _Question:
    """What was asked and is not answered yet, or with ``many`` answers not by all."""

    def __init__(self, *, many: bool = False) -> None:
        self._many = many
        self.taken: list[Stored] = []
        self.end: asyncio.Future[RawAnswer] = asyncio.get_running_loop().create_future()

    def add(self, answer: RawAnswer) -> None:
        if self._many and b"\r\nNats-Sequence:" in answer.head:
            self._take(answer)
        elif not self.end.done():
            self.end.set_result(answer)

    def _take(self, answer: RawAnswer) -> None:
        """Read it at once: meanwhile NATS sends the next ones."""
        try:
            self.taken.append(answer.stored())
        except (KeyError, ValueError) as error:
            if not self.end.done():  # raised to who asked, not to the connection
                self.end.set_exception(error)

    def fail(self) -> None:
        if not self.end.done():
            self.end.set_exception(NoAnswer("the connection was lost before the answer came"))


class _AttemptFailed(Exception):
    """Carries the reason of a failed attempt past nats-py, which would try again."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


Answer = dict[str, Json]


class _Error(msgspec.Struct):
    """Why JetStream refuses."""

    code: int = 500
    err_code: int = 0
    description: str = "unknown error"


def read_answer(data: bytes) -> Answer:
    """The content of an answer of the JetStream API, or Refused."""
    try:
        answer = msgspec.json.decode(data, type=dict[str, object])
        error = msgspec.convert(answer.get("error"), _Error | None)
    except UNREADABLE:
        raise Unavailable("the answer is not JSON, or not one of JetStream") from None
    if error is not None:
        raise Refused(error.code, error.err_code, error.description)
    return answer  # type: ignore[return-value] # decoded JSON


def check_version(version: tuple[int, int, int]) -> None:
    """Refuse servers that cannot keep the promises made here."""
    if version < OLDEST:
        shown, oldest = ".".join(map(str, version)), ".".join(map(str, OLDEST))
        raise CannotStart(f"NATS server {shown} is too old; {oldest} or newer is needed")


def _why(error: BaseException) -> str:
    return str(error) or type(error).__name__
