"""The composition root: settings in, a running server out. The only module that knows all."""

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog
import uvloop
from aiohttp import web

from aviso_server import __version__
from aviso_server.auth.identity import Anonymous
from aviso_server.backends.backend import Backend
from aviso_server.backends.memory.backend import MemoryBackend, MemoryLimits
from aviso_server.core.cloudevent import Renderer
from aviso_server.http.app import build_app
from aviso_server.http.pages import PACKAGED_STATIC
from aviso_server.http.services import Services
from aviso_server.http.traffic import Traffic
from aviso_server.relay.admin import Administration
from aviso_server.relay.feed import Sources
from aviso_server.relay.hub import Hub, Recovery
from aviso_server.relay.pulse import Stop
from aviso_server.relay.query import StreamRules
from aviso_server.settings import Settings, redacted
from aviso_server.telemetry import log

KEEP_ALIVE_S = 5
"""How long an idle connection is kept (operations.md 11)."""

GRACE_S = 25.0
"""How long requests in progress get at shutdown: the process must be gone within 30 s."""

FAREWELL_S = 1.0
"""How long a connection gets whose request did not end in the grace; aiohttp waits it twice."""


@dataclass(frozen=True, slots=True)
class Running:
    """A server that accepts requests."""

    host: str
    port: int
    stop: Stop
    kept: str
    """Where history is kept, in words."""

    @property
    def url(self) -> str:
        """Where to reach it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


class StartFailed(Exception):
    """The server cannot start; the message says why and what to do."""


def run(settings: Settings, *, started: Callable[[Running], None] | None = None) -> int:
    """Serve until told to stop; the process's exit code."""
    log.configure(
        settings.logging.level,
        environ=os.environ,
        now_ns=time.time_ns,
        console=settings.logging.format == "console",
    )
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings, started))
    except StartFailed as error:
        structlog.get_logger().error(
            "Start failed", event_name="startup.backend.initialization.failed", error=str(error)
        )
        sys.stderr.write(f"aviso-server cannot start: {error}\n")
        return 1
    return 0


async def _serve(settings: Settings, started: Callable[[Running], None] | None) -> None:
    journal = structlog.get_logger()
    _log_start(settings)
    told = asyncio.Event()
    _install_signals(told)
    async with serving(settings) as running:
        journal.info(
            "Server started",
            event_name="startup.server.started",
            port=running.port,
            swagger_url=f"{running.url}/swagger-ui/",
        )
        if started is not None:
            started(running)
        await told.wait()
        journal.info("Shutdown requested", event_name="startup.shutdown.received")
    journal.info("Server stopped", event_name="startup.server.stopped")


@asynccontextmanager
async def serving(settings: Settings, *, grace_s: float = GRACE_S) -> AsyncIterator[Running]:
    """Start everything, in order; leaving the context stops it in reverse (operations.md 11).

    The port is bound last, when the backend is ready: early clients are refused, not left hanging.
    """
    async with AsyncExitStack() as stack:
        backend = _backend(settings)
        stack.push_async_callback(backend.close)
        stop = Stop()
        renderer = Renderer(
            settings.application.base_url,
            polygon_text=settings.application.polygon_output == "string",
        )
        hub = Hub(backend, renderer, _recovery(settings))
        sources = Sources(hub, backend, renderer, _rules(settings), stop, time.time_ns)
        app = build_app(_services(settings, backend, sources))
        traffic = Traffic()
        app.middlewares.insert(0, traffic.counted)
        listener = _bind(settings.application.host, settings.application.port)
        # After all that may raise StartFailed: the hub's task group would wrap it in a group.
        await stack.enter_async_context(hub)
        runner = web.AppRunner(
            app,
            handle_signals=False,
            access_log=None,
            auto_decompress=False,
            handler_cancellation=True,
            keepalive_timeout=KEEP_ALIVE_S,
            shutdown_timeout=FAREWELL_S,
        )
        stack.push_async_callback(runner.cleanup)
        await runner.setup()
        site = web.SockSite(runner, listener, backlog=1024)
        await site.start()
        # Last in, first out: streams are asked to end, then what is in progress may end.
        stack.push_async_callback(traffic.ended, within_s=grace_s)
        stack.push_async_callback(site.stop)
        stack.callback(stop.request)
        port = listener.getsockname()[1]
        yield Running(settings.application.host, port, stop, _kept(settings))


def _backend(settings: Settings) -> Backend:
    chosen = settings.notification_backend
    if chosen.kind != MemoryBackend.kind:
        raise StartFailed(
            f"notification_backend.kind '{chosen.kind}' is not available in this release; "
            "use 'in_memory'"
        )
    limits = chosen.in_memory
    structlog.get_logger().info(
        "Keeping notifications in memory: one process, lost on restart",
        event_name="backend.in_memory.initialization.started",
        max_messages=limits.max_messages,
        max_bytes=limits.max_bytes,
    )
    return MemoryBackend(
        MemoryLimits(
            limits.max_messages,
            limits.max_bytes,
            limits.max_history_per_topic,
            limits.max_topics,
        ),
        now_ns=time.time_ns,
    )


def _kept(settings: Settings) -> str:
    if settings.notification_backend.kind == MemoryBackend.kind:
        return "in memory, until the server stops"
    return "in JetStream"


def _recovery(settings: Settings) -> Recovery:
    jetstream = settings.notification_backend.jetstream
    attempts = jetstream.max_reconnect_attempts
    return Recovery(
        attempts=5 if attempts is None else max(1, attempts),
        delay_s=jetstream.reconnect_delay_ms / 1000,
    )


def _rules(settings: Settings) -> StreamRules:
    watch = settings.watch_endpoint
    return StreamRules(
        heartbeat_s=watch.sse_heartbeat_interval_sec,
        max_duration_s=watch.connection_max_duration_sec,
        batch_size=watch.replay_batch_size,
        batch_delay_s=watch.replay_batch_delay_ms / 1000,
        history_cap=watch.max_historical_notifications,
        queue_size=watch.client_queue_size,
    )


def _services(settings: Settings, backend: Backend, sources: Sources) -> Services:
    if settings.auth.enabled:
        # Serving with the rules ignored would let everybody in.
        raise StartFailed("auth.enabled=true is not available in this release")
    folder = Path(settings.application.static_files_path)
    return Services(
        catalogue=settings.catalogue,
        backend=backend,
        sources=sources,
        administration=Administration(backend, settings.catalogue),
        authenticator=Anonymous(),
        now_ns=time.time_ns,
        max_body_bytes=settings.application.max_body_bytes,
        max_batch_bytes=settings.application.max_batch_bytes,
        max_batch_items=settings.application.max_batch_items,
        static_dir=folder if folder.is_dir() else PACKAGED_STATIC,
        homepage_links=settings.application.homepage.model_dump(),
        version=__version__,
    )


def _bind(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise StartFailed(
            f"cannot listen on {host}:{port}: {_why(error)}. "
            "Choose another port with --port, or 0 for a free one."
        ) from error


def _why(error: OSError) -> str:
    """The reason, without the address that ``create_server`` adds to it."""
    if error.errno is None or isinstance(error, socket.gaierror):  # names have codes of their own
        return error.strerror or str(error)
    return os.strerror(error.errno)


def _install_signals(told: asyncio.Event) -> None:
    """The first signal asks for an orderly end, the second ends the process at once."""
    loop = asyncio.get_running_loop()

    def received(number: signal.Signals) -> None:
        if told.is_set():
            os._exit(1)
        structlog.get_logger().info(
            "Signal received", event_name=f"startup.signal.{number.name.lower()}.received"
        )
        told.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, received, number)


def _log_start(settings: Settings) -> None:
    journal = structlog.get_logger()
    journal.info(
        "Effective configuration",
        event_name="startup.configuration.dumped",
        config=redacted(settings),
    )
    for warning in settings.warnings:
        journal.warning(warning.message, event_name=warning.event, path=warning.path)
    journal.info(
        "Configuration loaded",
        event_name="startup.configuration.loaded",
        bind_host=settings.application.host,
        bind_port=settings.application.port,
        backend_kind=settings.notification_backend.kind,
        has_notification_schema=settings.notification_schema is not None,
    )
