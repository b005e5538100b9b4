"""Exact planar arithmetic, against fractions (D16)."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle import cross, exact, minus, on_ring
from support.oracle import edges_meet as oracle_edges_meet
from support.oracle import winding as oracle_winding
from support.places import KINDS, RING_AND_POINTS, RING_PAIRS

from aviso_server.core.ring import Ring, Rings, coords, edges_meet, rings_meet, winding
from aviso_server.core.side import Point, Points, side, sides

POINTS = st.one_of(
    *(st.lists(st.tuples(kind, kind), min_size=4, max_size=4) for kind in KINDS),
)


@given(POINTS)
def test_side_is_the_exact_sign(points: list[Point]) -> None:
    """One point at a time or in arrays, the side is the sign that fractions give."""
    a, b, c, _ = points
    area = cross(minus(exact(b), exact(a)), minus(exact(c), exact(a)))
    expected = (area > 0) - (area < 0)
    assert side(a, b, c) == expected
    assert sides(coords([a]), coords([b]), coords([c])).tolist() == [expected]


def test_side_sees_the_last_bit() -> None:
    """A point one unit in the last place off a slanted line is off it."""
    a, b = (0.1, 0.1), (52.3, 52.3)
    on, off = (13.7, 13.7), (math.nextafter(13.7, 14.0), 13.7)
    assert (side(a, b, on), side(a, b, off)) == (0, 1)


@given(POINTS)
def test_edges_meet_exactly(points: list[Point]) -> None:
    """Touching counts, and a single point counts as an edge."""
    a, b, c, d = points
    assert edges_meet(a, b, c, d) == oracle_edges_meet(*map(exact, points))
    assert edges_meet(a, a, c, d) == oracle_edges_meet(*map(exact, (a, a, c, d)))


@given(RING_AND_POINTS)
def test_winding_numbers_agree(case: tuple[Points, list[Point]]) -> None:
    """Scalar, one ring with many points, many rings with one point, and fractions: all agree."""
    ring, points = case
    expected = [None if on_ring(ring, point) else oracle_winding(ring, point) for point in points]
    assert [winding(ring, *point) for point in points] == expected

    turns, on = Ring(ring).windings(coords(points))
    assert [None if o else t for t, o in zip(turns.tolist(), on.tolist(), strict=True)] == expected

    for point, one in zip(points, expected, strict=True):
        (turned,), (touched,) = (part.tolist() for part in Rings([ring]).windings(*point))
        assert (None if touched else turned) == one


@given(RING_PAIRS, RING_PAIRS)
def test_rings_meet_alike_one_by_one_and_in_arrays(
    first: tuple[Points, Points], second: tuple[Points, Points]
) -> None:
    """A batch of rings of different lengths gets the answers of its members."""
    ring, *others = (*first, *second)
    expected = [rings_meet(ring, other) for other in others]
    assert Ring(ring).met(Rings(others)).tolist() == expected


def test_long_rings_are_taken_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounding the memory of one step changes no answer."""
    turns = np.linspace(0, 20 * math.pi, 300)
    star = tuple((math.sin(3 * t) * 40, math.cos(2 * t) * 40) for t in turns)
    ring = (*star, star[0])
    others = [tuple((lat + shift, lon) for lat, lon in ring) for shift in (0.0, 1.0, 80.5)]
    points = coords((float(n), float(n)) for n in range(-45, 45))
    whole = Ring(ring).met(Rings(others)), Ring(ring).windings(points)
    monkeypatch.setattr("aviso_server.core.ring._STEP", 1000)
    steps = Ring(ring).met(Rings(others)), Ring(ring).windings(points)
    assert steps[0].tolist() == whole[0].tolist() == [True, True, False]
    assert [part.tolist() for part in steps[1]] == [part.tolist() for part in whole[1]]
