"""Which files of the lake a query has to open, decided before Spark sees a path.

The log of the table has the sequences, times and boxes of every file. Files that cannot match, or
whose every row is hidden, are not opened. There is no Spark here.
"""

from dataclasses import dataclass

from aviso_server.core.geometry import Box
from aviso_server.lake.layout import NOTIFICATIONS, Place
from aviso_server.lake.ranges import MOST
from aviso_server.lake.reader import Reader
from aviso_server.lake.rowgroups import RowGroups
from aviso_server.lake.snapshot import EventTypeSnapshot
from aviso_server.lake.storage import local_folder
from aviso_server.pipeline.spark.hadoop import hadoop_url

_GLOB = "\\{}[]*?"
"""What Hadoop takes for a pattern."""

_CACHE_BYTES = 16_777_216


@dataclass(frozen=True, slots=True)
class LakeScope:
    """The part of an event type that is asked for; ends are inclusive."""

    first: int = 1
    last: int = MOST
    since_ns: int = -MOST
    until_ns: int = MOST
    box: Box | None = None
    """What a place must share a point with; None where places do not matter."""


def choose_files(ours: EventTypeSnapshot, part: LakeScope, *, hidden: bool = False) -> list[str]:
    """The files that may hold rows of the part, below the table's folder, by first sequence.

    With ``hidden`` those of deleted and wiped notifications too.
    """
    if ours.files is None:
        return []
    paths, ranges = [], ours.files.ranges
    last = min(part.last, ours.through)
    for number in ranges.rising(part.first, last, box=part.box, since=part.since_ns):
        if ranges.since[number] > part.until_ns:
            continue
        lowest = max(part.first, int(ranges.first[number]))
        if hidden or ours.hidden.after(lowest) <= min(last, int(ranges.last[number])):
            paths.append(ours.files.path(number))
    return paths


def address(place: Place, path: str, name: str = NOTIFICATIONS) -> str:
    """A file of a table as Spark's reader wants it."""
    whole = f"{folder_address(place, name)}/{path}"
    return "".join(f"\\{c}" if c in _GLOB else c for c in whole)


def folder_address(place: Place, name: str) -> str:
    """The folder of a table where Spark takes no patterns."""
    folder = local_folder(place, name)
    return hadoop_url(place.table(name)) if folder is None else f"file://{folder.absolute()}"


def reader(place: Place) -> Reader:
    """Finds sequences by time in the lake, without Spark."""
    return Reader(RowGroups(place, cache_bytes=_CACHE_BYTES))
