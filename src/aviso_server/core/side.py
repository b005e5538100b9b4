"""On which side of a line a point is, exactly: the one predicate that all geometry rests on.

The question is the sign of

    (b.lon - a.lon) * (c.lat - a.lat) - (b.lat - a.lat) * (c.lon - a.lon)

for three points given as doubles. There is no tolerance: the answer is that of exact arithmetic. It
takes up to four steps, each for what the one before left undecided.

1. In doubles. The result is off by at most ``_ERROR`` times the sum of the two products (the
   textbook bound of four roundings), plus ``_TINY`` where products underflow.
2. In pairs of doubles. A difference of doubles is exactly the sum of two doubles, and so is a
   product; what is left out is at most 2**-100 of the products. Decides all but points that are on
   the line or were chosen with great care.
3. As a sum of sixteen doubles without any rounding, until its sign shows.
4. On integers, since each double is a whole multiple of a power of two. Microseconds each in
   Python, where the other steps take 10 to 400 ns: left for lines that span more than 150 orders of
   magnitude, and for one point at a time.

Steps 2 and 3 are error-free transforms: Knuth's sum and Dekker's product, in arrays. Hostile rings
consist of cases that step 1 cannot decide, and must not cost much more than others.
"""

from itertools import product
from typing import NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aviso_server.core.geometry import Point

Floats: TypeAlias = NDArray[np.float64]
Coords: TypeAlias = NDArray[np.float64]
"""Points: the first axis is latitude and longitude, so that each is contiguous in memory."""
Signs: TypeAlias = NDArray[np.int8]

_EPSILON = 2.0**-53
_ERROR = (3 + 16 * _EPSILON) * _EPSILON
_TINY = 1e-290
"""Far above what underflow can lose (2**-1074 per product), far below any real product."""
_PAIR_ERROR = 2.0**-100
_SPLITTER = 2.0**27 + 1
_UNDERFLOW = 2.0**-900
"""Products below may have lost bits."""


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
    return _side_in_integers(a, b, c)


def sure_signs(a: Coords, b: Coords, c: Coords) -> Signs:
    """``side`` wherever doubles decide it, elsewhere 0; for arrays that broadcast together."""
    along, across = b - a, c - a
    first = along[1] * across[0]
    second = along[0] * across[1]
    excess = first - second
    bound = np.abs(first)
    bound += np.abs(second)
    bound *= _ERROR
    bound += _TINY
    return _signs(excess, bound)


def sides(a: Coords, b: Coords, c: Coords) -> Signs:
    """``side`` for each column."""
    result = sure_signs(a, b, c)
    unsure = np.flatnonzero(result == 0)
    if len(unsure):
        result[unsure] = _sides_in_pairs(a[:, unsure], b[:, unsure], c[:, unsure])
    return result


def _signs(value: Floats, error: Floats) -> Signs:
    """The sign of each value, 0 if it may be off by as much as it is."""
    signs: Signs = (value > error).view(np.int8) - (value < -error).view(np.int8)
    return signs


class Measure(NamedTuple):
    """How far points are from a line, in units of no interest, and how wrong that may be."""

    value: Floats
    error: Floats


def measure(a: Coords, b: Coords, c: Coords) -> Measure:
    """The expression itself, computed in pairs of doubles; broadcasts."""
    return _excess(_Difference(b, a), _Difference(c, a))


def _excess(along: "_Difference", across: "_Difference") -> Measure:
    first, first_rest = _product(along.lon, along.lon_rest, across.lat, across.lat_rest)
    second, second_rest = _product(along.lat, along.lat_rest, across.lon, across.lon_rest)
    excess, rest = _sum(first, -second)
    value = excess + (rest + (first_rest - second_rest))
    error = _PAIR_ERROR * (np.abs(first) + np.abs(second)) + 2 * _EPSILON * np.abs(value) + _TINY
    return Measure(value, error)


class _Difference:
    """The way between points, exactly, as the sum of two doubles."""

    def __init__(self, to: Coords, start: Coords) -> None:
        (self.lat, self.lon), (self.lat_rest, self.lon_rest) = _sum(to, -start)

    def scale(self) -> Self:
        """Make small ones about one: the products of tiny differences would vanish.

        A power of two changes no sign. Large ones stay, or their tiny rests would vanish.
        """
        _, exponent = np.frexp(np.maximum(np.abs(self.lat), np.abs(self.lon)))
        factor = np.ldexp(1.0, np.clip(-exponent, 0, 1000))
        self.lat, self.lon = self.lat * factor, self.lon * factor
        self.lat_rest, self.lon_rest = self.lat_rest * factor, self.lon_rest * factor
        return self


def _sides_in_pairs(a: Coords, b: Coords, c: Coords) -> Signs:
    result = _signs(*_excess(_Difference(b, a).scale(), _Difference(c, a).scale()))
    unsure = np.flatnonzero(result == 0)
    if len(unsure):
        result[unsure] = _sides_in_sums(a[:, unsure], b[:, unsure], c[:, unsure])
    return result


def _sides_in_sums(a: Coords, b: Coords, c: Coords) -> Signs:
    along, across = _Difference(b, a).scale(), _Difference(c, a).scale()
    terms: list[Floats] = []
    inexact = np.zeros(a.shape[1], np.bool_)
    for ones, others in (
        ((along.lon, along.lon_rest), (across.lat, across.lat_rest)),
        ((-along.lat, -along.lat_rest), (across.lon, across.lon_rest)),
    ):
        for one, other in product(ones, others):
            main, rest = _split_product(one, other)
            inexact |= (np.abs(main) < _UNDERFLOW) & (one != 0) & (other != 0)
            terms += (main, rest)
    result, decided = _sign_of_sum(terms)
    for i in np.flatnonzero(inexact | ~decided):
        result[i] = _side_in_integers(_point(a[:, i]), _point(b[:, i]), _point(c[:, i]))
    return result


def _sign_of_sum(terms: list[Floats]) -> tuple[Signs, NDArray[np.bool_]]:
    """The sign of each sum of doubles, and whether it is certain."""
    decided = np.zeros(terms[0].shape, np.bool_)
    for _ in terms:
        # One pass carries what does not cancel to the last term and leaves the errors before it;
        # after as many passes as there are terms, all are in order.
        for i in range(1, len(terms)):
            terms[i], terms[i - 1] = _sum(terms[i - 1], terms[i])
        rest = np.sum(np.abs(terms[:-1]), axis=0)
        decided = (np.abs(terms[-1]) > 2 * rest) | (rest == 0)
        if decided.all():
            break
    return np.sign(terms[-1]).astype(np.int8), decided


def _sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The rounded sum and what it is off by, exactly (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _split(a: Floats) -> tuple[Floats, Floats]:
    """A double as two of half the digits (Veltkamp)."""
    large = _SPLITTER * a
    high = large - (large - a)
    return high, a - high


def _split_product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The rounded product and what it is off by, exactly unless it underflows (Dekker)."""
    main = a * b
    (a_high, a_low), (b_high, b_low) = _split(a), _split(b)
    rest = ((a_high * b_high - main) + a_high * b_low + a_low * b_high) + a_low * b_low
    return main, rest


def _product(a: Floats, a_rest: Floats, b: Floats, b_rest: Floats) -> tuple[Floats, Floats]:
    """The product of two pairs of doubles, to some 2**-104 of it."""
    main, rest = _split_product(a, b)
    return main, rest + (a * b_rest + a_rest * b)


def _point(column: Coords) -> Point:
    return float(column[0]), float(column[1])


def _side_in_integers(a: Point, b: Point, c: Point) -> int:
    ratios = [number.as_integer_ratio() for number in (*a, *b, *c)]
    # All denominators are powers of two: in units of the smallest, all are whole numbers.
    unit = max(denominator for _, denominator in ratios).bit_length()
    a_lat, a_lon, b_lat, b_lon, c_lat, c_lon = (
        numerator << (unit - denominator.bit_length()) for numerator, denominator in ratios
    )
    excess = (b_lon - a_lon) * (c_lat - a_lat) - (b_lat - a_lat) * (c_lon - a_lon)
    return (excess > 0) - (excess < 0)
