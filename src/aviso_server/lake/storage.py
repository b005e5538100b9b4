"""Files of a lake, wherever it is: on a disk or in an object store.

Object stores are reached the way delta-rs reaches them, with the same options, so that one set of
credentials serves the table and its files.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.fs as pa_fs
from deltalake.fs import DeltaStorageHandler

from aviso_server.core.errors import AvisoError
from aviso_server.lake.layout import Place

Opener: TypeAlias = Callable[[str, int | None], pa.NativeFile]


class LakeFailed(AvisoError):
    """The lake cannot be read or written; the message says why."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells a file from another one of the same name."""

    size: int
    changed_ns: int


def local_folder(place: Place, name: str) -> Path | None:
    """The folder of a table on this machine's disks, or None for an object store."""
    return None if place.remote else Path(place.table(name).removeprefix("file://"))


def files(place: Place, name: str) -> pa_fs.FileSystem:
    """The folder of a table as a separate file system."""
    folder = local_folder(place, name)
    if folder is None:
        handler = DeltaStorageHandler(place.table(name), dict(place.options))
        return pa_fs.PyFileSystem(handler)
    folder.mkdir(parents=True, exist_ok=True)
    return pa_fs.SubTreeFileSystem(str(folder), pa_fs.LocalFileSystem())


def opener(place: Place, name: str) -> Opener:
    """What opens files of a table for reading, by path and size.

    In an object store delta-rs would ask for a size it is not given, and hold Python's lock until
    the answer arrives: all threads would wait (measured with deltalake 1.6.6).
    """
    folder = local_folder(place, name)
    if folder is not None:
        return lambda path, _: pa.OSFile(str(folder / path))
    address, options = place.table(name), dict(place.options)

    def opened(path: str, size: int | None) -> pa.NativeFile:
        sizes = None if size is None else {path: size}
        return DeltaStorageHandler(address, options, sizes).open_input_file(path)

    return opened


def commit_file(version: int) -> str:
    """The file of a table's log that made a version of it."""
    return f"_delta_log/{version:020d}.json"


def stamps(place: Place, name: str, paths: Sequence[str]) -> list[Stamp | None]:
    """Files of a table, without opening them; None for those that are not there."""
    folder = local_folder(place, name)
    try:
        if folder is not None:
            return [_stamp(folder / path) for path in paths]
        handler = DeltaStorageHandler(place.table(name), dict(place.options))
        found = handler.get_file_info(list(paths))
    except OSError as error:
        raise LakeFailed(f"cannot look into {place.table(name)}: {error}") from error
    return [Stamp(info.size, info.mtime_ns or 0) if info.is_file else None for info in found]


def _stamp(path: Path) -> Stamp | None:
    try:
        told = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Stamp(told.st_size, told.st_mtime_ns)
