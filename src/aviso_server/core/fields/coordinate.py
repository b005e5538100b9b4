"""Coordinates as clients write them: JSON pairs, or numbers in a row.

Most places are valid, and large ones would be expensive to check number by number. So they are
converted and compared all at once; only if that fails is each number checked, in the order of the
protocol, to say what is wrong with the first bad one.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import cast

from aviso_server.core.geometry import Point, Points
from aviso_server.core.json import Json
from aviso_server.core.numeral import Number, float_text, parse_float, to_double

_AXES = (("latitude", 90), ("longitude", 180))


class Unfit(ValueError):
    """Why a value is not a place; the caller completes the message."""


class UnfitPoint(Unfit):
    """The same for one of many points."""

    def __init__(self, number: int, why: Unfit) -> None:
        super().__init__(str(why))
        self.number = number


def read_pairs(items: list[Json]) -> Points:
    """The points of a JSON array of ``[lat,lon]``, or UnfitPoint."""
    points = _pairs_in_order(items)
    if points is None:
        points = tuple(_numbered(number, item) for number, item in enumerate(items))
    return points


def read_pair(item: Json) -> Point:
    """A JSON ``[lat,lon]``; each check is made on both numbers before the next."""
    if not isinstance(item, list) or len(item) != 2:
        raise Unfit("coordinate must be a two-element array [lat,lon]")
    numbers = []
    for (axis, _), value in zip(_AXES, item, strict=True):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Unfit(f"{axis} must be a number")
        numbers.append(to_double(value))
    lat, lon = numbers
    return check_finite(lat, lon)


def read_row(text: str) -> Points:
    """The points of ``lat,lon,lat,lon``, or Unfit; blanks around numbers are fine."""
    parts = text.split(",")
    if len(parts) % 2:
        raise Unfit("polygon coordinates must be in lat,lon pairs (got an odd number of values)")
    points = _row_in_order(text, parts)
    if points is None:
        points = tuple(
            _check_range(*read_texts(pair, "could not parse {axis} '{text}' as a number"))
            for pair in zip(parts[::2], parts[1::2], strict=True)
        )
    return points


def read_texts(parts: Sequence[str], otherwise: str) -> Point:
    """Two texts as numbers, not checked any further; Unfit with ``otherwise`` filled in."""
    numbers = []
    for (axis, _), part in zip(_AXES, map(str.strip, parts), strict=True):
        number = parse_float(part)
        if number is None:
            raise Unfit(otherwise.format(axis=axis, text=part))
        numbers.append(to_double(number))
    return numbers[0], numbers[1]


def check_finite(lat: float, lon: float) -> Point:
    """The point, or Unfit if a number is not finite or not in its range."""
    for (axis, _), number in zip(_AXES, (lat, lon), strict=True):
        if not math.isfinite(number):
            raise Unfit(f"{axis} must be finite")
    return _check_range(lat, lon)


def _check_range(lat: float, lon: float) -> Point:
    for (axis, limit), number in zip(_AXES, (lat, lon), strict=True):
        # Written so that NaN fails.
        if not -limit <= number <= limit:
            raise Unfit(
                f"{axis} {float_text(number)} is outside the valid range [-{limit}, {limit}]"
            )
    return lat, lon


def _numbered(number: int, item: Json) -> Point:
    try:
        return read_pair(item)
    except Unfit as why:
        raise UnfitPoint(number, why) from None


def _pairs_in_order(items: list[Json]) -> Points | None:
    if set(map(type, items)) != {list}:
        return None
    pairs = cast("list[list[Json]]", items)
    numbers = list(chain.from_iterable(pairs))
    # bool is a kind of int in Python, and not a number in JSON.
    if set(map(len, pairs)) != {2} or not set(map(type, numbers)) <= {int, float}:
        return None
    return _in_order(cast("list[Number]", numbers))


def _row_in_order(text: str, parts: Sequence[str]) -> Points | None:
    # Of ASCII texts, float() takes those of our grammar with or without blanks around them, and
    # those with underscores.
    if not text.isascii() or "_" in text:
        return None
    try:
        return _in_order(map(float, parts))
    except ValueError:
        return None


def _in_order(numbers: Iterable[Number]) -> Points | None:
    """Latitudes and longitudes in turn, as points; None if any is not in its range."""
    try:
        row = list(map(float, numbers))
    except OverflowError:
        return None
    axes = row[::2], row[1::2]
    for (_, limit), values in zip(_AXES, axes, strict=True):
        if not (-limit <= min(values) and max(values) <= limit) or math.isnan(sum(values)):
            return None
        if 0.0 in values:
            values[:] = [number + 0.0 for number in values]  # no minus zero
    return tuple(zip(*axes, strict=True))
