"""The columns of a typed table: from a schema to names and types, from archived rows to values.

    IntHandler                          long
    FloatHandler                        double
    DateHandler                         date
    TimeHandler                         string, HHMM: Delta has no type for a time of day
    EnumHandler, StringHandler, ...     string
    PolygonHandler, PointCloudHandler   geometry (WKB) and the four columns of its box

A column never changes its type. What a field becomes after its type changed is in a column of its
own beside the old one (docs/decisions/0018-typed-tables.md). A text that does not read as the type
of its column is null there; the notifications table has it as it was.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import date
from math import isfinite

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import Field as DeltaField
from deltalake.schema import PrimitiveType

from aviso_server.core.fields.field import Field, ScalarField
from aviso_server.core.fields.moment import DateField, read_date
from aviso_server.core.fields.number import FloatField, IntField
from aviso_server.core.numeral import parse_float, parse_int
from aviso_server.core.schema import Schema
from aviso_server.lake.layout import BOX, NOTIFICATION_TABLE, TIME

SUFFIX = "_field"
"""Appended to the name of a field that is the name of another column already."""

SOURCE = "aviso.field"
"""The entry of a column's metadata that names the field it holds."""

COMMENT = "comment"
"""The entry that Delta's readers show."""

DAY = "day"
"""The partition column."""

ARROW: Mapping[str, pa.DataType] = {
    "long": pa.int64(),
    "double": pa.float64(),
    "date": pa.date32(),
    "string": pa.string(),
    "binary": pa.binary(),
    "timestamp": TIME,
}
"""Delta's words for types."""

_NOT_IN_NAMES = re.compile(r"[ ,;{}()\n\t=]")
"""What Delta allows in no name of a column."""


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """A column of a typed table."""

    name: str
    type: str
    """Delta's word."""
    comment: str = ""
    nullable: bool = True
    field: str | None = None
    """The identifier field that it holds."""

    def delta(self) -> DeltaField:
        """The column as Delta declares it."""
        about = {COMMENT: self.comment} if self.comment else {}
        if self.field is not None:
            about[SOURCE] = self.field
        return DeltaField(
            self.name, PrimitiveType(self.type), nullable=self.nullable, metadata=about
        )


_BEFORE = (
    TypedColumn("sequence", "long", "Position within the event type", nullable=False),
    TypedColumn("id", "string", "Id of the CloudEvent: event_type@sequence", nullable=False),
    TypedColumn("time", "timestamp", "When it was stored (UTC)", nullable=False),
    TypedColumn("topic", "string", "The topic as shown to people"),
)
_AFTER = (
    TypedColumn("payload", "string", "The payload as compact JSON"),
    TypedColumn(DAY, "date", "UTC day of time", nullable=False),
)
_PLACE = (
    TypedColumn("geometry", "binary", "The place as WKB, longitude first"),
    *(TypedColumn(name, "double", "Box of the place, degrees") for name in BOX),
)


def columns_of(schema: Schema) -> list[TypedColumn]:
    """The columns of an event type, as of a table that is made now."""
    names = column_names(schema, NOTIFICATION_TABLE.names)
    fields = [
        TypedColumn(names[item.name], _type(item), item.description or "", field=item.name)
        for item in schema.fields
        if item.name in names
    ]
    places = _PLACE if schema.spatial is not None else ()
    return [*_BEFORE, *fields, *places, *_AFTER]


def column_names(schema: Schema, taken: Iterable[str]) -> dict[str, str]:
    """The column of each field that gets one, in schema order.

    Spark does not distinguish names by case, and Delta does not allow every character.
    """
    used = {name.lower() for name in taken}
    names = {}
    for field in schema.fields:
        if not isinstance(field, ScalarField):
            continue
        names[field.name] = _free(_NOT_IN_NAMES.sub("_", field.name), used)
        used.add(names[field.name].lower())
    return names


def fit(columns: Sequence[TypedColumn], known: Sequence[DeltaField]) -> list[TypedColumn]:
    """The columns with the names that they have, or get, in a table that is there.

    A field stays in the column that has held it with this type; otherwise it gets one whose name is
    not used yet, with its type in the name if only that is new.
    """
    used = {item.name.lower() for item in known}
    found: list[TypedColumn] = []
    for column in columns:
        name = column.name
        if column.field is not None:
            held = [item for item in known if item.metadata.get(SOURCE) == column.field]
            same = [item.name for item in held if item.type == PrimitiveType(column.type)]
            wanted = f"{name}_{column.type}" if held else name
            name = same[0] if same else _free(wanted, used)
            used.add(name.lower())
        found.append(replace(column, name=name))
    return found


def typed_rows(rows: pa.Table, columns: Sequence[TypedColumn]) -> tuple[pa.Table, dict[str, int]]:
    """Rows of the notifications table as those of a typed one, and how many texts of each column
    did not fit its type."""
    identifier = rows["identifier"].combine_chunks()
    arrays: list[pa.Array] = []
    unfit: dict[str, int] = {}
    for column in columns:
        if column.field is not None:
            texts = pc.map_lookup(identifier, pa.scalar(column.field), "first").cast(pa.string())
            arrays.append(_values(texts, column.type))
            if missed := arrays[-1].null_count - texts.null_count:
                unfit[column.name] = missed
        elif column.name == DAY:
            arrays.append(rows["time"].cast(pa.date32()))
        else:
            arrays.append(rows[column.name])
    return pa.table(arrays, schema=arrow_schema(columns)), unfit


def arrow_schema(columns: Iterable[TypedColumn]) -> pa.Schema:
    """The columns as Arrow has them."""
    return pa.schema([pa.field(c.name, ARROW[c.type], nullable=c.nullable) for c in columns])


def sort_order(schema: Schema, columns: Sequence[TypedColumn]) -> list[tuple[str, str]]:
    """How rows are ordered within a file: by the fields of the topic, then by sequence."""
    names = {item.field: item.name for item in columns if item.field is not None}
    keys = [names[field] for field in schema.token_fields or () if field in names]
    return [(name, "ascending") for name in (*keys, "sequence")]


def _type(field: Field) -> str:
    match field:
        case IntField():
            return "long"
        case FloatField():
            return "double"
        case DateField():
            return "date"
        case _:
            return "string"


def _values(texts: pa.StringArray, kind: str) -> pa.Array:
    """The values that the texts spell; each distinct one is read once, by the rules of core."""
    if kind == "string":
        return texts
    coded = texts.dictionary_encode()
    read = _READERS[kind]
    values = pa.array([read(text) for text in coded.dictionary.to_pylist()], ARROW[kind])
    return values.take(coded.indices)


def _double(text: str) -> float | None:
    value = parse_float(text)
    # Zero has one sign, as in comparisons; Parquet's statistics would have two.
    return value + 0.0 if value is not None and isfinite(value) else None


_READERS: Mapping[str, Callable[[str], int | float | date | None]] = {
    "long": parse_int,
    "double": _double,
    "date": read_date,
}


def _free(name: str, used: AbstractSet[str]) -> str:
    while name.lower() in used:
        name += SUFFIX
    return name
