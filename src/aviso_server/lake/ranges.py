"""What parts of the lake can hold: sequences, times and places of files and of row groups.

Parts are sorted by their first sequence. Those of one event type normally follow each other, but a
compaction may make them overlap; nothing here relies on it that they do not.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from aviso_server.core.geometry import Box
from aviso_server.core.ring import Mask

Ints: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"
Floats: TypeAlias = "np.ndarray[tuple[int, int], np.dtype[np.float64]]"

MOST = 2**63 - 1
"""Beyond every sequence and time."""

EVERYWHERE = (-np.inf, -np.inf, np.inf, np.inf)
"""The box of a part without statistics; a part without any place has NaN."""

_STEP = 256
"""Parts compared together, so that finding the next one does not grow with their number."""


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """The ranges of parts, sorted by first sequence; ends are inclusive."""

    first: Ints
    last: Ints
    since: Ints
    """Lowest storage time, nanoseconds."""
    until: Ints
    boxes: Floats
    """One row each: lowest latitude and longitude, highest latitude and longitude."""
    _reach: Ints = field(init=False, repr=False)
    """The highest sequence in this part or one before it."""
    _falling: Ints = field(init=False, repr=False)
    """Part numbers by last sequence, highest first."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_reach", np.maximum.accumulate(self.last))
        object.__setattr__(self, "_falling", np.argsort(-self.last, kind="stable"))

    def __len__(self) -> int:
        return len(self.first)

    @property
    def reach(self) -> int:
        """The highest sequence of all; -1 if there are none."""
        return int(self._reach[-1]) if len(self._reach) else -1

    def chosen(self, which: "slice | Ints") -> "Ranges":
        """Those of some parts, which stay sorted."""
        return Ranges(
            self.first[which],
            self.last[which],
            self.since[which],
            self.until[which],
            self.boxes[which],
        )

    def joined(self, others: "Ranges") -> "Ranges":
        """These, and then others."""
        return Ranges(
            np.concatenate((self.first, others.first)),
            np.concatenate((self.last, others.last)),
            np.concatenate((self.since, others.since)),
            np.concatenate((self.until, others.until)),
            np.concatenate((self.boxes, others.boxes)),
        )

    def rising(
        self, first: int, last: int, *, box: Box | None = None, since: int = -MOST
    ) -> Iterator[int]:
        """Numbers of the parts that may hold such rows, by first sequence."""
        begin = int(np.searchsorted(self._reach, first))
        end = int(np.searchsorted(self.first, last, side="right"))
        for step in range(begin, end, _STEP):
            part = slice(step, min(step + _STEP, end))
            may = (self.last[part] >= first) & (self.until[part] >= since)
            if box is not None:
                may &= self._near(box, part)
            for number in np.flatnonzero(may).tolist():
                yield step + number

    def meeting(
        self, first: int, last: int, *, box: Box | None = None, since: int, until: int
    ) -> Ints:
        """Numbers of all parts that may hold such rows, at once."""
        may = (self.first <= last) & (self.last >= first) & (first <= last)
        may &= (self.since <= until) & (self.until >= since)
        if box is not None:
            may &= self._near(box, slice(None))
        return np.flatnonzero(may)

    def falling(self, last: int, *, until: int = MOST) -> Iterator[int]:
        """Numbers of the parts that may hold rows up to a sequence and a time, latest first."""
        # Parts that only hold later sequences come first, and are skipped together.
        order = self._falling
        for step in range(0, len(order), _STEP):
            part = order[step : step + _STEP]
            may = (self.first[part] <= last) & (self.since[part] <= until)
            yield from part[may].tolist()

    def _near(self, box: Box, part: slice) -> Mask:
        low_lat, low_lon, high_lat, high_lon = self.boxes[part].T
        near: Mask = (low_lat <= box.max_lat) & (low_lon <= box.max_lon)
        near &= (high_lat >= box.min_lat) & (high_lon >= box.min_lon)
        return near
