"""Fields that are places: polygon and point cloud, and the reserved filter field ``point``."""

from dataclasses import dataclass
from typing import ClassVar

from aviso_server.core.errors import InvalidRequest, MalformedBody
from aviso_server.core.fields.coordinate import (
    Unfit,
    UnfitPoint,
    check_finite,
    read_pair,
    read_pairs,
    read_row,
    read_texts,
)
from aviso_server.core.fields.field import SpatialField
from aviso_server.core.geometry import Area, Cloud, Point, Points
from aviso_server.core.json import Json, parse

POLYGON = "polygon"
POINT_CLOUD = "point_cloud"
POINT = "point"
"""The three names the protocol reserves for places."""

MAX_POINTS = 10_000
MAX_POLYGON_POINTS = 5_000
"""Unless the schema says otherwise. The worst case of two rings grows with the product of their
points: at this limit some seconds, off the event loop."""
MAX_CLOUD_BYTES = 61_440
"""Canonical JSON of a cloud; it has to fit beside the rest in a NATS header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolygonField(SpatialField):
    """One closed ring."""

    max_points: int | None = None
    """Of a ring, the closing one counted; MAX_POLYGON_POINTS if not set."""

    type: ClassVar[str] = "PolygonHandler"

    def options(self) -> dict[str, Json]:
        """The limit, where one is set."""
        return {} if self.max_points is None else {"max_points": self.max_points}

    def parse(self, value: Json) -> Area:
        """The area a value describes."""
        return parse_polygon(self.name, value, max_points=self.max_points or MAX_POLYGON_POINTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class PointCloudField(SpatialField):
    """A list of points, on notify only."""

    max_points: int = MAX_POINTS

    type: ClassVar[str] = "PointCloudHandler"

    def options(self) -> dict[str, Json]:
        """The limit, even if it is the default."""
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
        try:
            cloud = Cloud(read_pairs(value))
        except UnfitPoint as why:
            raise InvalidRequest(
                f"{where} point {why.number} is invalid: {why}", details=str(why)
            ) from None
        if len(cloud.text) > MAX_CLOUD_BYTES:
            raise InvalidRequest(
                f"{where} point cloud canonical JSON is {len(cloud.text)} bytes, "
                f"maximum is {MAX_CLOUD_BYTES} bytes"
            )
        return cloud


def parse_polygon(field: str, value: Json, *, max_points: int | None = None) -> Area:
    """The area a value describes, on notify, as a filter, or read back from storage.

    ``max_points`` is for what clients send: what was stored is read whatever its size.
    """
    try:
        return _polygon(value, max_points)
    except UnfitPoint as why:
        reason = f"polygon point {why.number} is invalid: {why}"
    except Unfit as why:
        reason = str(why)
    message = f"field '{field}' must be a valid polygon: {reason}"
    raise InvalidRequest(message, field=field) from None


def parse_point(value: Json) -> Point:
    """The latitude and longitude of a filter ``point``."""
    try:
        return _point(value)
    except Unfit as why:
        raise InvalidRequest(
            "identifier.point must be a valid [lat,lon] coordinate pair or compatible string: "
            f"{why}",
            field=POINT,
        ) from None


def _polygon(value: Json, max_points: int | None) -> Area:
    if isinstance(value, list):
        return Area.of(_array_ring(value, max_points))
    if not isinstance(value, str):
        raise Unfit("polygon must be an array of [lat,lon] points or a compatible string")
    text = value.strip()
    if text.startswith("["):
        return Area.of(_array_ring(_json_array(text, POLYGON), max_points))
    row = _unwrap(text)
    _check_count((row.count(",") + 1) // 2, max_points)
    points = _ring(read_row(row))
    # The text travels in a NATS header, which carries visible ASCII and blanks unharmed.
    return Area(points, text) if text.isascii() and text.isprintable() else Area.of(points)


def _array_ring(items: list[Json], max_points: int | None) -> Points:
    _check_count(len(items), max_points)
    return _ring(read_pairs(items))


def _check_count(count: int, max_points: int | None) -> None:
    """Before the points are read: what is too large is not worth the work."""
    if max_points is not None and count > max_points:
        raise Unfit(f"polygon has {count} coordinate pairs, maximum is {max_points}")


def _ring(points: Points) -> Points:
    if len(points) < 4:
        raise Unfit(
            "polygon must have at least 4 coordinate pairs "
            "(3 unique vertices plus a closing repeat of the first vertex)"
        )
    if points[0] != points[-1]:
        raise Unfit("polygon must be closed (first and last coordinates must be identical)")
    return points


def _json_array(text: str, kind: str) -> list[Json]:
    try:
        value = parse(text.encode(), failed=f"invalid {kind} JSON array")
    except MalformedBody as why:
        raise Unfit(why.message) from None
    assert isinstance(value, list)  # noqa: S101 - JSON that starts with "[" is an array
    return value


def _unwrap(text: str) -> str:
    """Flat polygon text without its parentheses, which come as one outer pair or not at all."""
    if not text:
        raise Unfit("polygon coordinate string is empty")
    opened, closed = text.startswith("("), text.endswith(")")
    if opened and not closed:
        raise Unfit("polygon coordinate string has opening '(' but is missing the closing ')'")
    if closed and not opened:
        raise Unfit("polygon coordinate string has closing ')' but is missing the opening '('")
    inner = text[1:-1].strip() if opened else text
    if "(" in inner or ")" in inner:
        raise Unfit(
            "polygon coordinate string must have at most one outer pair of parentheses; "
            "nested '(' or ')' are not allowed"
        )
    if not inner:
        raise Unfit("polygon coordinate string is empty between parentheses")
    return inner


def _point(value: Json) -> Point:
    if isinstance(value, str):
        return _point_text(value)
    if isinstance(value, list):
        return read_pair(value)
    raise Unfit("point must be a two-element array [lat,lon] or a compatible string")


def _point_text(value: str) -> Point:
    text = value.strip()
    if not text:
        raise Unfit("Point coordinate string cannot be empty")
    if text.startswith("["):
        return read_pair(_json_array(text, POINT))
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1]
    parts = text.split(",", 2)
    if len(parts) < 2:
        raise Unfit("Point must be in 'lat,lon' format")
    if len(parts) > 2:
        raise Unfit("Point must contain exactly two values: 'lat,lon'")
    return check_finite(*read_texts(parts, "Invalid {axis} value: {text}"))
