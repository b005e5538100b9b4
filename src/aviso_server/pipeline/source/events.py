"""CloudEvents of a replay back into records, without losing a bit. Pure."""

from typing import TYPE_CHECKING

import msgspec

from aviso_server.core.errors import InvalidRequest
from aviso_server.core.fields.place import POINT_CLOUD, POLYGON, PointCloudField, parse_polygon
from aviso_server.core.geometry import Cloud, Geometry
from aviso_server.core.json import UNREADABLE
from aviso_server.core.moment import time_ns
from aviso_server.core.notification import Entry, Notification, Record, Unreadable
from aviso_server.core.schema import Schema

if TYPE_CHECKING:
    from aviso_server.core.json import Json
else:
    Json = object  # msgspec cannot build a decoder for a recursive alias


class _Data(msgspec.Struct):
    identifier: dict[str, Json]
    payload: msgspec.Raw = msgspec.Raw(b"null")


class _Event(msgspec.Struct):
    """The members that hold information; the rest is the same for all or says it again."""

    sequence: int
    time: str
    data: _Data


_DECODER = msgspec.json.Decoder(_Event)


def record_of(schema: Schema, text: bytes) -> Entry:
    """The record that was rendered as this CloudEvent; ValueError when it is none."""
    try:
        event = _DECODER.decode(text)
        at = time_ns(event.time)
    except (*UNREADABLE, ValueError) as error:
        raise ValueError(f"not a notification: {error}") from None
    values = event.data.identifier
    try:
        place = _place(schema, values)
    except InvalidRequest as why:
        return Unreadable(event.sequence, at, schema.event_type, why.message)
    texts = {name: value for name, value in values.items() if isinstance(value, str)}
    # A copy: the payload would keep the whole frame in memory.
    payload = bytes(event.data.payload)
    return Record(event.sequence, at, Notification(schema.event_type, (), texts, place, payload))


def _place(schema: Schema, values: "dict[str, Json]") -> Geometry | None:
    """Take the place out of an identifier, where the schema has one."""
    if schema.spatial is None:
        return None
    if isinstance(schema.spatial, PointCloudField):
        points = values.pop(POINT_CLOUD, None)
        return None if points is None else Cloud(_points(points))
    shown = values.pop(POLYGON, None)
    return None if shown is None else parse_polygon(POLYGON, shown)


def _points(value: "Json") -> tuple[tuple[float, float], ...]:
    try:
        return tuple((lat, lon) for lat, lon in msgspec.convert(value, list[tuple[float, float]]))
    except msgspec.ValidationError as why:
        raise InvalidRequest(str(why)) from None
