"""Memory and CPU time of this process and all it has started: JVM, Python workers, a pool."""

import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

EVERY_S = 0.2

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_LISTEN = "0A"
"""A state of the kernel's list of sockets."""


@dataclass(slots=True)
class Peak:
    """The most that was seen at one moment."""

    bytes: int = 0


@contextmanager
def watched() -> Iterator[Peak]:
    """Look at the processes again and again until the block ends.

    Resident memory is added up, so pages that forked workers share count for each of them.
    """
    peak, over = Peak(resident()), threading.Event()

    def watch() -> None:
        while not over.wait(EVERY_S):
            peak.bytes = max(peak.bytes, resident())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()
        peak.bytes = max(peak.bytes, resident())


def resident() -> int:
    """Bytes of this process and its descendants now."""
    return sum(_resident(pid) for pid in family(os.getpid()))


def cpu_s() -> float:
    """CPU time of this process and its descendants so far, those that have ended included."""
    # Own time in user and kernel mode, then that of children which have been waited for.
    return sum(sum(map(int, _stat(str(pid))[11:15])) for pid in family(os.getpid())) / _TICKS


def family(pid: int) -> list[int]:
    """A process and its descendants, as they are now."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal() and (told := _stat(entry.name)):
            children[int(told[1])].append(int(entry.name))
    found = [pid]
    for each in found:
        found += children[each]
    return found


def listening(port: int) -> list[int]:
    """The processes that accept connections on a port of IPv4 or IPv6, as far as we may look."""
    sockets = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            told = line.split()
            if told[3] == _LISTEN and int(told[1].rpartition(":")[2], 16) == port:
                sockets.add(f"socket:[{told[9]}]")
    return [
        int(entry.name)
        for entry in os.scandir("/proc")
        if entry.name.isdecimal() and sockets.intersection(_files(entry.path))
    ]


def _files(process: str) -> list[str]:
    try:
        return [str(file.readlink()) for file in Path(process, "fd").iterdir()]
    except OSError:  # it has ended, or it is not ours to look at
        return []


def _stat(pid: str) -> list[str]:
    """What the kernel says of a process, from its state on; nothing if it has ended."""
    try:
        # The name in brackets may hold anything; what follows the last bracket is fixed.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0
