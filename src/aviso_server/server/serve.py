"""A running server: everything started in order, stopped in reverse."""

import asyncio
import gc
import os
import signal
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
import structlog
import uvloop
from aiohttp import web

from aviso_server.backends.backend import Backend
from aviso_server.backends.metered import look, meter
from aviso_server.core.errors import AvisoError
from aviso_server.http.answers import ArchiveResponse
from aviso_server.http.app import build_app
from aviso_server.http.inflight import InFlight
from aviso_server.http.metrics import serve_metrics
from aviso_server.http.services import Services
from aviso_server.http.site import Site
from aviso_server.http.tls import BadTls
from aviso_server.http.tracing import Tracing
from aviso_server.relay.feed import Sources
from aviso_server.relay.lake import LakeTier, behind
from aviso_server.relay.pulse import Stop
from aviso_server.server.archivejob import Archiving, Posted
from aviso_server.server.build import (
    StartFailed,
    build_metrics,
    build_services,
    build_sources,
    build_tls,
    connection_rules,
    describe_store,
    open_backend,
    open_lake,
    open_otlp,
)
from aviso_server.server.reload import Live, reload, reloading
from aviso_server.settings import Origin, Settings, redact_settings
from aviso_server.telemetry import log
from aviso_server.telemetry.cells import Cells
from aviso_server.telemetry.export import Export
from aviso_server.telemetry.lag import LoopWatch

if TYPE_CHECKING:
    from aviso_server.lake.lake import Lake

GRACE_S = 25.0
"""How long requests in progress get at shutdown: the process must be gone within 30 s."""

FAREWELL_S = 1.0
"""How long a connection gets whose request did not end in the grace; aiohttp waits it twice."""

SAMPLE_S = 1.0
"""How often a worker samples its connection and its queues for the metrics."""

REMEDY = "Choose another port with --port, or 0 for a free one."


@dataclass(frozen=True, slots=True)
class Running:
    """A server that accepts requests."""

    host: str
    port: int
    stop: Stop
    kept: str
    """Where history is kept, as text."""
    metrics_port: int | None = None
    """Where the metrics are, in this process or in its supervisor."""
    secure: bool = False
    """Whether it speaks TLS."""
    live: Live | None = None
    """What a reload reaches; None in a supervisor, whose workers have it."""
    archive: str | None = None
    """The state of the archive job as text, if there is one to manage."""

    @property
    def url(self) -> str:
        """Where to reach it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"


def run(
    settings: Settings,
    *,
    origin: Origin | None = None,
    started: Callable[[Running], None] | None = None,
) -> int:
    """Serve until asked to stop; the process's exit code.

    With ``origin``, SIGHUP reads the configuration again.
    """
    return run_logged(settings, lambda export: _serve(settings, origin, export, started))


def run_logged(
    settings: Settings, serve: Callable[[Export | None], Coroutine[Any, Any, None]]
) -> int:
    """Run it to its end, with the log set up; the process's exit code."""
    try:
        with (
            logged(settings) as export,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            runner.run(serve(export))
    except StartFailed as error:
        report_failed_start(error)
        return 1
    return 0


async def _serve(
    settings: Settings,
    origin: Origin | None,
    export: Export | None,
    started: Callable[[Running], None] | None,
) -> None:
    journal = structlog.get_logger()
    log_settings(settings)
    told = asyncio.Event()
    install_signals(told)
    job = Archiving.of(settings, None if origin is None else origin.config)
    async with serving(settings, export=export, job=job) as running:
        settle_memory()
        with reloads(running, None if origin is None else origin.read):
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
    opened: Callable[..., Awaitable[Backend]] = open_backend,
    cells: Cells | None = None,
    export: Export | None = None,
    job: Archiving | Posted | None = None,
) -> AsyncIterator[Running]:
    """Start everything, in order; leaving the context stops it in reverse.

    The port is bound last, when the backend is ready: early clients are refused, not left
    hanging. ``shared`` lets other processes listen on the same port; ``opened`` opens the backend.
    A worker has ``cells`` that its supervisor shows. ``export`` gets spans; ``job`` archives.
    """
    async with AsyncExitStack() as stack:
        lasting = await stack.enter_async_context(AsyncExitStack())  # metrics stop last
        tls = _certificates(settings)
        metrics = build_metrics(settings, cells)
        lake, backend = await _open_stores(stack, settings, opened)
        backend = meter(backend, metrics)
        sources = build_sources(settings, backend, metrics=metrics, lake=lake)
        services = build_services(settings, backend, sources, lake=lake)
        if job is not None:
            services.archive = partial(_archive_response, job)
            stack.push_async_callback(job.ended)  # before the backend, from which it reads
        app, in_flight = _count_requests(services, export)
        sample = partial(_sample, sources, backend, export)
        if cells is not None:
            stack.callback(asyncio.create_task(_sampling(sample)).cancel)
        elif metrics.cells is not None:
            listening = metrics_listener(settings, _page(metrics.cells, sample))
            services.metrics_port = await lasting.enter_async_context(listening)
        address = settings.application.host, settings.application.port
        listener = bind(*address, shared=shared)
        await stack.enter_async_context(sources.hub)
        site = await stack.enter_async_context(_listening(app, listener, settings, tls))
        stack.enter_context(LoopWatch(metrics.loop_lag(), in_flight.routes))
        # Last in, first out: streams are asked to end, then what is in progress may end.
        stack.push_async_callback(in_flight.settle, within_s=grace_s)
        stack.push_async_callback(site.stop)
        stack.callback(sources.stop.request)
        if job is not None:
            await job.start(metrics.archive)
            stack.callback(job.leave)
        yield Running(
            address[0],
            listener.getsockname()[1],
            sources.stop,
            describe_store(settings),
            services.metrics_port,
            secure=tls is not None,
            live=Live(settings, services, site, partial(start_log, export=export)),
            archive=None if job is None else await _describe(job, settings, backend, lake),
        )


def _archive_response(job: Archiving | Posted) -> ArchiveResponse | None:
    return msgspec.convert(job.view(), ArchiveResponse | None, from_attributes=True)


async def _describe(
    job: Archiving | Posted, settings: Settings, backend: Backend, lake: LakeTier | None
) -> str | None:
    """The archive job as text, with its lag; a broken lake does not keep us from serving."""
    if not isinstance(job, Archiving) or lake is None:
        return job.words()
    try:
        return job.words(await behind(lake, backend, settings.catalogue.names))
    except AvisoError as error:
        structlog.get_logger().warning(
            "The lake cannot be read", event_name="archive.lake.unreadable", error=str(error)
        )
        return job.words()


async def _open_stores(
    stack: AsyncExitStack, settings: Settings, opened: Callable[..., Awaitable[Backend]]
) -> "tuple[Lake | None, Backend]":
    """The lake, if there is one, and the backend, which compares itself with it."""
    lake = open_lake(settings)
    if lake is not None:
        stack.push_async_callback(lake.close)
    backend = await opened(settings, lake=lake)
    stack.push_async_callback(_close, backend)
    return lake, backend


@asynccontextmanager
async def _listening(
    app: web.Application, listener: socket.socket, settings: Settings, tls: ssl.SSLContext | None
) -> AsyncIterator[Site]:
    """Accept requests; afterwards what is left of them is ended."""
    runner = web.AppRunner(
        app, handle_signals=False, handler_cancellation=True, shutdown_timeout=FAREWELL_S
    )
    try:
        await runner.setup()
        site = Site(runner, listener, rules=connection_rules(settings), tls=tls)
        await site.start()
        yield site
    finally:
        await runner.cleanup()


def _count_requests(services: Services, export: Export | None) -> tuple[web.Application, InFlight]:
    """The application, and what is in progress in it."""
    app, in_flight = build_app(services), InFlight()
    if export is not None:
        app.middlewares.insert(0, Tracing(export).trace)
    app.middlewares.insert(0, in_flight.count)
    return app, in_flight


async def _close(backend: Backend) -> None:
    journal = structlog.get_logger()
    journal.info("Closing the backend", event_name="startup.backend.shutdown.started")
    try:
        await backend.close()
    except Exception as error:
        journal.error(
            "Backend not closed", event_name="startup.backend.shutdown.failed", error=str(error)
        )
        raise
    journal.info("Backend closed", event_name="startup.backend.shutdown.succeeded")


def _certificates(settings: Settings) -> ssl.SSLContext | None:
    try:
        return build_tls(settings)
    except BadTls as error:
        raise StartFailed(str(error)) from error


@contextmanager
def reloads(running: Running, read: Callable[[], Settings] | None) -> Iterator[None]:
    """Take the configuration over again on SIGHUP, if it can be read again."""
    live = running.live
    if read is None or live is None:
        yield
        return
    with reloading(lambda: reload(read, live.adopt)):
        yield


@asynccontextmanager
async def metrics_listener(
    settings: Settings, page: Callable[[], Awaitable[bytes]]
) -> AsyncIterator[int]:
    """Show the metrics on their own port, which is given."""
    host, port = settings.metrics.host, settings.metrics.port or 0
    structlog.get_logger().info(
        "Metrics listener", event_name="startup.metrics.server.binding", host=host, port=port
    )
    listener = bind(host, port, remedy="Choose another metrics.port.")
    async with serve_metrics(listener, page):
        yield listener.getsockname()[1]


def _page(cells: Cells, sample: Callable[[], None]) -> Callable[[], Awaitable[bytes]]:
    """The metrics of this process; rendered in a thread, for requests must not wait for it."""
    # A server without metrics has no use for their format.
    from aviso_server.telemetry.exposition import render  # noqa: PLC0415

    async def page() -> bytes:
        sample()
        return await asyncio.to_thread(render, cells.snapshot(), [os.getpid()])

    return page


async def _sampling(sample: Callable[[], None]) -> NoReturn:
    """Keep what is sampled fresh, for a supervisor that looks without asking."""
    while True:
        sample()
        await asyncio.sleep(SAMPLE_S)


def _sample(sources: Sources, backend: Backend, export: Export | None) -> None:
    """Note what is not counted as it happens: the connection, the queues of readers, the export."""
    if export is not None:
        export.outcomes.report(sources.metrics)
    look(backend, sources.metrics)
    sources.metrics.queues_seen(sources.hub.depths())


def settle_memory() -> None:
    """Exempt everything that exists now from garbage collection.

    Notifications make many short-lived objects and few cycles. Looking through everything that
    was loaded at the start again and again cost a tenth of the time of a notify. The second number
    bounds what is looked through at once, short of everything: 100 000 objects take some 10 ms.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 5, 200)


def bind(host: str, port: int, *, shared: bool = False, remedy: str = REMEDY) -> socket.socket:
    """A listening socket, or StartFailed."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024, reuse_port=shared)
    except OSError as error:
        raise StartFailed(f"cannot listen on {host}:{port}: {_why(error)}. {remedy}") from error


def _why(error: OSError) -> str:
    """The reason, without the address that ``create_server`` adds to it."""
    if error.errno is None or isinstance(error, socket.gaierror):  # names have codes of their own
        return error.strerror or str(error)
    return os.strerror(error.errno)


@contextmanager
def logged(settings: Settings) -> Iterator[Export | None]:
    """Logging as configured; the export, if it is on, sends its last records at the end."""
    start_log(settings)
    export = open_otlp(settings)
    if export is None:
        yield None
        return
    start_log(settings, export)
    try:
        yield export
    finally:
        export.close()


def start_log(settings: Settings, export: Export | None = None) -> None:
    """Set logging up as configured."""
    log.configure(
        settings.logging.level,
        environ=os.environ,
        now_ns=time.time_ns,
        console=settings.logging.format == "console",
        export=None if export is None else export.take,
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
    """Log what the server was started with."""
    journal = structlog.get_logger()
    journal.info("Configuration read", event_name="configuration.load.succeeded")
    journal.info(
        "Effective configuration",
        event_name="startup.configuration.dumped",
        config=redact_settings(settings),
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
    """Log where the server listens."""
    structlog.get_logger().info(
        "Server started",
        event_name="startup.server.started",
        port=running.port,
        swagger_url=f"{running.url}/swagger-ui/",
    )


def report_failed_start(error: StartFailed) -> None:
    """Report in the log and at the terminal why there is no server."""
    structlog.get_logger().error(
        "Start failed", event_name="startup.backend.initialization.failed", error=str(error)
    )
    sys.stderr.write(f"aviso-server cannot start: {error}\n")
