"""The NATS client, with the few behaviours of nats-py that we need otherwise."""

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nats import errors
from nats.aio.client import Client
from nats.aio.subscription import Subscription

from aviso_server import tasks
from aviso_server.backends.jetstream.answers import AnswerParser, Take, read_fields
from aviso_server.backends.jetstream.options import CannotStart, JetStreamOptions

_ABANDON_S = 1.0
"""Longest wait for a failed connection to close."""


class NatsClient(Client):
    """nats-py, except that repeated headers are joined and required TLS is required."""

    def __init__(self, *, require_tls: bool = False) -> None:
        super().__init__()
        self._ps = self._answers = AnswerParser(self)
        self._require_tls = require_tls
        self._attempts: set[asyncio.Task[Any]] = set()
        """Tasks that try to reconnect."""
        self._ending = False
        """Whether it was closed, for good."""

    @staticmethod
    def _parse_header_lines(raw: bytes) -> dict[str, str]:
        """Headers by name; nats-py keeps the last of repeated values only, and is slower."""
        return read_fields(raw.removeprefix(b"\r\n"))

    def divert(self, subscription: Subscription, take: Take) -> None:
        """Hand the messages of a subscription over as they are."""
        self._answers.divert(subscription._id, take)  # noqa: SLF001 - as the protocol names it

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        if sid == self._answers.diverted:
            self._answers.take(subject, headers or b"", data)
        else:
            await super()._process_msg(sid, subject, reply, data, headers)

    async def _process_info(
        self,
        info: dict[str, Any],  # protocol JSON, read by nats-py
        initial_connection: bool = False,  # noqa: FBT001, FBT002 - nats-py's signature
    ) -> None:
        """Refuse a plain connection before credentials are sent over it.

        nats-py encrypts only if the server insists; here the operator may insist as well.
        """
        if self._require_tls and initial_connection:
            if not (info.get("tls_required") or info.get("tls_available")):
                raise errors.Error("the NATS server does not offer TLS")
            info["tls_required"] = True
        await super()._process_info(info, initial_connection)

    async def _attempt_reconnect(self) -> None:
        """Reconnect, in one task at a time, and not after the end.

        nats-py cancels the task before and looks no further. The cancellation can get lost (see
        ``tasks``). That task then goes on, makes a closed client a connected one, and when its
        connection is lost the next one tries for ever.
        """
        ours = asyncio.current_task()
        assert ours is not None  # noqa: S101 - nats-py makes a task for it
        others = tuple(self._attempts)
        self._attempts.add(ours)
        try:
            await tasks.end(*others)
            if not self._ending:
                await super()._attempt_reconnect()
        finally:
            self._attempts.discard(ours)

    async def _close(self, status: int, do_cbs: bool = True) -> None:  # noqa: FBT001, FBT002
        self._ending = True
        await super()._close(status, do_cbs)
        ours = asyncio.current_task()
        await tasks.end(*(task for task in tuple(self._attempts) if task is not ours))
        self._status = self.CLOSED

    async def abandon(self) -> None:
        """Discard a connection that never came up, without callbacks.

        Waiting for a socket whose TLS handshake failed to close can take for ever.
        """
        self._error_cb = _ignore
        with contextlib.suppress(TimeoutError, OSError, errors.Error):
            async with asyncio.timeout(_ABANDON_S):
                await self._close(self.CLOSED, do_cbs=False)

    def check_confirmed(self) -> None:
        """Raise if the server closed the connection instead; nats-py takes that for a good one."""
        if not self.is_connected:
            raise self.explained(ConnectionResetError("the NATS server closed the connection"))

    def explained(self, error: Exception) -> Exception:
        """A more precise error if the server closed the connection.

        It does so right after it refused our credentials, and its refusal is often overtaken.
        """
        if isinstance(error, ConnectionError) and self._server_info.get("auth_required"):
            return errors.AuthorizationError()
        return error

    async def send(self, commands: bytes) -> None:
        """Send commands of the protocol as they are, with all that is sent in this turn."""
        await self._send_command(commands)
        if self._flush_queue is not None and self._flush_queue.empty():
            await self._flush_pending()


_FRAME = len(b"NATS/1.0\r\n\r\n")
_NO_BREAKS = str.maketrans("\r\n", "  ")


def publish_command(subject: str, body: bytes, *, head: bytes, reply: str = "") -> bytes:
    """The protocol's command that publishes a message; ``head`` are the lines of its headers.

    All are taken as they are: neither a subject nor a header may hold a line break.
    """
    if not head:
        return b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), reply.encode(), len(body), body)
    size = _FRAME + len(head)
    return b"HPUB %b %b %d %d\r\nNATS/1.0\r\n%b\r\n%b\r\n" % (
        subject.encode(),
        reply.encode(),
        size,
        size + len(body),
        head,
        body,
    )


def header_lines(headers: Mapping[str, str]) -> bytes:
    """Headers as the protocol writes them; a line break in one becomes a blank."""
    lines = [f"{name}: {text}".translate(_NO_BREAKS) for name, text in headers.items()]
    return "".join([f"{line}\r\n" for line in lines]).encode()


async def _ignore(_: Exception) -> None:
    """What goes wrong while a failed connection is closed is of no interest."""


def tls_context(options: JetStreamOptions) -> ssl.SSLContext | None:
    """The TLS settings, where the operator asked for TLS."""
    files = options.tls
    if not options.wants_tls and files.ca_file is None:
        return None
    try:
        context = ssl.create_default_context(cafile=files.ca_file)
        if files.cert_file is not None:
            context.load_cert_chain(files.cert_file, files.key_file)
    except OSError as error:
        given = {
            "tls_ca_file": files.ca_file,
            "tls_cert_file": files.cert_file,
            "tls_key_file": files.key_file,
        }
        named = ", ".join(f"{key} {file}" for key, file in given.items() if file is not None)
        raise CannotStart(
            f"NATS connect failed: cannot load TLS files ({named}): {error.strerror or error}"
        ) from error
    return context


def credentials(options: JetStreamOptions) -> dict[str, str]:
    """The arguments that identify us."""
    if options.credentials_file is not None:
        # nats-py opens it only when the server asks, and then keeps its complaint to itself.
        try:
            Path(options.credentials_file).read_bytes()
        except OSError as error:
            raise CannotStart(
                "NATS connect failed: cannot read credentials_file "
                f"{options.credentials_file}: {error.strerror or error}"
            ) from error
        return {"user_credentials": options.credentials_file}
    if options.username is not None:
        return {"user": options.username, "password": options.password or ""}
    return {} if options.token is None else {"token": options.token}
