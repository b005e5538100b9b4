"""Areas, clouds and the spatial tests."""

import json
import pickle

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support.places import RING_AND_POINTS, RING_PAIRS, RINGS

from aviso_server.core.geometry import Area, Box, Cloud, Geometry, Point, Points
from aviso_server.core.spatial import Contains, Intersects

DIAMOND = Area.of(((52.5, 13.4), (52.6, 13.5), (52.5, 13.6), (52.4, 13.5), (52.5, 13.4)))
BOW_TIE = Area.of(((0.0, 0.0), (4.0, 4.0), (4.0, 0.0), (0.0, 4.0), (0.0, 0.0)))
PENTAGRAM = Area.of(((0.0, 0.0), (10.0, 5.0), (0.0, 10.0), (6.0, 0.0), (6.0, 10.0), (0.0, 0.0)))
LINE = Area.of(((0.0, 0.0), (2.0, 2.0), (4.0, 4.0), (0.0, 0.0)))
DOT = Area.of(((1.0, 1.0),) * 4)


def square(lat: float, lon: float, size: float) -> Area:
    """A square by its lower left corner."""
    a, b = lat + size, lon + size
    return Area.of(((lat, lon), (a, lon), (a, b), (lat, b), (lat, lon)))


def both(test: Intersects | Contains, geometry: Geometry | None) -> bool:
    """The answer, having checked that both ways to ask for it agree."""
    one = test.matches(geometry)
    assert test.select([geometry]).tolist() == [one]
    return one


@given(RING_PAIRS)
def test_polygon_against_polygon_is_exact(rings: tuple[Points, Points]) -> None:
    """Any two rings, simple or not, match exactly if they share a point, and both ways."""
    one, other = map(Area.of, rings)
    expected = oracle.share(*rings)
    assert both(Intersects(one), other) == expected
    assert both(Intersects(other), one) == expected


@given(RING_AND_POINTS)
def test_point_against_polygon_is_strict(case: tuple[Points, list[Point]]) -> None:
    """A point matches exactly if it has a winding number and is not on the ring."""
    ring, points = case
    for point in points:
        assert both(Contains(*point), Area.of(ring)) == oracle.inside(ring, point)


@given(RING_AND_POINTS)
def test_cloud_against_polygon_takes_the_edge(case: tuple[Points, list[Point]]) -> None:
    """A cloud matches if any of its points is inside or on the ring."""
    ring, points = case
    expected = any(oracle.touches(ring, point) for point in points)
    assert both(Intersects(Area.of(ring)), Cloud(tuple(points))) == expected


GEOMETRIES: st.SearchStrategy[Geometry | None] = st.one_of(
    st.none(),
    RINGS.map(Area.of),
    RING_AND_POINTS.map(lambda case: Cloud(tuple(case[1]))),
)


@given(RINGS, st.lists(GEOMETRIES, max_size=8), st.integers(1, 2))
def test_a_batch_is_decided_like_its_members(
    ring: Points, geometries: list[Geometry | None], repeat: int
) -> None:
    """``select`` gives the answers of ``matches`` in order, also for repeats and mixtures."""
    batch = geometries * repeat
    for test in (Intersects(Area.of(ring)), Contains(*ring[0]), Contains(1.5, 1.5)):
        assert test.select(batch).tolist() == [test.matches(geometry) for geometry in batch]


@given(st.integers(0, 2**32))
def test_large_rings_agree_with_geos(seed: int) -> None:
    """Beyond the size that plain Python decides, simple rings get the answers of GEOS."""
    random = np.random.default_rng(seed)

    def blob() -> Area:
        turns = np.sort(random.uniform(0, 2 * np.pi, 40))
        radius = random.uniform(5, 20, 40)
        lat, lon = random.uniform(-30, 30, 2)
        points = [
            (float(lat + r * np.sin(t)), float(lon + r * np.cos(t)))
            for t, r in zip(turns, radius, strict=True)
        ]
        return Area.of((*points, points[0]))

    one, other = blob(), blob()
    expected = shapely.intersects(shapely.Polygon(one.points), shapely.Polygon(other.points))
    assert both(Intersects(one), other) == expected
    cloud = Cloud(tuple(map(tuple, random.uniform(-50, 50, (20, 2)).tolist())))
    hit = shapely.intersects(shapely.Polygon(one.points), shapely.MultiPoint(cloud.points))
    assert both(Intersects(one), cloud) == hit


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (square(0, 0, 2), square(2, 2, 2), True),
        (square(0, 0, 2), square(0, 2, 2), True),
        (square(0, 0, 9), square(3, 3, 1), True),
        (square(0, 0, 2), square(0, 0, 2), True),
        (square(0, 0, 2), square(2.0000000000000004, 2, 2), False),
        (BOW_TIE, square(0.5, 1.9, 0.2), True),
        (BOW_TIE, square(1.9, 0.5, 0.2), False),
        (BOW_TIE, square(2, 2, 0.1), True),
        (PENTAGRAM, square(3, 4.9, 0.2), True),
        (LINE, square(3, 3, 5), True),
        (LINE, square(3, 0, 1), False),
        (LINE, DOT, True),
        (DOT, DOT, True),
        (DOT, square(0, 0, 2), True),
        (DOT, square(0, 0, 1), True),
        (DOT, square(2, 2, 1), False),
    ],
)
def test_shapes_that_touch_match(one: Area, other: Area, expected: bool) -> None:
    """Corner, edge, containment, lobes, lines and dots: sharing one point is enough."""
    assert both(Intersects(one), other) is expected
    assert both(Intersects(other), one) is expected


def test_both_lobes_and_the_core_are_inside() -> None:
    """Non-zero winding: lobes of opposite sense are inside, so is what is gone round twice."""
    assert both(Contains(2.0, 1.0), BOW_TIE) is False
    assert both(Contains(1.0, 2.0), BOW_TIE)
    assert both(Contains(3.0, 2.0), BOW_TIE)
    assert both(Contains(2.0, 2.0), BOW_TIE) is False
    assert both(Contains(3.5, 5.0), PENTAGRAM)


@pytest.mark.parametrize("area", [LINE, DOT])
def test_a_flat_ring_contains_nothing(area: Area) -> None:
    """A degenerate ring has no interior."""
    assert not both(Contains(1.0, 1.0), area)


def test_longitudes_do_not_wrap() -> None:
    """-180 and 180 are different places."""
    east, west = square(0, 179, 1), square(0, -180, 1)
    assert not both(Intersects(east), west)


def test_missing_or_unfit_geometry_does_not_match() -> None:
    """No geometry matches no spatial test, and a cloud contains no point."""
    assert not both(Intersects(DIAMOND), None)
    assert not both(Contains(52.5, 13.5), None)
    assert not both(Contains(52.5, 13.4), Cloud(((52.5, 13.4),)))
    assert Intersects(DIAMOND).select([]).tolist() == []


def test_stored_texts() -> None:
    """Boxes and areas are written in float text, clouds in JSON with fractions."""
    assert DIAMOND.box.text == "52.4,13.4,52.6,13.6"
    assert DIAMOND.text == "(52.5,13.4,52.6,13.5,52.5,13.6,52.4,13.5,52.5,13.4)"
    cloud = Cloud(((52.0, 13.4), (1e-7, 0.0)))
    assert cloud.text == "[[52.0,13.4],[1e-7,0.0]]"
    assert cloud.box.text == "0.0000001,0,52,13.4"


@given(RING_AND_POINTS)
def test_cloud_text_reads_back(case: tuple[Points, list[Point]]) -> None:
    """The canonical JSON of a cloud holds exactly its points."""
    points = tuple(case[1])
    assert tuple(map(tuple, json.loads(Cloud(points).text))) == points


def test_boxes_are_closed() -> None:
    """Boxes that touch overlap."""
    box = Box(0, 0, 2, 2)
    assert box.overlaps(Box(2, 2, 3, 3))
    assert not box.overlaps(Box(2.1, 0, 3, 2))
    assert box.holds(2, 0)
    assert not box.holds(1, 2.1)


def test_spatial_tests_are_values() -> None:
    """Equal tests are equal, hash alike and survive pickling, also after use."""
    test = Intersects(DIAMOND)
    test.select([BOW_TIE])
    copy = pickle.loads(pickle.dumps(test))  # noqa: S301 - our own bytes
    assert copy == test == Intersects(Area(DIAMOND.points, DIAMOND.text))
    assert hash(copy) == hash(test)
    assert copy.matches(DIAMOND)
    assert Contains(1.0, 2.0) == Contains(1.0, 2.0)
