"""Cells: the numbers behind the metrics, in memory or in a file that outlives the process.

A cell is one 8-byte float. Adding to it is one assignment, without a lock: a process has one event
loop and only its thread counts. In a file the kernel keeps what was written, so the numbers of a
process that was killed are still exact; that is why workers count there (decision 0008).

A folder holds two files. ``values`` is the cells. ``names`` has a line per claim, written before
the claim is used: its meaning, where it begins and how many cells it has.
"""

import mmap
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

CAPACITY = 65_536
"""Cells of a process, 512 KiB of which only the used pages exist. A busy server uses some 2000."""

_SPILL = 32
"""The last cells take what finds no room; they are never shown. Wider than any histogram."""

_BYTES = 8


class CellKey(NamedTuple):
    """The meaning of a run of cells."""

    name: str
    labels: tuple[str, ...]


class CellRun(NamedTuple):
    """A run of cells, and its meaning."""

    name: str
    labels: tuple[str, ...]
    begin: int
    width: int


Snapshot = Mapping[CellKey, tuple[float, ...]]
"""The values of all claims at one instant."""


class Cells:
    """The cells of one process."""

    def __init__(self, values: "memoryview[float]", names: int | None = None) -> None:
        self.values = values
        self._names = names
        self._claims: list[CellRun] = []
        self._used = 0

    @classmethod
    def private(cls) -> Self:
        """Cells that end with the process."""
        return cls(memoryview(bytearray(CAPACITY * _BYTES)).cast("d"))

    @classmethod
    def shared(cls, folder: Path) -> Self:
        """Cells that others read with ``read``, even after this process has ended."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        file = os.open(folder / "values", flags, 0o600)
        os.truncate(file, CAPACITY * _BYTES)
        values = memoryview(mmap.mmap(file, CAPACITY * _BYTES)).cast("d")
        os.close(file)  # the mapping has its own hold
        names = os.open(folder / "names", flags | os.O_APPEND, 0o600)
        return cls(values, names)

    def claim(self, name: str, labels: tuple[str, ...] = (), width: int = 1) -> int:
        """Take cells that are zero; where they begin. The caller claims each key once."""
        index = self._used
        if index + width > CAPACITY - _SPILL:
            return CAPACITY - _SPILL
        claim = CellRun(name, labels, index, width)
        if self._names is not None:
            os.write(self._names, msgspec.json.encode(claim) + b"\n")
        self._claims.append(claim)
        self._used += width
        return index

    def snapshot(self) -> Snapshot:
        """All values now."""
        return _valued(self._claims, self.values)


def read(folder: Path) -> Snapshot:
    """The values in a folder; none while its process is only starting."""
    try:
        lines = (folder / "names").read_bytes().split(b"\n")
        values = memoryview((folder / "values").read_bytes()).cast("d")
    except (FileNotFoundError, TypeError):
        return {}
    # The last line is empty, or half written by a process that was killed just then.
    return _valued([msgspec.json.decode(line, type=CellRun) for line in lines[:-1]], values)


def _valued(claims: Iterable[CellRun], values: "memoryview[float]") -> Snapshot:
    return {
        CellKey(claim.name, claim.labels): tuple(values[claim.begin : claim.begin + claim.width])
        for claim in claims
    }
