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

Opener: TypeAlias = Callable[[str], pa.NativeFile]


class LakeFailed(AvisoError):
    """The lake cannot be read or written; the message says why."""


def local_folder(place: Place, name: str) -> Path | None:
    """The folder of a table on this machine's disks, or None for an object store."""
    return None if place.remote else Path(place.table(name).removeprefix("file://"))


def files(place: Place, name: str) -> pa_fs.FileSystem:
    """The folder of a table as a file system of its own."""
    folder = local_folder(place, name)
    if folder is None:
        handler = DeltaStorageHandler(place.table(name), dict(place.options))
        return pa_fs.PyFileSystem(handler)
    folder.mkdir(parents=True, exist_ok=True)
    return pa_fs.SubTreeFileSystem(str(folder), pa_fs.LocalFileSystem())


def opener(place: Place, name: str) -> Opener:
    """What opens files of a table for reading, while other threads go on.

    The file system above would do, but pyarrow keeps Python's lock while it opens a file through
    it (measured with pyarrow 26): a server would stand still as long as an object store takes.
    """
    folder = local_folder(place, name)
    if folder is None:
        handler = DeltaStorageHandler(place.table(name), dict(place.options))
        return handler.open_input_file
    return lambda path: pa.OSFile(str(folder / path))
