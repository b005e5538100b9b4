"""A running server: everything started in order, stopped in reverse (operations.md 11)."""

import asyncio
import gc
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import structlog
import uvloop
from aiohttp import web

from aviso_server.assembly import (
    StartFailed,
    build_services,
    build_sources,
    kept,
    open_backend,
)
from aviso_server.backends.jetstream.options import Pace
from aviso_server.http.app import build_app
from aviso_server.http.connection import Site
from aviso_server.http.traffic import Traffic
from aviso_server.relay.pulse import Stop
from aviso_server.settings import Settings, redacted
from aviso_server.telemetry import log

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


def run(settings: Settings, *, started: Callable[[Running], None] | None = None) -> int:
    """Serve until told to stop; the process's exit code."""
    start_log(settings)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings, started))
    except StartFailed as error:
        report_failed_start(error)
        return 1
    return 0


async def _serve(settings: Settings, started: Callable[[Running], None] | None) -> None:
    journal = structlog.get_logger()
    log_settings(settings)
    told = asyncio.Event()
    install_signals(told)
    async with serving(settings) as running:
        settle_memory()
        log_started(running)
        if started is not None:
            started(running)
        await told.wait()
        journal.info("Shutdown requested", event_name="startup.shutdown.received")
    journal.info("Server stopped", event_name="startup.server.stopped")


@asynccontextmanager
async def serving(
    settings: Settings,
    *,
    grace_s: float = GRACE_S,
    shared: bool = False,
    pace: Pace | None = None,
) -> AsyncIterator[Running]:
    """Start everything, in order; leaving the context stops it in reverse.

    The port is bound last, when the backend is ready: early clients are refused, not left
    hanging. ``shared`` lets other processes listen on the same port; ``pace`` is for the backend.
    """
    async with AsyncExitStack() as stack:
        backend = await open_backend(settings, pace=pace)
        stack.push_async_callback(backend.close)
        sources = build_sources(settings, backend)
        app = build_app(build_services(settings, backend, sources))
        traffic = Traffic()
        app.middlewares.insert(0, traffic.counted)
        address = settings.application.host, settings.application.port
        listener = bind(*address, shared=shared)
        await stack.enter_async_context(sources.hub)
        runner = web.AppRunner(
            app, handle_signals=False, handler_cancellation=True, shutdown_timeout=FAREWELL_S
        )
        stack.push_async_callback(runner.cleanup)
        await runner.setup()
        site = Site(runner, listener)
        await site.start()
        # Last in, first out: streams are asked to end, then what is in progress may end.
        stack.push_async_callback(traffic.ended, within_s=grace_s)
        stack.push_async_callback(site.stop)
        stack.callback(sources.stop.request)
        port = listener.getsockname()[1]
        yield Running(address[0], port, sources.stop, kept(settings))


def settle_memory() -> None:
    """Tell the garbage collector that what exists now stays.

    Notifications make many short-lived objects and few cycles. Looking through everything that
    was loaded at the start again and again cost a tenth of the time of a notify.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def bind(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A listening socket, or StartFailed."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024, reuse_port=shared)
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


def start_log(settings: Settings) -> None:
    """Set logging up as configured."""
    log.configure(
        settings.logging.level,
        environ=os.environ,
        now_ns=time.time_ns,
        console=settings.logging.format == "console",
    )


def install_signals(told: asyncio.Event) -> None:
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


def log_settings(settings: Settings) -> None:
    """Tell the log what the server was started with."""
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


def log_started(running: Running) -> None:
    """Tell the log where the server listens."""
    structlog.get_logger().info(
        "Server started",
        event_name="startup.server.started",
        port=running.port,
        swagger_url=f"{running.url}/swagger-ui/",
    )


def report_failed_start(error: StartFailed) -> None:
    """Tell the log and the person at the terminal why there is no server."""
    structlog.get_logger().error(
        "Start failed", event_name="startup.backend.initialization.failed", error=str(error)
    )
    sys.stderr.write(f"aviso-server cannot start: {error}\n")
