"""Exact planar arithmetic on closed rings: orientation, winding, crossing (D16).

Rules
- Plane degrees. A point is ``(lat, lon)``; latitude is the vertical axis. A ring is a sequence of
  points whose last equals its first. It may cross itself, run back on itself, or be one point.
- A point is on the ring, or it has a winding number: how often the ring goes round it.
- No tolerance anywhere. Every answer is the one that exact arithmetic on the doubles gives.

Theory of operation
Everything rests on one question: on which side of the line through a and b is c, the sign of

    (b.lon - a.lon) * (c.lat - a.lat) - (b.lat - a.lat) * (c.lon - a.lon)

In doubles the result is off by at most ``_ERROR`` times the sum of the two products (the
textbook bound of four roundings), plus ``_TINY`` where products underflow. Beyond that bound
the sign is certain. Within it the same expression is evaluated on integers: each double is a
whole multiple of 2**-1074. That is rare and costs microseconds, so no case needs a tolerance.

GEOS predicates are not used: they work in double-double, which is nearly but not always
exact, and they refuse rings that cross themselves. Its tree of boxes is: comparing boxes is exact.

Each algorithm exists twice. The scalar form is quickest for one small ring, the array form for
batches and long rings. Tests hold both against a third, slow one in fractions.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import TypeAlias

import numpy as np
import shapely
from numpy.typing import NDArray

Point: TypeAlias = tuple[float, float]
"""Latitude, longitude in degrees."""
Points: TypeAlias = tuple[Point, ...]

Coords: TypeAlias = NDArray[np.float64]
"""Points as rows of latitude and longitude."""
Index: TypeAlias = NDArray[np.intp]
Mask: TypeAlias = NDArray[np.bool_]

_EPSILON = 2.0**-53
_ERROR = (3 + 16 * _EPSILON) * _EPSILON
_TINY = 1e-290
"""Far above what underflow can lose (2**-1074 per product), far below any real product."""

_PAIRS = 1_000_000
"""Edge pairs looked at in one step: bounds memory (some 100 MB) for hostile rings."""


def side(a: Point, b: Point, c: Point) -> int:
    """1 if c is left of the way from a to b (longitude right, latitude up), -1 right, 0 on it."""
    east, north = b[1] - a[1], b[0] - a[0]
    up, right = c[0] - a[0], c[1] - a[1]
    first, second = east * up, north * right
    excess = first - second
    if abs(excess) > _ERROR * (abs(first) + abs(second)) + _TINY:
        return 1 if excess > 0 else -1
    # Differences of doubles are zero only if exactly zero: edges along an axis end here.
    if not (east and up) and not (north and right):
        return 0
    return _exact_side(a, b, c)


def _exact_side(a: Point, b: Point, c: Point) -> int:
    (a_lat, a_lon), (b_lat, b_lon), (c_lat, c_lon) = (map(_units, point) for point in (a, b, c))
    excess = (b_lon - a_lon) * (c_lat - a_lat) - (b_lat - a_lat) * (c_lon - a_lon)
    return (excess > 0) - (excess < 0)


def _units(value: float) -> int:
    """A double as a count of 2**-1074."""
    numerator, denominator = value.as_integer_ratio()
    return numerator << (1075 - denominator.bit_length())


def sides(a: Coords, b: Coords, c: Coords) -> NDArray[np.int8]:
    """``side``, row by row."""
    along, across = b - a, c - a
    first = along[:, 1] * across[:, 0]
    second = along[:, 0] * across[:, 1]
    excess = first - second
    result = np.sign(excess).astype(np.int8)
    unsure = np.abs(excess) <= _ERROR * (np.abs(first) + np.abs(second)) + _TINY
    if unsure.any():
        level = ((along[:, 1] == 0) | (across[:, 0] == 0)) & (
            (along[:, 0] == 0) | (across[:, 1] == 0)
        )
        result[unsure & level] = 0
        for row in np.flatnonzero(unsure & ~level):
            result[row] = _exact_side(_point(a[row]), _point(b[row]), _point(c[row]))
    return result


def _point(row: Coords) -> Point:
    return float(row[0]), float(row[1])


def winding(ring: Iterable[Point], lat: float, lon: float) -> int | None:
    """The winding number of a ring about a point; None if the point is on the ring."""
    turns = 0
    for a, b in pairwise(ring):
        if a[0] == lat and a[1] == lon:
            return None
        # Half-open in latitude: a vertex at exactly this latitude counts for one of its edges.
        below = a[0] <= lat
        if below != (b[0] <= lat):
            turn = side(a, b, (lat, lon))
            if turn == 0:
                return None
            if below:
                turns += turn > 0
            else:
                turns -= turn < 0
        elif a[0] == b[0] == lat and min(a[1], b[1]) <= lon <= max(a[1], b[1]):
            return None
    return turns


def edges_meet(a: Point, b: Point, c: Point, d: Point) -> bool:
    """Whether two edges share a point; an edge may be a single point."""
    # With overlapping boxes, collinear edges overlap, so "not strictly on one side" is enough.
    return (
        min(a[0], b[0]) <= max(c[0], d[0])
        and min(c[0], d[0]) <= max(a[0], b[0])
        and min(a[1], b[1]) <= max(c[1], d[1])
        and min(c[1], d[1]) <= max(a[1], b[1])
        and side(a, b, c) * side(a, b, d) <= 0
        and side(c, d, a) * side(c, d, b) <= 0
    )


def rings_meet(one: Sequence[Point], other: Sequence[Point]) -> bool:
    """Whether two rings, as lines, share a point."""
    others = tuple(pairwise(other))
    return any(edges_meet(a, b, c, d) for a, b in pairwise(one) for c, d in others)


def coords(points: Iterable[Point]) -> Coords:
    """Points as an array."""
    return np.fromiter(chain.from_iterable(points), np.float64).reshape(-1, 2)


class Rings:
    """The edges of many rings in flat arrays, each with the number of its ring."""

    def __init__(self, rings: Sequence[Points]) -> None:
        self.count = len(rings)
        sizes = np.fromiter(map(len, rings), np.intp, self.count)
        rows = coords(chain.from_iterable(rings))
        ends = np.cumsum(sizes)
        self.first = rows[ends - sizes]
        self.owner: Index = np.repeat(np.arange(self.count), sizes - 1)
        self.start = np.delete(rows, ends - 1, axis=0)
        self.end = np.delete(rows, ends - sizes, axis=0)

    def windings(self, lat: float, lon: float) -> tuple[Index, Mask]:
        """Per ring: its winding number about one point, and whether the point is on it."""
        point = np.broadcast_to(np.array((lat, lon)), self.start.shape)
        return _wind(self.start, self.end, point, self.owner, self.count)


class Ring:
    """One ring with a tree over its edges, to be asked about many points or edges."""

    def __init__(self, ring: Points) -> None:
        edges = Rings([ring])
        self._start, self._end = edges.start, edges.end
        self._east = float(edges.start[:, 1].max())
        self._tree = shapely.STRtree(_lines(self._start, self._end))

    def met(self, others: Rings) -> Mask:
        """Per other ring: whether it shares a point with this one, as lines."""
        met = np.zeros(others.count, np.bool_)
        for theirs, ours in self._near(others.start, others.end):
            a, b = others.start[theirs], others.end[theirs]
            c, d = self._start[ours], self._end[ours]
            maybe = np.flatnonzero(sides(a, b, c) * sides(a, b, d) <= 0)
            a, b, c, d = a[maybe], b[maybe], c[maybe], d[maybe]
            sure = maybe[sides(c, d, a) * sides(c, d, b) <= 0]
            met[others.owner[theirs[sure]]] = True
            if met.all():
                break
        return met

    def windings(self, points: Coords) -> tuple[Index, Mask]:
        """Per point: the winding number about it, and whether it is on the ring."""
        turns = np.zeros(len(points), np.intp)
        on = np.zeros(len(points), np.bool_)
        # Only edges that reach the ray from the point to the east can go round it or touch it.
        far = points.copy()
        far[:, 1] = np.maximum(points[:, 1], self._east)
        for theirs, ours in self._near(points, far):
            more, touched = _wind(
                self._start[ours], self._end[ours], points[theirs], theirs, len(points)
            )
            turns += more
            on |= touched
        return turns, on

    def _near(self, start: Coords, end: Coords) -> Iterator[tuple[Index, Index]]:
        """Pairs (row of the given edges, row of ours) whose boxes overlap, in bounded steps."""
        step = max(1, _PAIRS // len(self._start))
        for low in range(0, len(start), step):
            lines = _lines(start[low : low + step], end[low : low + step])
            theirs, ours = self._tree.query(lines)
            if len(theirs):
                yield theirs + low, ours


def _lines(start: Coords, end: Coords) -> NDArray[np.object_]:
    # np.asarray only tells the type checker that many edges give an array, not one line.
    return np.asarray(shapely.linestrings(np.stack((start, end), axis=1)))


def _wind(a: Coords, b: Coords, point: Coords, owner: Index, count: int) -> tuple[Index, Mask]:
    """``winding`` for rows of (edge, point), summed up per owner."""
    lat, lon = point[:, 0], point[:, 1]
    on = np.zeros(count, np.bool_)
    level = (a[:, 0] == lat) & (b[:, 0] == lat)
    level &= np.minimum(a[:, 1], b[:, 1]) <= lon
    level &= np.maximum(a[:, 1], b[:, 1]) >= lon
    on[owner[level | (a == point).all(axis=1)]] = True

    below = a[:, 0] <= lat
    rows = np.flatnonzero(below != (b[:, 0] <= lat))
    turn = sides(a[rows], b[rows], point[rows])
    on[owner[rows[turn == 0]]] = True
    counted = rows[np.where(below[rows], turn > 0, turn < 0)]
    steps = np.where(below[counted], 1, -1)
    return np.bincount(owner[counted], steps, count).astype(np.intp), on
