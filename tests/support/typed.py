"""Event types of every shape, with notifications, for tests of typed tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from math import isfinite

from hypothesis import strategies as st
from support.lake import BEGIN_NS

from aviso_server.core.fields.field import Field, ScalarField
from aviso_server.core.fields.moment import DateField, TimeField, read_date
from aviso_server.core.fields.number import FloatField, IntField
from aviso_server.core.fields.place import PointCloudField, PolygonField
from aviso_server.core.fields.text import EnumField, ExpverField, StringField
from aviso_server.core.geometry import Area, Cloud, Geometry
from aviso_server.core.notification import Notification, Record
from aviso_server.core.numeral import parse_float, parse_int
from aviso_server.core.schema import Schema
from aviso_server.lake import wkb
from aviso_server.lake.layout import Place
from aviso_server.lake.snapshot import look
from aviso_server.lake.typed.columns import TypedColumn
from aviso_server.lake.typed.update import Updated, update_table

Row = Mapping[str, object]
"""A row of a typed table as plain Python."""

_NAMES = (
    "step",
    "Step",
    "time",
    "date",
    "a b",
    "day",
    "sequence",
    "été",
    "x_field",
    "é;(=)",
    "q'\"",
)
"""Some are those of other columns, differ only by case, or are not allowed in Delta."""

_ODD = (
    "",
    " ",
    "0",
    "-0",
    "+7",
    "007",
    "1e400",
    "nan",
    "9" * 19,
    "2026-02-30",
    "20260228",
    "2026-059",
)
"""Texts that some types can read; stored by an older schema."""

_texts = st.one_of(
    st.sampled_from(_ODD),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40),
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.dates().map(lambda day: day.strftime("%Y%m%d").zfill(8)),
)
_degrees = st.tuples(st.floats(-90, 90), st.floats(-180, 180))
_areas = st.lists(_degrees, min_size=3, max_size=5).map(lambda p: Area.of((*p, p[0])))
_clouds = st.lists(_degrees, min_size=1, max_size=5).map(lambda points: Cloud(tuple(points)))


@dataclass(frozen=True)
class Drawn:
    """An event type with what is stored of it."""

    schema: Schema
    records: tuple[Record, ...]


def _field(name: str, kind: int) -> Field:
    about = f"What '{name}' is"
    made: tuple[Field, ...] = (
        StringField(name=name, required=True, max_length=40),
        EnumField(name=name, required=False, values=("North", "south")),
        ExpverField(name=name, required=False, default="0001"),
        DateField(name=name, required=False),
        DateField(name=name, required=True, canonical_format="%Y-%m-%d", description=about),
        TimeField(name=name, required=False, description=about),
        IntField(name=name, required=True, range=(0, 10)),
        FloatField(name=name, required=False, range=(0.0, 1.0), description=about),
    )
    return made[kind]


@st.composite
def event_types(draw: st.DrawFn, *, name: str = "drawn") -> Drawn:
    """Any fields, with or without a place; texts that fit today's types, and such that do not."""
    kinds = draw(st.dictionaries(st.sampled_from(_NAMES), st.integers(0, 7), max_size=5))
    fields = [_field(field, kind) for field, kind in kinds.items()]
    where: st.SearchStrategy[Geometry | None] = st.none()
    if places := draw(st.sampled_from([None, "polygon", "point_cloud"])):
        area = places == "polygon"
        fields.append(
            PolygonField(name=places, required=True)
            if area
            else PointCloudField(name=places, required=True)
        )
        where = st.one_of(st.none(), _areas if area else _clouds)
    order = draw(st.permutations(list(kinds)))
    schema = Schema(name, tuple(fields), base=name, key_order=tuple(order[:3]) or None)
    count = draw(st.integers(0, 12))
    sequence, at_ns, records = 0, BEGIN_NS, []
    for _ in range(count):
        sequence += draw(st.integers(1, 3))
        at_ns += draw(st.integers(0, 30_000_000_000_000))
        identifier = {field: draw(_texts) for field in sorted(kinds) if draw(st.integers(0, 9)) < 9}
        payload = draw(st.sampled_from([b"null", b'{"a":"\xc3\xa9"}', b'[1,2.5,"x"]']))
        records.append(
            Record(sequence, at_ns, Notification(name, (name,), identifier, draw(where), payload))
        )
    return Drawn(schema, tuple(records))


def expected(records: Sequence[Record], columns: Sequence[TypedColumn]) -> list[dict[str, object]]:
    """What a typed table must hold of them, by sequence; told from the records by core alone."""
    return [{column.name: _cell(item, column) for column in columns} for item in records]


def _cell(record: Record, column: TypedColumn) -> object:
    item, moment = record.notification, _EPOCH + timedelta(microseconds=record.stored_at_ns // 1000)
    place = item.geometry
    if column.field is not None:
        return _value(item.identifier.get(column.field), column.type)
    if column.name == "geometry":
        return None if place is None else wkb.encode(place)
    if column.name[:4] in ("min_", "max_"):
        return None if place is None else getattr(place.box, column.name)
    known: dict[str, object] = {
        "sequence": record.sequence,
        "id": f"{item.event_type}@{record.sequence}",
        "time": moment,
        "topic": item.topic,
        "payload": item.payload.decode(),
        "day": moment.date(),
    }
    return known[column.name]


def _value(text: str | None, kind: str) -> int | float | date | str | None:
    if text is None or kind == "string":
        return text
    if kind == "long":
        return parse_int(text)
    if kind == "date":
        return read_date(text)
    value = parse_float(text)
    return value if value is not None and isfinite(value) else None


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def updated(place: Place, schema: Schema) -> Updated:
    """The typed table brought up to the lake."""
    return update_table(place, schema, look(place).of(schema.event_type))


def evolved(schema: Schema, *fields: Field) -> Schema:
    """The event type with other fields."""
    return replace(schema, fields=fields, key_order=None)


def scalar_names(schema: Schema) -> list[str]:
    """The fields that are not places."""
    return [field.name for field in schema.fields if isinstance(field, ScalarField)]
