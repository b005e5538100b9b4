"""Files of a lake, wherever it is: on a disk or in an object store.

Object stores are reached the way delta-rs reaches them, with the same options, so that one set of
credentials serves the table and its files.
"""

from collections.abc import Callable
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
