"""The listening socket: connections are taken from it, and served by ``ClientConnection``."""

import asyncio
import errno
import os
import socket
import ssl
import time
from contextlib import suppress

import structlog
from aiohttp import web

from aviso_server.http.connection import ClientConnection, ConnectionRules
from aviso_server.http.shortcut import Shortcut
from aviso_server.http.tls import HANDSHAKE_S
from aviso_server.telemetry.sparing import Sparing

PER_TURN = 64
"""Connections taken in one turn of the loop."""

LOG_EVERY_S = 10.0

_OPEN_S = 1.0
"""How long TLS handshakes in progress at the end may take."""

BACKLOG = 4096
"""Connections that may wait to be taken; the system may allow fewer."""


class Site(web.BaseSite):
    """Serves a runner's application on a listening socket, over our connections.

    uvloop's own servers take one connection in each turn of the loop. Under load turns are long,
    and clients, health probes among them, would wait for thousands of turns.
    """

    def __init__(
        self,
        runner: web.AppRunner,
        listener: socket.socket,
        *,
        rules: ConnectionRules | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(runner)
        self._app = runner.app
        self._listener = listener
        self._shortcut: Shortcut | None = None
        self._rules = rules or ConnectionRules()
        self._tls = tls
        self._opening: set[asyncio.Task[None]] = set()
        self._refusals = Sparing(LOG_EVERY_S, time.monotonic)
        self._reserve = -1
        """A file that is given up when there are no others, to refuse connections."""

    @property
    def name(self) -> str:
        """The address."""
        host, port = self._listener.getsockname()[:2]
        return f"{'https' if self._tls else 'http'}://{host}:{port}"

    async def start(self) -> None:
        """Accept connections."""
        await super().start()
        self._shortcut = Shortcut.of(self._app)
        self._reserve = os.open(os.devnull, os.O_RDONLY)
        self._listener.setblocking(False)  # noqa: FBT003
        self._listener.listen(BACKLOG)
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def renew(self, tls: ssl.SSLContext) -> None:
        """Use other certificates for connections from now on; those that are open stay."""
        self._tls = tls

    async def stop(self) -> None:
        """Accept no more; those that were accepted are opened, if that does not take long."""
        await super().stop()
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()
        os.close(self._reserve)
        if self._opening:
            _, late = await asyncio.wait(self._opening, timeout=_OPEN_S)
            for task in late:
                task.cancel()

    def _accept(self) -> None:
        """Take the connections that wait."""
        for _ in range(PER_TURN):
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    raise
                self._refuse_one()
                return
            connection.setblocking(False)  # noqa: FBT003
            task = asyncio.get_running_loop().create_task(self._open(connection))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    def _refuse_one(self) -> None:
        """Close a connection for which there is no file: otherwise it would hang, and we spin."""
        os.close(self._reserve)
        with suppress(OSError):
            self._listener.accept()[0].close()
        self._reserve = os.open(os.devnull, os.O_RDONLY)
        unreported = self._refusals.ask()
        if unreported is not None:
            structlog.get_logger().error(
                "No files left for connections",
                event_name="api.connection.refused",
                unreported=unreported,
            )

    async def _open(self, connection: socket.socket) -> None:
        server = self._runner.server
        if server is None:  # pragma: no cover - the runner is cleaned up after the site is stopped
            connection.close()
            return
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: ClientConnection(server, self._rules, self._shortcut),
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=HANDSHAKE_S if self._tls else None,
            )
        except asyncio.CancelledError:
            connection.close()
            raise
        except OSError as error:  # also those of TLS
            connection.close()
            structlog.get_logger().debug(
                "ClientConnection failed", event_name="api.connection.failed", error=str(error)
            )
