"""The files of the notifications table at one version, as its log tells of them."""

from dataclasses import dataclass
from datetime import date
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable

from aviso_server.lake.layout import BOX
from aviso_server.lake.ranges import MOST

UNKNOWN = -1
"""Rows of a file whose writer did not count them."""


@dataclass(frozen=True, slots=True)
class File:
    """A file that is part of the table."""

    path: str
    """Below the table's folder, as the log spells it."""
    size: int
    event_type: str
    day: date
    rows: int = UNKNOWN
    first: int = 0
    """Lowest sequence, or below every one where the file does not tell."""
    last: int = MOST
    """Highest sequence, or above every one where the file does not tell."""
    since_ns: int | None = None
    until_ns: int | None = None
    box: tuple[float | None, ...] = (None,) * len(BOX)

    @property
    def name(self) -> str:
        """The path as the file system spells it."""
        return unquote(self.path)

    @property
    def told(self) -> bool:
        """Whether the log tells which sequences it holds."""
        return self.last < MOST


def inventory(table: DeltaTable, event_types: tuple[str, ...] = ()) -> list[File]:
    """The files of these event types, or of all; by event type, day and first sequence."""
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    files = (_file(action) for action in actions)
    kept = [file for file in files if not event_types or file.event_type in event_types]
    return sorted(kept, key=lambda file: (file.event_type, file.day, file.first, file.last))


def _file(action: dict[str, object]) -> File:
    def number(name: str, unknown: int) -> int:
        value = action.get(name)
        return value if isinstance(value, int) else unknown

    def moment(name: str) -> int | None:
        value = action.get(name)
        return value if isinstance(value, int) else None

    def edge(name: str) -> float | None:
        value = action.get(f"{name[:3]}.{name}")
        return float(value) if isinstance(value, int | float) else None

    day = action["partition.day"]
    return File(
        str(action["path"]),
        number("size_bytes", 0),
        str(action["partition.event_type"]),
        day if isinstance(day, date) else date.fromisoformat(str(day)),
        number("num_records", UNKNOWN),
        number("min.sequence", 0),
        number("max.sequence", MOST),
        moment("min.time_ns"),
        moment("max.time_ns"),
        tuple(edge(name) for name in BOX),
    )
