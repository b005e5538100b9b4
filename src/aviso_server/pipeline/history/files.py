"""Which files of the lake a query has to open, decided before Spark sees a path.

The log of the table has the sequences, times and boxes of every file. Files that cannot match, or
whose every row is hidden, are not opened. There is no Spark here.
"""

from dataclasses import dataclass

import numpy as np

from aviso_server.core.geometry import Box
from aviso_server.lake.index import Files
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


def choose_files(ours: EventTypeSnapshot, part: LakeScope, *, hidden: bool = False) -> Files | None:
    """The files that may hold rows of the part, by first sequence; None if there are none.

    With ``hidden`` those of deleted and wiped notifications too.
    """
    if ours.files is None:
        return None
    ranges, last = ours.files.ranges, min(part.last, ours.through)
    numbers = ranges.meeting(
        part.first, last, box=part.box, since=part.since_ns, until=part.until_ns
    )
    if not hidden:
        lowest = np.maximum(ranges.first[numbers], part.first)
        highest = np.minimum(ranges.last[numbers], last)
        numbers = numbers[~ours.hidden.cover(lowest, highest)]
    return ours.files.chosen(numbers) if len(numbers) else None


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
