"""Disks that are full: a small one of the test's own, or a process that may not write on."""

import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.workers import RUN


@dataclass(frozen=True)
class SmallDisk:
    """A file system of a few megabytes."""

    folder: Path

    @property
    def filler(self) -> Path:
        """Takes what is free."""
        return self.folder / "filler"

    def fill(self, _: int = 0) -> None:
        """Leave no byte."""
        with self.filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                return

    def clear(self) -> None:
        """Give everything back."""
        self.filler.unlink()


@contextmanager
def small_disk(folder: Path, mebibytes: int) -> Iterator[SmallDisk]:
    """A tmpfs; where it may not be mounted the test says so and is left to the other way."""
    folder.mkdir(parents=True, exist_ok=True)
    size = f"size={mebibytes}m"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", size, os.environ[RUN], str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("a tmpfs cannot be mounted here; the limit on file sizes is tested instead")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def forbid_growth(pid: int, largest: int) -> Callable[[], None]:
    """Let no file of a process grow beyond a size, as a quota would; the way to undo it.

    Needs no rights over a process of our own. The process gets an error from the system, as on a
    full disk.
    """
    if not hasattr(resource, "prlimit"):  # pragma: no cover - Linux has it
        pytest.skip("file sizes cannot be limited here")
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))

    def undo() -> None:
        if Path(f"/proc/{pid}").exists():
            resource.prlimit(pid, resource.RLIMIT_FSIZE, before)

    return undo


def largest_file(folder: Path) -> int:
    """The size of the largest file below a folder."""
    found = (Path(root) / name for root, _, names in os.walk(folder) for name in names)
    return max(path.stat().st_size for path in found)
