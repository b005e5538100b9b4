"""Fields that are places: polygon and point cloud, and the reserved filter field ``point``."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from aviso_server.core.errors import InvalidRequest, MalformedBody
from aviso_server.core.fields.field import SpatialField
from aviso_server.core.geometry import Area, Cloud
from aviso_server.core.json import Json, parse
from aviso_server.core.numeral import float_text, parse_float, to_double
from aviso_server.core.ring import Point, Points

POLYGON = "polygon"
POINT_CLOUD = "point_cloud"
POINT = "point"
"""The three names the contract reserves for places."""

MAX_POINTS = 10_000
MAX_CLOUD_BYTES = 61_440
"""Canonical JSON of a cloud; it has to fit beside the rest in a NATS header (operations.md 3.4)."""

_AXES = (("latitude", 90), ("longitude", 180))


class _Unfit(ValueError):
    """Why a value is not a place; the caller puts its own words around it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolygonField(SpatialField):
    """One closed ring (domain.md 2.8)."""

    type: ClassVar[str] = "PolygonHandler"

    def parse(self, value: Json) -> Area:
        """The area a value describes."""
        return parse_polygon(self.name, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class PointCloudField(SpatialField):
    """A list of points, on notify only (domain.md 2.9)."""

    max_points: int = MAX_POINTS

    type: ClassVar[str] = "PointCloudHandler"

    def options(self) -> dict[str, Json]:
        """The limit, also where it is the default."""
        return {"max_points": self.max_points}

    def parse(self, value: Json) -> Cloud:
        """The cloud a value describes."""
        where = f"field '{self.name}'"
        if not isinstance(value, list):
            raise InvalidRequest(f"{where} must be a JSON array of [lat,lon] points")
        if not value:
            raise InvalidRequest(f"{where} point cloud must contain at least one point")
        if len(value) > self.max_points:
            raise InvalidRequest(
                f"{where} point cloud contains {len(value)} points, maximum is {self.max_points}"
            )
        points = []
        for number, item in enumerate(value):
            try:
                points.append(_pair(item))
            except _Unfit as why:
                raise InvalidRequest(
                    f"{where} point {number} is invalid: {why}", details=str(why)
                ) from None
        cloud = Cloud(tuple(points))
        if len(cloud.text) > MAX_CLOUD_BYTES:
            raise InvalidRequest(
                f"{where} point cloud canonical JSON is {len(cloud.text)} bytes, "
                f"maximum is {MAX_CLOUD_BYTES} bytes"
            )
        return cloud


def parse_polygon(field: str, value: Json) -> Area:
    """The area a value describes, on notify, as a filter, or read back from storage."""
    try:
        return _polygon(value)
    except _Unfit as why:
        raise InvalidRequest(f"field '{field}' must be a valid polygon: {why}") from None


def parse_point(value: Json) -> Point:
    """The latitude and longitude of a filter ``point`` (domain.md 2.10)."""
    try:
        return _point_text(value) if isinstance(value, str) else _pair(value)
    except _Unfit as why:
        raise InvalidRequest(
            f"identifier.point must be a valid 'lat,lon' coordinate pair: {why}"
        ) from None


def _polygon(value: Json) -> Area:
    if isinstance(value, list):
        return Area.of(_ring(_array_points(value)))
    if not isinstance(value, str):
        raise _Unfit("polygon must be an array of [lat,lon] points or a compatible string")
    text = value.strip()
    if text.startswith("["):
        return Area.of(_ring(_array_points(_json_array(text))))
    points = _ring(_flat_points(text))
    # The text travels in a NATS header, which carries visible ASCII and blanks unharmed.
    return Area(points, text) if text.isascii() and text.isprintable() else Area.of(points)


def _ring(points: Sequence[Point]) -> Points:
    if len(points) < 4:
        raise _Unfit(
            "polygon must have at least 4 coordinate pairs "
            "(3 unique vertices plus a closing repeat of the first vertex)"
        )
    if points[0] != points[-1]:
        raise _Unfit("polygon must be closed (first and last coordinates must be identical)")
    return tuple(points)


def _json_array(text: str) -> list[Json]:
    try:
        value = parse(text.encode(), failed="invalid polygon JSON array")
    except MalformedBody as why:
        raise _Unfit(why.message) from None
    assert isinstance(value, list)  # noqa: S101 - JSON that starts with "[" is an array
    return value


def _array_points(items: list[Json]) -> list[Point]:
    points = []
    for number, item in enumerate(items):
        try:
            points.append(_pair(item))
        except _Unfit as why:
            raise _Unfit(f"polygon point {number} is invalid: {why}") from None
    return points


def _pair(item: Json) -> Point:
    """A JSON ``[lat,lon]``; each check is made on both numbers before the next."""
    if not isinstance(item, list) or len(item) != 2:
        raise _Unfit("coordinate must be a two-element array [lat,lon]")
    numbers = []
    for (axis, _), value in zip(_AXES, item, strict=True):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _Unfit(f"{axis} must be a number")
        numbers.append(to_double(value))
    for (axis, _), number in zip(_AXES, numbers, strict=True):
        if not math.isfinite(number):
            raise _Unfit(f"{axis} must be finite")
    lat, lon = numbers
    _check_range(lat, lon, _outside)
    return lat, lon


def _outside(axis: str, limit: int, number: str) -> str:
    return f"{axis} {number} is outside the valid range [-{limit}, {limit}]"


def _check_range(lat: float, lon: float, message: Callable[[str, int, str], str]) -> None:
    for (axis, limit), number in zip(_AXES, (lat, lon), strict=True):
        # Written so that NaN fails.
        if not -limit <= number <= limit:
            raise _Unfit(message(axis, limit, float_text(number)))


def _flat_points(text: str) -> list[Point]:
    parts = [part.strip() for part in _unwrap(text).split(",")]
    if len(parts) % 2:
        raise _Unfit("polygon coordinates must be in lat,lon pairs (got an odd number of values)")
    points = []
    for pair in zip(parts[::2], parts[1::2], strict=True):
        lat, lon = _read_pair(
            pair, lambda axis, part: f"could not parse {axis} '{part}' as a number"
        )
        _check_range(lat, lon, _outside)
        points.append((lat, lon))
    return points


def _unwrap(text: str) -> str:
    """Flat polygon text without its parentheses, which come as one outer pair or not at all."""
    if not text:
        raise _Unfit("polygon coordinate string is empty")
    opened, closed = text.startswith("("), text.endswith(")")
    if opened and not closed:
        raise _Unfit("polygon coordinate string has opening '(' but is missing the closing ')'")
    if closed and not opened:
        raise _Unfit("polygon coordinate string has closing ')' but is missing the opening '('")
    inner = text[1:-1].strip() if opened else text
    if "(" in inner or ")" in inner:
        raise _Unfit(
            "polygon coordinate string must have at most one outer pair of parentheses; "
            "nested '(' or ')' are not allowed"
        )
    if not inner:
        raise _Unfit("polygon coordinate string is empty between parentheses")
    return inner


def _read_pair(parts: Sequence[str], message: Callable[[str, str], str]) -> Point:
    numbers = []
    for (axis, _), part in zip(_AXES, parts, strict=True):
        number = parse_float(part)
        if number is None:
            raise _Unfit(message(axis, part))
        numbers.append(to_double(number))
    return numbers[0], numbers[1]


def _point_text(value: str) -> Point:
    text = value.strip()
    if not text:
        raise _Unfit("Point coordinate string cannot be empty")
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1]
    parts = [part.strip() for part in text.split(",")]
    if len(parts) < 2:
        raise _Unfit("Point must be in 'lat,lon' format")
    if len(parts) > 2:
        raise _Unfit("Point must contain exactly two values: 'lat,lon'")
    lat, lon = _read_pair(parts, lambda axis, part: f"Invalid {axis} value: {part}")
    _check_range(
        lat,
        lon,
        lambda axis, limit, number: (
            f"{axis.capitalize()} out of range [-{limit}, {limit}]: {number}"
        ),
    )
    return lat, lon
