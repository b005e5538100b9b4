"""Memory of this process and of all that it has started: the JVM, its Python workers, a pool."""

import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

EVERY_S = 0.2

_PAGE = os.sysconf("SC_PAGE_SIZE")


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
    children: dict[int, list[int]] = defaultdict(list)
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal() and (parent := _parent(entry.name)) is not None:
            children[parent].append(int(entry.name))
    total, found = 0, [os.getpid()]
    while found:
        pid = found.pop()
        found += children[pid]
        total += _resident(pid)
    return total


def _parent(pid: str) -> int | None:
    try:
        # The name in brackets may hold anything; what follows the last bracket is fixed.
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None  # it has ended


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0
