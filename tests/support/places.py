"""Rings and points that bring out the hard cases, for property tests."""

from hypothesis import strategies as st

from aviso_server.core.geometry import Point, Points

# A coarse grid makes shared vertices, shared edges, crossings and flat rings likely.
GRID = st.integers(0, 4).map(float)
# Doubles that are not on any grid, and neighbours one unit in the last place apart.
UNEVEN = st.sampled_from([0.1, 0.2, 0.3, 0.1 + 0.2, 52.4, 52.5, 13.4, 1 / 3, 2 / 3, 1.0, 7 / 9])
# Products of such numbers underflow, or need far more digits than a double has.
EXTREME = st.sampled_from([0.0, 5e-324, 1e-200, 3e-200, 1e-17, -1e-17, 1.0, 90.0])
ANY = st.floats(-90, 90)
# Nearly on one line, in steps that doubles can just hold: orientation cannot be told in doubles.
CLOSE = st.sampled_from([1.0, 1.5, 50.0, 51.0]).flatmap(
    lambda at: st.integers(-3, 3).map(lambda steps: at + steps * 2**-47)
)


def _rings(numbers: st.SearchStrategy[float]) -> st.SearchStrategy[Points]:
    vertices = st.lists(st.tuples(numbers, numbers), min_size=3, max_size=7)
    return vertices.map(lambda points: (*points, points[0]))


KINDS = (GRID, UNEVEN, EXTREME, ANY, CLOSE)
RINGS: st.SearchStrategy[Points] = st.one_of(*map(_rings, KINDS))
RING_PAIRS: st.SearchStrategy[tuple[Points, Points]] = st.one_of(
    *(st.tuples(_rings(kind), _rings(kind)) for kind in KINDS)
)
RING_AND_POINTS: st.SearchStrategy[tuple[Points, list[Point]]] = st.one_of(
    *(
        st.tuples(_rings(kind), st.lists(st.tuples(kind, kind), min_size=1, max_size=6))
        for kind in KINDS
    )
)


def zigzag(points: int, apart: float) -> Points:
    """A ring that goes back and forth along the diagonal; rings apart run along each other."""
    ends = ((1.0, 50.0)[i % 2] + i / points for i in range(points))
    ring = tuple((end + apart, end) for end in ends)
    return (*ring, ring[0])
