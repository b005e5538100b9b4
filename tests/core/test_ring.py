"""Exact planar arithmetic, against fractions."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.cost import cpu_ns, loop_ns
from support.oracle import edges_meet as oracle_edges_meet
from support.oracle import exact, on_ring
from support.oracle import winding as oracle_winding
from support.places import KINDS, RING_AND_POINTS, RING_PAIRS, zigzag

from aviso_server.core.geometry import Point, Points
from aviso_server.core.ring import Ring, Rings, _apart, coords, edges_meet, rings_meet, winding

POINTS = st.one_of(
    *(st.lists(st.tuples(kind, kind), min_size=4, max_size=4) for kind in KINDS),
)


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
    monkeypatch.setattr("aviso_server.core.ring._STEP", 100)
    monkeypatch.setattr("aviso_server.core.ring._ROW", 7)
    steps = Ring(ring).met(Rings(others)), Ring(ring).windings(points)
    assert steps[0].tolist() == whole[0].tolist() == [True, True, False]
    assert [part.tolist() for part in steps[1]] == [part.tolist() for part in whole[1]]


@given(RING_PAIRS, RING_PAIRS, st.integers(1, 3), st.integers(1, 2))
def test_tiles_and_groups_change_no_answer(
    first: tuple[Points, Points], second: tuple[Points, Points], tile: int, group: int
) -> None:
    """However rings are cut into tiles and groups, they meet exactly if two edges do."""
    ring, *others = (*first, *second)
    expected = [rings_meet(ring, other) for other in others]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aviso_server.core.ring.TILE", tile)
        patch.setattr("aviso_server.core.ring.GROUP", group)
        patch.setattr("aviso_server.core.ring._BOXES", 4)
        assert Ring(ring).met(Rings(others)).tolist() == expected


@pytest.mark.parametrize("points", [400, 1600])
@pytest.mark.parametrize("apart", [2**-46, 2**-47])
def test_rings_close_along_each_other_cost_no_more_than_others(
    points: int, apart: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two zigzags along one line, less than doubles can tell apart: no pair of edges goes to
    integers, and all of them take a few dozen short loops of Python."""
    one, other = Ring(zigzag(points, 0.0)), Rings([zigzag(points, apart)])
    slow: list[object] = []
    monkeypatch.setattr("aviso_server.core.side._side_in_integers", lambda *p: slow.append(p))
    assert not one.met(other).any()
    assert not slow
    assert cpu_ns(lambda: one.met(other)) < 40 * loop_ns()


def test_zigzags_that_touch_are_seen() -> None:
    """The same rings meet if one vertex is moved onto the other."""
    ring, other = zigzag(400, 0.0), list(zigzag(400, 2**-46))
    other[200] = ring[200]
    assert Ring(ring).met(Rings([tuple(other)])).all()


SIZES = st.sampled_from([0.0, 1.0, -1.0, 0.01, -0.01, 0.3, 40.0, 1e-17, 40.0 + 2**-47])
CHAINS = st.lists(st.tuples(SIZES, SIZES), min_size=2, max_size=5)


@given(CHAINS, CHAINS)
@example([(0.0, 0.0), (0.0, 60.0), (0.02, 40.0), (0.01, -10.0)], [(0.011, 0.0), (0.013, 0.0)])
def test_chains_that_a_line_separates_do_not_meet(one: list[Point], other: list[Point]) -> None:
    """Near or far from the edge they are measured along, large or small."""
    if _apart(coords(one)[:, :, None], coords(other)[:, :, None]).all():
        assert not rings_meet(one, other)


def test_chains_close_along_each_other_are_distinguished() -> None:
    """Which is what the look along the longest edge is for."""
    one, other = (coords(zigzag(20, apart))[:, :, None] for apart in (0.0, 2**-47))
    assert _apart(one, other).all()
    assert not _apart(one, one).any()
