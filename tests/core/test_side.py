"""The sign of a cross product, against fractions; each step by itself."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle import cross, exact, minus
from support.places import KINDS

from aviso_server.core import side as module
from aviso_server.core.geometry import Point
from aviso_server.core.ring import coords
from aviso_server.core.side import Coords, measure, side, sides, sure_signs

TRIPLE = st.one_of(*(st.tuples(*[st.tuples(kind, kind)] * 3) for kind in KINDS))
# Points of very different size in one triple: differences and products need every digit.
WILD = st.sampled_from([0.0, 5e-324, 1e-310, 3e-200, 1e-40, 1e-17, 1.0, 1.0 + 2**-52, 90.0, -90.0])
TRIPLES = st.lists(TRIPLE | st.tuples(*[st.tuples(WILD, WILD)] * 3), min_size=1, max_size=8)
Triple = tuple[Point, Point, Point]


def excess(a: Point, b: Point, c: Point) -> Fraction:
    return cross(minus(exact(b), exact(a)), minus(exact(c), exact(a)))


def sign(number: Fraction) -> int:
    return (number > 0) - (number < 0)


def columns(triples: list[Triple]) -> tuple[Coords, Coords, Coords]:
    a, b, c = (coords(points) for points in zip(*triples, strict=True))
    return a, b, c


@given(TRIPLES)
def test_side_is_the_exact_sign(triples: list[Triple]) -> None:
    """One point at a time or in arrays, the side is the sign that fractions give."""
    expected = [sign(excess(*triple)) for triple in triples]
    assert [side(*triple) for triple in triples] == expected
    assert sides(*columns(triples)).tolist() == expected


@given(TRIPLES)
@pytest.mark.parametrize("step", ["_sides_in_pairs", "_sides_in_sums"])
def test_every_step_is_exact_by_itself(step: str, triples: list[Triple]) -> None:
    """Whatever the steps before leave to it."""
    signs = getattr(module, step)(*columns(triples))
    assert signs.tolist() == [sign(excess(*triple)) for triple in triples]


@given(TRIPLES)
def test_doubles_are_sure_only_of_what_is_right(triples: list[Triple]) -> None:
    """The first step gives the exact sign or none."""
    for triple, found in zip(triples, sure_signs(*columns(triples)).tolist(), strict=True):
        assert found in (0, sign(excess(*triple)))


@given(TRIPLES)
def test_a_measure_is_as_wrong_as_it_says(triples: list[Triple]) -> None:
    """So that values along one line can be compared with each other."""
    value, error = measure(*columns(triples))
    for triple, about, off in zip(triples, value.tolist(), error.tolist(), strict=True):
        assert abs(excess(*triple) - Fraction(about)) <= Fraction(off)


def test_side_sees_the_last_bit() -> None:
    """A point one unit in the last place off a slanted line is off it."""
    a, b = (0.1, 0.1), (52.3, 52.3)
    on, off = (13.7, 13.7), (math.nextafter(13.7, 14.0), 13.7)
    assert (side(a, b, on), side(a, b, off)) == (0, 1)
    both = coords([on, off])
    start, end = (np.repeat(coords([point]), 2, axis=1) for point in (a, b))
    assert sides(start, end, both).tolist() == [0, 1]
