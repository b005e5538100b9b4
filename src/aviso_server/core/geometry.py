"""Where notifications are: areas and point clouds (docs/schema.md#places).

``core/spatial.py`` decides which of them a filter asks for.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TypeAlias

import msgspec

from aviso_server.core.numeral import float_text

Point: TypeAlias = tuple[float, float]
"""Latitude, longitude in degrees."""
Points: TypeAlias = tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Box:
    """A closed box in degrees."""

    min_lat: float
    min_lon: float
    max_lat: float
    max_lon: float

    @classmethod
    def around(cls, points: Iterable[Point]) -> "Box":
        """The smallest box that holds the points, of which there is at least one."""
        lats, lons = zip(*points, strict=True)
        return cls(min(lats), min(lons), max(lats), max(lons))

    @property
    def text(self) -> str:
        """The stored form, in float text: ``52.4,13.4,52.6,13.6``."""
        return flat_text(((self.min_lat, self.min_lon), (self.max_lat, self.max_lon)))

    def overlaps(self, other: "Box") -> bool:
        """Whether the boxes share a point; touching counts."""
        return (
            self.min_lat <= other.max_lat
            and other.min_lat <= self.max_lat
            and self.min_lon <= other.max_lon
            and other.min_lon <= self.max_lon
        )

    def holds(self, lat: float, lon: float) -> bool:
        """Whether the point is in the box or on its edge."""
        return self.min_lat <= lat <= self.max_lat and self.min_lon <= lon <= self.max_lon


# Areas and clouds are made for every stored notification that is read, and most are never
# measured: the box is worked out on first use, which is why they have no slots.


@dataclass(frozen=True)
class Area:
    """A polygon: one closed ring without holes."""

    points: Points
    """At least four, the last equal to the first."""
    text: str
    """The stored polygon text."""

    @classmethod
    def of(cls, points: Points) -> "Area":
        """An area with the text we write for it ourselves."""
        return cls(points, f"({flat_text(points)})")

    @cached_property
    def box(self) -> Box:
        """The bounding box."""
        return Box.around(self.points)


@dataclass(frozen=True)
class Cloud:
    """A set of observed points; order and repeats are the producer's."""

    points: Points

    @cached_property
    def box(self) -> Box:
        """The bounding box."""
        return Box.around(self.points)

    @cached_property
    def text(self) -> str:
        """Canonical JSON: compact, every number with a fraction or exponent."""
        return msgspec.json.encode(self.points).decode()


Geometry: TypeAlias = Area | Cloud


def flat_text(points: Iterable[Point]) -> str:
    """``lat,lon,lat,lon`` in float text."""
    numbers = list(chain.from_iterable(points))
    # JSON has the same shortest digits and is written ten times as fast, but it keeps ``.0`` and
    # minus zero, and writes exponents.
    text = msgspec.json.encode(numbers).decode()[1:-1] + ","
    if "e" in text or "-0.0," in text or "n" in text:
        return ",".join(map(float_text, numbers))
    return text.replace(".0,", ",")[:-1]
