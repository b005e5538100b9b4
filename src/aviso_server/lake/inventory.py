"""The files of the notifications table at one version, one by one."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from urllib.parse import unquote

from deltalake import DeltaTable

from aviso_server.lake.index import UNKNOWN, FileIndex, Files
from aviso_server.lake.ranges import EVERYWHERE, MOST


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file that is part of the table."""

    path: str
    """Below the table's folder, as the log spells it."""
    size: int
    event_type: str
    day: date
    rows: int = UNKNOWN
    first: int = 0
    """Lowest sequence, or below every one if the file has no statistics."""
    last: int = MOST
    """Highest sequence, or above every one if the file has no statistics."""
    since_ns: int = -MOST
    until_ns: int = MOST
    box: tuple[float, ...] = field(default=EVERYWHERE, compare=False)
    """NaN where it holds no places, and NaN equals nothing: left out of comparisons."""

    @property
    def name(self) -> str:
        """The path as the file system spells it."""
        return unquote(self.path)

    @property
    def bounded(self) -> bool:
        """Whether the table says which sequences it holds."""
        return self.last < MOST


def inventory(table: DeltaTable, event_types: tuple[str, ...] = ()) -> list[TableFile]:
    """The files of these event types, or of all; by event type, day and first sequence."""
    index = FileIndex(table)
    listed = [
        file
        for name in event_types or index.event_types
        if (files := index.files(name)) is not None
        for file in files_of(name, files)
    ]
    return sorted(listed, key=lambda file: (file.event_type, file.day, file.first, file.last))


def files_of(event_type: str, files: Files) -> Iterator[TableFile]:
    """The files of an event type one by one, by first sequence."""
    ranges = files.ranges
    for path, size, day, rows, first, last, since, until, box in zip(
        files.paths.to_pylist(),
        files.sizes.tolist(),
        files.days.to_pylist(),
        files.rows.tolist(),
        ranges.first.tolist(),
        ranges.last.tolist(),
        ranges.since.tolist(),
        ranges.until.tolist(),
        ranges.boxes.tolist(),
        strict=True,
    ):
        yield TableFile(path, size, event_type, day, rows, first, last, since, until, tuple(box))
