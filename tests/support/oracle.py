"""A slow, exact answer to every question about rings, in fractions and without arrays.

It shares no method with ``core/ring.py``: edges are intersected by solving for the crossing point,
and the winding number is counted along a slanted ray that passes no vertex.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import count, pairwise

Exact = tuple[Fraction, Fraction]


def exact(point: tuple[float, float]) -> Exact:
    """A point in fractions."""
    return Fraction(point[0]), Fraction(point[1])


def cross(u: Exact, v: Exact) -> Fraction:
    """The area spanned by two vectors."""
    return u[1] * v[0] - u[0] * v[1]


def minus(a: Exact, b: Exact) -> Exact:
    """The vector from b to a."""
    return a[0] - b[0], a[1] - b[1]


def on_edge(p: Exact, a: Exact, b: Exact) -> bool:
    """Whether p is on the closed edge from a to b: p divides it, outwards nowhere."""
    if cross(minus(b, a), minus(p, a)) != 0:
        return False
    return all((p[i] - a[i]) * (p[i] - b[i]) <= 0 for i in (0, 1))


def edges_meet(a: Exact, b: Exact, c: Exact, d: Exact) -> bool:
    """Whether two closed edges share a point."""
    if any((on_edge(a, c, d), on_edge(b, c, d), on_edge(c, a, b), on_edge(d, a, b))):
        return True
    along, other = minus(b, a), minus(d, c)
    slope = cross(along, other)
    if slope == 0:
        return False
    t = cross(minus(c, a), other) / slope
    s = cross(minus(c, a), along) / slope
    return 0 <= t <= 1 and 0 <= s <= 1


def on_ring(ring: Sequence[tuple[float, float]], point: tuple[float, float]) -> bool:
    """Whether a point is on the ring."""
    p = exact(point)
    return any(on_edge(p, exact(a), exact(b)) for a, b in pairwise(ring))


def winding(ring: Sequence[tuple[float, float]], point: tuple[float, float]) -> int:
    """The winding number about a point that is not on the ring."""
    p = exact(point)
    spokes = [minus(exact(vertex), p) for vertex in ring]
    ray = next(
        ray
        for ray in ((Fraction(1), Fraction(n, 7)) for n in count(1))
        if all(cross(ray, spoke) != 0 for spoke in spokes)
    )
    turns = 0
    for u, v in pairwise(spokes):
        if (cross(ray, u) > 0) == (cross(ray, v) > 0):
            continue
        # The edge crosses the line of the ray; t says whether on the ray's half.
        along = minus(v, u)
        t = cross(u, along) / cross(ray, along)
        if t > 0:
            turns += 1 if cross(ray, v) > 0 else -1
    return turns


def inside(ring: Sequence[tuple[float, float]], point: tuple[float, float]) -> bool:
    """Whether a point is strictly inside."""
    return not on_ring(ring, point) and winding(ring, point) != 0


def touches(ring: Sequence[tuple[float, float]], point: tuple[float, float]) -> bool:
    """Whether a point is inside or on the ring."""
    return on_ring(ring, point) or winding(ring, point) != 0


def share(one: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> bool:
    """Whether two regions share a point: edges meet, or any vertex of one is in the other."""
    return (
        any(
            edges_meet(exact(a), exact(b), exact(c), exact(d))
            for a, b in pairwise(one)
            for c, d in pairwise(other)
        )
        or any(touches(other, vertex) for vertex in one)
        or any(touches(one, vertex) for vertex in other)
    )
