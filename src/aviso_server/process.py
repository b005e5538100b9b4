"""Children and files of a process: what its supervisors and jobs share.

- A child ends with us, even if we are killed; it is asked to end before it is made to.
- A program that keeps failing is started again after growing pauses.
- A file is replaced whole or not at all; a folder is used by one process at a time.
- A temporary folder that a killed process left is removed by the next of its kind.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, TypedDict, Unpack

from aviso_server import launch


class Pipes(TypedDict, total=False):
    """What a child writes to, and which open files it is given."""

    stdout: int
    stderr: int
    pass_fds: Sequence[int]
    limit: int


async def start_child(*command: str, **pipes: Unpack[Pipes]) -> asyncio.subprocess.Process:
    """Start a program that ends when this process does."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", launch.__file__, str(os.getpid())),
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        # Ctrl-C is for us to act on; and the child with its own children can be ended as a group.
        start_new_session=True,
        **pipes,
    )


def signal_child(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Send a signal, unless the child is gone."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)


async def end_child(process: asyncio.subprocess.Process, *, within_s: float) -> None:
    """Ask a child to end, and make it end if it does not within this time."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        signal_child(process, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await process.wait()
            return


def kill_group(leader: int) -> None:
    """End whatever is left of a child and its own children."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


class Backoff:
    """Growing pauses between tries; after one that lasted they start again."""

    def __init__(self, pauses_s: Sequence[float], *, settled_s: float) -> None:
        self._pauses_s = pauses_s
        self._settled_s = settled_s
        self._failures = 0
        self._begun = time.monotonic()

    def begin(self) -> None:
        """A try begins now."""
        self._begun = time.monotonic()

    def failed(self) -> float:
        """How long to pause after a try that ended now."""
        if time.monotonic() - self._begun >= self._settled_s:
            self._failures = 0
        pause = self._pauses_s[min(self._failures, len(self._pauses_s) - 1)]
        self._failures += 1
        return pause


@contextlib.contextmanager
def set_by_signals(stop: threading.Event) -> Iterator[None]:
    """SIGTERM and Ctrl-C set the event while the block runs.

    Spark takes over Ctrl-C when a session starts: nest another block inside the session.
    """

    def end(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def replace_file(
    path: Path, content: bytes, *, mode: int | None = None, durable: bool = False
) -> None:
    """Write a file whole or not at all, with these permissions from its first byte on.

    A ``durable`` one is on the disk, under its name, when this returns.
    """
    with unfinished(path) as draft, draft.open("wb") as file:
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        file.write(content)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    if durable:
        sync_folder(path.parent)


@contextlib.contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """A file to write, which takes the place of ``path`` if the block ends well."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield draft
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def sync_folder(folder: Path) -> None:
    """Make the names of new files durable too."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def lock(path: Path) -> IO[bytes]:
    """A file, made if need be, that is ours until it is closed; BlockingIOError if it is not."""
    file = path.open("a+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        file.close()
        raise
    return file


@contextlib.contextmanager
def scratch_folder(kind: str) -> Iterator[Path]:
    """A temporary folder, removed with the block; so are those that killed processes left."""
    root = Path(tempfile.gettempdir())
    for left in root.glob(f"aviso-{kind}-*"):
        _remove_abandoned(left)
    draft = Path(tempfile.mkdtemp(prefix=f".aviso-{kind}-"))
    with lock(draft / _OWNER):
        # Named only now: whoever finds the name must find it locked.
        folder = draft.rename(root / draft.name.removeprefix("."))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


_OWNER = ".owner"
"""Locked as long as the process lives that the folder belongs to."""


def _remove_abandoned(folder: Path) -> None:
    """Remove one of our own that nobody holds; what cannot be known stays."""
    with contextlib.suppress(OSError):
        if folder.lstat().st_uid == os.geteuid() and (folder / _OWNER).exists():
            with lock(folder / _OWNER):
                shutil.rmtree(folder, ignore_errors=True)
