"""Spatial tests of a filter: which areas and clouds share a point with it (docs/schema.md#places).

Theory of operation
The region of an area is its ring together with every point of non-zero winding number, so both
lobes of a bow-tie are inside and a ring without interior is still a line or a point.

Two regions share a point exactly if their rings meet, or the first vertex of one has a non-zero
winding number in the other. For: where the rings do not meet, each of them is connected and
misses the other, so the winding number is the same all along it and one vertex speaks for all.
And if the regions overlap, the overlap has a boundary, made of one ring inside the other region.

Closed boxes are compared first. A batch is decided in arrays, each distinct geometry once:
producers announce the same area again and again. ``core/ring.py`` holds the exact arithmetic.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TypeAlias

import numpy as np

from aviso_server.core.geometry import Area, Box, Cloud, Geometry, Points
from aviso_server.core.ring import Mask, Ring, Rings, coords, rings_meet, winding

_SMALL = 256
"""Edge pairs up to which plain Python beats the set-up cost of arrays (measured: some 100 us)."""
_TEST_WORK = 200
"""What a test costs besides comparing edges, in comparisons."""


@dataclass(frozen=True)
class Intersects:
    """The notification's area, or any point of its cloud, shares a point with this area."""

    area: Area

    @property
    def box(self) -> Box:
        """What a place must share a point with to match."""
        return self.area.box

    def work(self, geometry: Geometry | None) -> int:
        """The most edges, or edges and points, that may have to be compared; 0.2 us each at worst.

        Known before anything is measured, and usually far more than what the test takes.
        """
        if geometry is None:
            return 0
        return _TEST_WORK + len(self.area.points) * len(geometry.points)

    def matches(self, geometry: Geometry | None) -> bool:
        """Decide one geometry; a missing one does not match."""
        if geometry is None or not self.area.box.overlaps(geometry.box):
            return False
        ring = self.area.points
        if len(ring) * len(geometry.points) > _SMALL:
            return bool(self._decide([geometry])[0])
        if isinstance(geometry, Cloud):
            return any(winding(ring, lat, lon) != 0 for lat, lon in geometry.points)
        return (
            winding(ring, *geometry.points[0]) != 0
            or winding(geometry.points, *ring[0]) != 0
            or rings_meet(ring, geometry.points)
        )

    def select(self, geometries: Sequence[Geometry | None]) -> Mask:
        """Decide many at once; the same answers as ``matches``."""
        distinct = _Distinct(geometries)
        near = [
            i
            for i, geometry in enumerate(distinct.values)
            if geometry is not None and self.area.box.overlaps(geometry.box)
        ]
        return distinct.spread(near, self._decide([distinct.present(i) for i in near]))

    def _decide(self, near: Sequence[Geometry]) -> Mask:
        """The answers for geometries whose boxes overlap ours."""
        result = np.zeros(len(near), np.bool_)
        for kind, decide in ((Area, self._areas), (Cloud, self._clouds)):
            rows = [i for i, geometry in enumerate(near) if isinstance(geometry, kind)]
            if rows:
                result[rows] = decide([near[i].points for i in rows])
        return result

    def _areas(self, areas: Sequence[Points]) -> Mask:
        rings = Rings(areas)
        result = np.zeros(len(areas), np.bool_)
        for turns, on in (self._ring.windings(rings.first), rings.windings(*self.area.points[0])):
            result |= on | (turns != 0)
        # Whether the rings meet is expensive: computed only if it still decides.
        rest = np.flatnonzero(~result).tolist()
        if rest:
            result[rest] = self._ring.met(Rings([areas[i] for i in rest]))
        return result

    def _clouds(self, clouds: Sequence[Points]) -> Mask:
        owner = np.repeat(np.arange(len(clouds)), [len(cloud) for cloud in clouds])
        turns, on = self._ring.windings(coords(chain.from_iterable(clouds)))
        result = np.zeros(len(clouds), np.bool_)
        result[owner[on | (turns != 0)]] = True
        return result

    @cached_property
    def _ring(self) -> Ring:
        return Ring(self.area.points)


@dataclass(frozen=True, slots=True)
class Contains:
    """The notification's area has this point strictly inside."""

    lat: float
    lon: float

    @property
    def box(self) -> Box:
        """As for ``Intersects``: the point itself."""
        return Box(self.lat, self.lon, self.lat, self.lon)

    def work(self, geometry: Geometry | None) -> int:
        """As for ``Intersects``."""
        return 0 if geometry is None else _TEST_WORK + len(geometry.points)

    def matches(self, geometry: Geometry | None) -> bool:
        """Decide one geometry; a missing one, or a cloud, does not match."""
        if not isinstance(geometry, Area) or not geometry.box.holds(self.lat, self.lon):
            return False
        return bool(winding(geometry.points, self.lat, self.lon))

    def select(self, geometries: Sequence[Geometry | None]) -> Mask:
        """Decide many at once; the same answers as ``matches``."""
        distinct = _Distinct(geometries)
        near = [
            i
            for i, geometry in enumerate(distinct.values)
            if isinstance(geometry, Area) and geometry.box.holds(self.lat, self.lon)
        ]
        rings = Rings([distinct.present(i).points for i in near])
        turns, on = rings.windings(self.lat, self.lon)
        return distinct.spread(near, (turns != 0) & ~on)


Spatial: TypeAlias = Intersects | Contains


class _Distinct:
    """The distinct geometries of a batch, and the way back from them to the batch."""

    def __init__(self, geometries: Sequence[Geometry | None]) -> None:
        seen: dict[Geometry | None, int] = {}
        places = [seen.setdefault(geometry, len(seen)) for geometry in geometries]
        self._places = np.array(places, np.intp)
        self.values = tuple(seen)

    def present(self, number: int) -> Geometry:
        """A distinct geometry known to be there."""
        geometry = self.values[number]
        assert geometry is not None  # noqa: S101 - callers drop None before they ask
        return geometry

    def spread(self, rows: list[int], answers: Mask) -> Mask:
        """Answers for some of the distinct geometries, False for the others, in batch order."""
        result = np.zeros(len(self.values), np.bool_)
        result[rows] = answers
        return result[self._places]
