"""Planar geometry on closed rings: winding and crossing, without tolerance.

Rules
- Plane degrees. A point is ``(lat, lon)``; latitude is the vertical axis. A ring is a sequence of
  points whose last equals its first. It may cross itself, run back on itself, or be one point.
- A point is on the ring, or it has a winding number: how often the ring goes round it.
- Every answer is the one that exact arithmetic on the doubles gives: ``core/side.py``.

Theory of operation
Each algorithm exists twice. The scalar form is fastest for one small ring, the array form for
batches and long rings. Tests compare both with a third, slow one in fractions.

In arrays, a ring is cut into *tiles*: runs of some consecutive edges, with a box around each. Tiles
whose boxes are apart have nothing to do with each other, which leaves few pairs of tiles of
ordinary rings, since consecutive edges are neighbours. Within a pair of tiles every edge is
compared with every other at once. Where doubles do not decide, the tiles are compared as a whole
once more, along their longest edges and in higher precision: rings that run close along each other
are separated there. Only what is left is decided exactly, pair by pair.

Memory is bounded by taking tiles in steps; time by the number of points, which callers limit.
GEOS is not used: its predicates work in double-double, which is nearly but not always exact, and
they refuse rings that cross themselves (docs/decisions/0004).
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from aviso_server.core.geometry import Point, Points
from aviso_server.core.side import Coords, measure, side, sides, sure_signs

Index: TypeAlias = NDArray[np.intp]
Mask: TypeAlias = NDArray[np.bool_]

TILE = 16
"""Edges in a tile: more make fewer steps in Python, fewer make smaller boxes."""

GROUP = 16
"""Tiles in a group: rings that run close along each other are separated in large pieces."""
_STEP = 4096
"""Pairs of edges, or of an edge and a point, compared in one step: arrays of 32 KB stay in the
caches and are not returned to the system in between."""
_BOXES = 1 << 16
"""Pairs of boxes compared in one step."""
_ROW = 256
"""Points tested together: few make short rows, which are slow in arrays."""


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
    return np.fromiter(chain.from_iterable(points), np.float64).reshape(-1, 2).T.copy()


class Rings:
    """Many rings in one array."""

    def __init__(self, rings: Sequence[Points]) -> None:
        self.count = len(rings)
        self._points = coords(chain.from_iterable(rings))
        self._sizes: Index = np.fromiter(map(len, rings), np.intp, self.count)
        self._starts: Index = np.cumsum(self._sizes) - self._sizes

    @property
    def first(self) -> Coords:
        """The first point of each ring."""
        return self._points[:, self._starts]

    def tiles(self) -> "Tiles":
        """Every ring in tiles of the same size; the last of a ring is filled up with its end."""
        edges = self._sizes - 1
        size = min(TILE, int(edges.max(initial=1)))
        counts = -(-edges // size)
        owner: Index = np.repeat(np.arange(self.count), counts)
        number = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        steps = np.arange(size + 1)[:, None] + number * size
        points = self._points[:, self._starts[owner] + np.minimum(steps, edges[owner])]
        return Tiles(points, owner, number)

    def windings(self, lat: float, lon: float) -> tuple[Index, Mask]:
        """Per ring: its winding number about one point, and whether the point is on it."""
        ends = np.zeros(self._points.shape[1], np.bool_)
        ends[self._starts + self._sizes - 1] = True
        start = np.flatnonzero(~ends)
        owner: Index = np.repeat(np.arange(self.count), self._sizes - 1)
        point = np.array(((lat,), (lon,)))
        turns, on = _wind(self._points[:, start], self._points[:, start + 1], point)
        touched = np.zeros(self.count, np.bool_)
        touched[owner[on]] = True
        return np.bincount(owner, turns, self.count).astype(np.intp), touched


class Tiles:
    """Runs of consecutive edges: their points, their ring, the box around them."""

    def __init__(self, points: Coords, owner: Index, number: Index) -> None:
        self.points = points
        """By latitude or longitude, number in the tile, tile: long axes last are fast."""
        self.owner = owner
        first = number % GROUP == 0
        self.group: Index = np.cumsum(first) - 1
        """Of each tile: consecutive tiles of one ring."""
        self.heads: Index = np.flatnonzero(first)
        """The first tile of each group."""
        self.sizes: Index = np.bincount(self.group)
        self.low: Coords = points.min(axis=1)
        self.high: Coords = points.max(axis=1)

    @property
    def edges(self) -> int:
        """How many a tile has."""
        return len(self.points[0]) - 1

    def near(self, others: "Tiles") -> Iterator[tuple[Index, Index]]:
        """Pairs (tile of these, tile of the others) with overlapping boxes, in bounded steps."""
        at_once = max(1, _STEP // (self.edges * others.edges))
        groups = max(1, _BOXES // (len(self.owner) * GROUP))
        for start, end in pairwise((*others.heads[::groups], len(others.owner))):
            part = slice(start, end)
            overlap = self.low[:, :, None] <= others.high[:, None, part]
            overlap &= self.high[:, :, None] >= others.low[:, None, part]
            ours, theirs = np.nonzero(overlap[0] & overlap[1])
            ours, theirs = self._apart_in_groups(others, ours, theirs + start)
            for first in range(0, len(ours), at_once):
                yield ours[first : first + at_once], theirs[first : first + at_once]

    def _apart_in_groups(self, others: "Tiles", ours: Index, theirs: Index) -> tuple[Index, Index]:
        """The pairs without those whose groups a line separates, where boxes leave many."""
        if len(ours) < GROUP:
            return ours, theirs
        keys, place, counts = np.unique(
            self.group[ours] * len(others.owner) + others.group[theirs],
            return_inverse=True,
            return_counts=True,
        )
        apart = np.zeros(len(keys), np.bool_)
        group, other = np.divmod(keys, len(others.owner))
        possible = self.sizes[group] * others.sizes[other]
        crowded = np.flatnonzero((counts >= GROUP) & (2 * counts > possible))
        step = max(1, _STEP // (GROUP * TILE))
        for start in range(0, len(crowded), step):
            some = crowded[start : start + step]
            apart[some] = _apart(self.chains(group[some]), others.chains(other[some]))
        kept = ~apart[place]
        return ours[kept], theirs[kept]

    def chains(self, groups: Index) -> Coords:
        """The points of groups, one after the other; short groups repeat their last."""
        ends = np.append(self.heads[1:], len(self.owner))[groups] - 1
        tiles = np.minimum(self.heads[groups] + np.arange(GROUP)[:, None], ends)
        chains = self.points[:, :, tiles].swapaxes(1, 2)
        return chains.reshape(2, -1, len(groups))


class Ring:
    """One ring in tiles, to be asked about many points or rings."""

    def __init__(self, ring: Points) -> None:
        self._points = coords(ring)
        self._tiles = Rings([ring]).tiles()

    def met(self, others: Rings) -> Mask:
        """Per other ring: whether it shares a point with this one, as lines."""
        met = np.zeros(others.count, np.bool_)
        tiles = others.tiles()
        for ours, theirs in self._tiles.near(tiles):
            owner = tiles.owner[theirs]
            undecided = ~met[owner]
            one = self._tiles.points[:, :, ours[undecided]]
            other = tiles.points[:, :, theirs[undecided]]
            met[owner[undecided][_tiles_meet(one, other)]] = True
            if met.all():
                break
        return met

    def windings(self, points: Coords) -> tuple[Index, Mask]:
        """Per point: the winding number about it, and whether it is on the ring."""
        turns = np.zeros(points.shape[1], np.intp)
        on = np.zeros(points.shape[1], np.bool_)
        start, end = self._points[:, :-1], self._points[:, 1:]
        south, north = np.minimum(start[0], end[0]), np.maximum(start[0], end[0])
        east = np.maximum(start[1], end[1])
        # Points of about the same latitude together: few edges reach the rays from them eastwards.
        order = np.argsort(points[0])
        for low in range(0, len(order), _ROW):
            some = order[low : low + _ROW]
            first, last, west = points[0, some[0]], points[0, some[-1]], points[1, some].min()
            reach = np.flatnonzero((south <= last) & (north >= first) & (east >= west))
            step = _STEP // len(some)
            for part in (reach[at : at + step, None] for at in range(0, len(reach), step)):
                more, touched = _wind(start[:, part], end[:, part], points[:, None, some])
                turns[some] += more.sum(axis=0)
                on[some] |= touched.any(axis=0)
        return turns, on


def _tiles_meet(one: Coords, other: Coords) -> Mask:
    """Per pair of tiles: whether an edge of one meets an edge of the other."""
    ours = _edge_sides(one, other)
    theirs = _edge_sides(other, one).transpose(1, 0, 2)
    # Surely on both sides of each other: they cross. Surely on one side of either: they do not.
    hit: Mask = np.any((ours < 0) & (theirs < 0), axis=(0, 1))
    unsure = (ours <= 0) & (theirs <= 0)
    pairs = np.flatnonzero(unsure.any(axis=(0, 1)) & ~hit)
    if len(pairs):
        pairs = pairs[~_apart(one[:, :, pairs], other[:, :, pairs])]
        i, j, pair = np.nonzero(unsure[:, :, pairs])
        pair = pairs[pair]
        meet = _columns_meet(
            one[:, i, pair], one[:, i + 1, pair], other[:, j, pair], other[:, j + 1, pair]
        )
        hit[pair[meet]] = True
    return hit


def _edge_sides(one: Coords, other: Coords) -> NDArray[np.int8]:
    """Per edge of one tile and edge of the other: 1 if the other is surely on one side of the line
    through it, -1 if surely on both, 0 if that is not sure."""
    signs = sure_signs(one[:, :-1, None], one[:, 1:, None], other[:, None])
    return signs[:, :-1] * signs[:, 1:]


def _apart(one: Coords, other: Coords) -> Mask:
    """Per pair of tiles: whether a line along the longest edge of either surely separates them."""
    return _separated(one, other) | _separated(other, one)


def _separated(one: Coords, other: Coords) -> Mask:
    tiles = np.arange(one.shape[2])
    longest = np.abs(np.diff(one, axis=1)).sum(axis=0).argmax(axis=0)
    a, b = one[:, longest, tiles], one[:, longest + 1, tiles]
    (low, high), (other_low, other_high) = (
        ((value - error).min(axis=0), (value + error).max(axis=0))
        for value, error in (
            measure(a[:, None], b[:, None], one),
            measure(a[:, None], b[:, None], other),
        )
    )
    return np.asarray((high < other_low) | (other_high < low))


def _columns_meet(a: Coords, b: Coords, c: Coords, d: Coords) -> Mask:
    """``edges_meet`` for each column."""
    overlap = (np.minimum(a, b) <= np.maximum(c, d)) & (np.minimum(c, d) <= np.maximum(a, b))
    meet: Mask = overlap[0] & overlap[1]
    for one, other in (((a, b), (c, d)), ((c, d), (a, b))):
        rest = np.flatnonzero(meet)
        p, q = (end[:, rest] for end in one)
        r, s = (end[:, rest] for end in other)
        meet[rest] = sides(p, q, r) * sides(p, q, s) <= 0
    return meet


def _wind(a: Coords, b: Coords, point: Coords) -> tuple[NDArray[np.int8], Mask]:
    """What each edge adds to the winding number about a point, and whether the point is on it.

    For arrays that broadcast together; see ``winding``.
    """
    lat, lon = point
    below, above = a[0] <= lat, b[0] > lat
    crosses = below == above
    on = (a[0] == lat) & (a[1] == lon)
    level = (a[0] == lat) & (b[0] == lat)
    if level.any():
        on |= level & (np.minimum(a[1], b[1]) <= lon) & (np.maximum(a[1], b[1]) >= lon)

    turns = sure_signs(a, b, point)
    turns[~crosses] = 0
    unsure = np.nonzero(crosses & (turns == 0))
    if len(unsure[0]):
        every = (np.broadcast_to(part, (2, *crosses.shape)) for part in (a, b, point))
        exact = sides(*(np.array((lats[unsure], lons[unsure])) for lats, lons in every))
        turns[unsure] = exact
        on[unsure] |= exact == 0
    # Upwards counts if the point is left of the edge, downwards if it is right of it.
    turns[(turns > 0) != below] = 0
    return turns, on
