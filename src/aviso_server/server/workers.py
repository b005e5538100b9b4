"""Several processes behind one port: ``serve --workers N``.

The supervisor holds what must exist once: the reserved port and, when it is embedded, the NATS
server. The workers are ordinary servers that share the port (SO_REUSEPORT) and keep all state in
JetStream, so a notification accepted by one reaches the watchers of all. A worker that dies is
started again; its watchers reconnect, to whichever worker the kernel picks.
"""

import asyncio
import multiprocessing
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count as counting
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Event as ProcessEvent
from pathlib import Path

import structlog
import uvloop
from pydantic import SecretStr

from aviso_server import tasks
from aviso_server.backends.jetstream.backend import JetStreamBackend
from aviso_server.backends.jetstream.embedded import EmbeddedServer
from aviso_server.backends.jetstream.options import CannotStart, Store
from aviso_server.launch import die_with
from aviso_server.process import scratch_folder
from aviso_server.relay.pulse import Stop
from aviso_server.server.archivejob import Archiving, Posted, is_managed
from aviso_server.server.build import StartFailed, describe_store, embedded_options, open_backend
from aviso_server.server.reload import (
    LOG_LEVEL,
    admit,
    align,
    certificates,
    reload,
    reloading,
)
from aviso_server.server.serve import (
    Running,
    bind,
    install_signals,
    log_settings,
    log_started,
    logged,
    metrics_listener,
    reloads,
    run_logged,
    serving,
    settle_memory,
    start_log,
)
from aviso_server.settings import Origin, Settings
from aviso_server.telemetry.cells import Cells
from aviso_server.telemetry.export import Export
from aviso_server.telemetry.exposition import Ledger, Processes, render
from aviso_server.telemetry.metrics import ArchiveMeter

START_S = 60.0
"""How long the first workers may take to be ready."""

STOP_S = 28.0
"""How long workers may take to end; they give their streams 25 s themselves."""

RESTART_S = 1.0
"""Wait before a worker that died is started again, so that a broken one does not spin."""

_SPAWN = multiprocessing.get_context("spawn")


def run(
    settings: Settings,
    count: int,
    *,
    started: Callable[[Running], None],
    origin: Origin | None = None,
) -> int:
    """Serve with several processes until asked to stop; the exit code."""
    return run_logged(
        settings,
        lambda export: _supervise(settings, count, started, Renewal(settings, origin, export)),
    )


@dataclass(slots=True)
class Renewal:
    """How the supervisor reloads: it checks the new configuration, then its workers apply it."""

    settings: Settings
    """As configured, not as the workers were given them."""
    origin: Origin | None
    export: Export | None

    @contextmanager
    def on_signal(self, crew: "list[_Worker]") -> Iterator[None]:
        """Reload on SIGHUP while the block runs."""
        origin = self.origin
        if origin is None:
            yield
            return
        with reloading(lambda: reload(origin.read, partial(self.adopt, crew))):
            yield

    async def adopt(self, crew: "list[_Worker]", fresh: Settings) -> list[str]:
        """Pass the signal on, unless something is wrong: then no worker hears of it."""
        found = [item.path for item in admit(self.settings, fresh)]
        certificates(fresh)
        self.settings = fresh
        if LOG_LEVEL in found:
            start_log(fresh, self.export)
        for worker in crew:
            worker.renew(fresh)
        return found


async def _supervise(
    settings: Settings, count: int, started: Callable[[Running], None], renewal: Renewal
) -> None:
    if settings.notification_backend.kind != JetStreamBackend.kind:
        raise StartFailed(
            "--workers needs notification_backend.kind 'jetstream': in_memory keeps "
            "notifications in one process"
        )
    log_settings(settings)
    told = asyncio.Event()
    install_signals(told)
    async with AsyncExitStack() as stack:
        tally = stack.enter_context(_tally()) if settings.metrics.enabled else None
        lasting = await stack.enter_async_context(AsyncExitStack())  # metrics stop last
        shared, store = await stack.enter_async_context(_hold_shared(settings))
        origin = renewal.origin
        board = stack.enter_context(_board()) if is_managed(settings) else None
        job = Archiving.of(settings, None if origin is None else origin.config, board=board)
        if job is not None:
            stack.push_async_callback(job.ended)  # before NATS, from which it reads
        equipment = _Equipment(tally, origin, board, store)
        crew = await stack.enter_async_context(_crew(shared, count, equipment))
        stack.enter_context(renewal.on_signal(crew))
        await _ready(crew, told)
        if tally is not None:
            page = partial(_page, tally, crew, Processes())
            await lasting.enter_async_context(metrics_listener(settings, page))
        if job is not None and not told.is_set():
            cells = None if tally is None else Cells.shared(tally.begin())
            await job.start(partial(ArchiveMeter.on, cells))
            stack.callback(job.leave)
        application = shared.application
        running = Running(
            application.host,
            application.port,
            Stop(),
            describe_store(settings),
            secure=application.tls is not None,
            archive=None if job is None else job.words(),
        )
        if not told.is_set():
            log_started(running)
            started(running)
        await told.wait()
        structlog.get_logger().info("Shutdown requested", event_name="startup.shutdown.received")
    structlog.get_logger().info("Server stopped", event_name="startup.server.stopped")


@asynccontextmanager
async def _hold_shared(settings: Settings) -> AsyncIterator[tuple[Settings, Store | None]]:
    """Hold what exists once; the settings that workers are to use, and the store of our NATS."""
    with _reserve(settings.application.host, settings.application.port) as reserved:
        port = reserved.getsockname()[1]
        settings = replace(
            settings, application=settings.application.model_copy(update={"port": port})
        )
        jetstream = settings.notification_backend.jetstream
        if not jetstream.embedded:
            yield settings, None
            return
        try:
            server = await EmbeddedServer.start(embedded_options(jetstream))
        except CannotStart as error:
            raise StartFailed(str(error)) from error
        reached = {
            "embedded": False,
            "nats_url": server.url,
            "token": SecretStr(server.token),
        }
        backend = settings.notification_backend.model_copy(
            update={"jetstream": jetstream.model_copy(update=reached)}
        )
        try:
            yield replace(settings, notification_backend=backend), server.store
        finally:
            await server.stop()


def _reserve(host: str, port: int) -> socket.socket:
    """Hold the port without accepting on it, so that it stays ours while workers come and go."""
    bind(host, port, shared=False).close()  # fails if another process has it
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    held = socket.socket(family, socket.SOCK_STREAM)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    held.bind((host, port))
    return held


@dataclass(frozen=True, slots=True)
class _Tally:
    """Where the workers count (decision 0008)."""

    folder: Path
    ledger: Ledger = field(default_factory=Ledger)
    _numbers: Iterator[int] = field(default_factory=counting)

    def begin(self) -> Path:
        """A folder for the cells of one more process."""
        folder = self.folder / str(next(self._numbers))
        self.ledger.join(folder)
        return folder


@contextmanager
def _tally() -> Iterator[_Tally]:
    with scratch_folder("metrics") as folder:
        yield _Tally(folder)


@contextmanager
def _board() -> Iterator[Path]:
    """Where workers find what the archive job does."""
    with scratch_folder("archive") as folder:
        yield folder / "archive.json"


async def _page(tally: _Tally, crew: list["_Worker"], processes: Processes) -> bytes:
    """The metrics of all workers; this process serves nothing else, so it may take its time."""
    pids = [worker.process.pid for worker in crew if worker.process is not None]
    alive = [os.getpid(), *(pid for pid in pids if pid is not None)]
    return render(tally.ledger.snapshot(), alive, processes=processes)


@dataclass(frozen=True, slots=True)
class _Equipment:
    """What every worker is given besides its settings."""

    tally: _Tally | None = None
    origin: Origin | None = None
    board: Path | None = None
    """Where to read what the archive job does, if there is one."""
    store: Store | None = None
    """Of the embedded NATS server, if there is one."""


@dataclass
class _Worker:
    """One place in the crew, and the process that fills it."""

    number: int
    settings: Settings
    equipment: _Equipment = _Equipment()
    ready: ProcessEvent = field(default_factory=_SPAWN.Event)
    process: SpawnProcess | None = None

    def start(self, cells: Path | None) -> SpawnProcess:
        self.process = _SPAWN.Process(
            target=_work,
            args=(
                *(self.settings, self.ready, os.getpid(), cells),
                replace(self.equipment, tally=None),  # which stays with the supervisor
            ),
            name=f"aviso-server worker {self.number}",
        )
        self.process.start()
        return self.process

    def renew(self, fresh: Settings) -> None:
        """Make the process reload; one started later begins with the new settings."""
        self.settings = align(fresh, self.settings)
        if self.process is not None and self.process.is_alive() and self.process.pid:
            os.kill(self.process.pid, signal.SIGHUP)

    async def keep(self) -> None:
        """Start the process, and again whenever it has died."""
        journal = structlog.get_logger().bind(worker=self.number)
        tally = self.equipment.tally
        while True:
            cells = tally.begin() if tally is not None else None
            process = self.start(cells)
            journal.info("Worker started", event_name="startup.worker.started", pid=process.pid)
            code = await _wait_for(process)
            if tally is not None and cells is not None:
                tally.ledger.leave(cells)
            journal.error("Worker died", event_name="startup.worker.died", exit_code=code)
            await asyncio.sleep(RESTART_S)


async def _wait_for(process: SpawnProcess) -> int | None:
    """Wait for a process; its exit code."""
    loop = asyncio.get_running_loop()
    gone = asyncio.Event()
    loop.add_reader(process.sentinel, gone.set)
    try:
        await gone.wait()
    finally:
        loop.remove_reader(process.sentinel)
    process.join()
    return process.exitcode


@asynccontextmanager
async def _crew(
    settings: Settings, count: int, equipment: _Equipment
) -> AsyncIterator[list[_Worker]]:
    """Keep workers running; asked to end, all of them at once."""
    crew = [_Worker(number, settings, equipment) for number in range(1, count + 1)]
    keepers = [asyncio.create_task(worker.keep()) for worker in crew]
    try:
        yield crew
    finally:
        await tasks.end(*keepers)
        await _end(crew)


async def _end(crew: list[_Worker]) -> None:
    processes = [worker.process for worker in crew if worker.process is not None]
    for process in processes:
        process.terminate()
    try:
        async with asyncio.timeout(STOP_S):
            await asyncio.gather(*map(_wait_for, processes))
    except TimeoutError:
        for process in processes:
            process.kill()


async def _ready(crew: list[_Worker], told: asyncio.Event) -> None:
    """Wait until every worker serves; StartFailed when one cannot."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + START_S
    for worker in crew:
        while not worker.ready.is_set() and not told.is_set():
            if loop.time() > deadline:
                raise StartFailed("the workers did not become ready; their log lines say why")
            await asyncio.sleep(0.02)


def _work(
    settings: Settings,
    ready: ProcessEvent,
    supervisor: int,
    folder: Path | None,
    equipment: _Equipment,
) -> None:
    """Be a worker."""
    die_with(supervisor)
    cells = None if folder is None else Cells.shared(folder)
    with (
        logged(settings) as export,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        job = None if equipment.board is None else Posted(equipment.board)
        context = partial(
            serving,
            settings,
            shared=True,
            opened=partial(open_backend, store=equipment.store),
            cells=cells,
            export=export,
            job=job,
        )
        runner.run(_serve(settings, ready, equipment.origin, context))


async def _serve(
    settings: Settings,
    ready: ProcessEvent,
    origin: Origin | None,
    served: Callable[[], AbstractAsyncContextManager[Running]],
) -> None:
    told = asyncio.Event()
    install_signals(told)
    # Ctrl-C reaches the whole process group; only the supervisor acts on it, and then ends us.
    asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    async with served() as running:
        settle_memory()
        read = None if origin is None else lambda: align(origin.read(), settings)
        with reloads(running, read):
            ready.set()
            await told.wait()
