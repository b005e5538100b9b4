"""Rows of tables as claims: which column is which part of a notification. Pure.

Without a mapping a column has the name of its part: ``event_type``, ``identifier`` (a map, a struct
or JSON text) or ``identifier.NAME``, ``payload`` (JSON text), ``time`` or ``time_ns``, ``sequence``
or ``id``, ``geometry`` and ``polygon`` as the lake has them. A column with the name of a field of
some event type is that field of the identifier.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from aviso_server.core.errors import AvisoError
from aviso_server.core.fields.place import POINT_CLOUD, POLYGON
from aviso_server.core.geometry import Area
from aviso_server.core.json import UNREADABLE, Json, compact
from aviso_server.lake import wkb
from aviso_server.pipeline.ingest.claim import BadClaim, Claim, identity, sequence_of, time_of
from aviso_server.pipeline.sink.request import json_of

PARTS = ("event_type", "identifier", "payload", "time", "time_ns", "sequence", "id",
         "geometry", "polygon")  # fmt: skip
FIELD = "identifier."


class BadMapping(AvisoError):
    """A mapping of columns that makes no sense; the message says why."""


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """Which columns are which parts."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """Column by part."""
    event_type: str | None = None
    """Of every row."""
    fields: frozenset[str] = frozenset()
    """Names of identifier fields that a column may have."""


def read_mapping(text: str | None, *, event_type: str | None, fields: Iterable[str]) -> ColumnMap:
    """A mapping such as ``event_type=type,identifier.class=klasse``; BadMapping."""
    columns: dict[str, str] = {}
    for item in (text or "").split(","):
        if not item.strip():
            continue
        part, equals, column = (piece.strip() for piece in item.partition("="))
        named = part in PARTS or (part.startswith(FIELD) and part != FIELD)
        if not equals or not column or not named:
            raise BadMapping(
                f"'{item.strip()}' maps nothing: write PART=COLUMN, where a part is one of "
                f"{', '.join(PARTS)} and {FIELD}NAME"
            )
        if part in columns:
            raise BadMapping(f"'{part}' is mapped twice")
        columns[part] = column
    if event_type is not None and "event_type" in columns:
        raise BadMapping("the event type is given for all rows and mapped to a column: give one")
    return ColumnMap(columns, event_type, frozenset(fields))


def resolve(mapping: ColumnMap, columns: Iterable[str]) -> dict[str, str]:
    """Part by part the column that has it, of the columns there are; BadMapping."""
    there = list(columns)
    if missing := sorted(set(mapping.columns.values()) - set(there)):
        raise BadMapping(
            f"there is no column '{missing[0]}'; the columns are {', '.join(there) or 'none'}"
        )
    found = dict(mapping.columns)
    free = [name for name in there if name not in found.values()]
    for name in free:
        if name in PARTS or name.startswith(FIELD):
            found.setdefault(name, name)
    if "identifier" not in found:
        for name in free:
            if name in mapping.fields and name not in PARTS:
                found.setdefault(f"{FIELD}{name}", name)
    if mapping.event_type is not None:
        found.pop("event_type", None)
    elif "event_type" not in found and "id" not in found:
        raise BadMapping("no column says the event type: map one, or give one for all rows")
    if not any(part == "identifier" or part.startswith(FIELD) for part in found):
        raise BadMapping("no column is part of an identifier: map some, as identifier.NAME=COLUMN")
    return found


def claims(
    rows: Iterable[Mapping[str, object]], columns: Mapping[str, str], event_type: str | None
) -> Iterator[Claim | BadClaim]:
    """One claim for each row; ``columns`` is what ``resolve`` returned."""
    for row in rows:
        try:
            yield _claim({part: row.get(name) for part, name in columns.items()}, event_type)
        except BadClaim as error:
            yield error


def rows_of(batch: pa.RecordBatch, parts: Mapping[str, str]) -> list[dict[str, object]]:
    """Rows of an Arrow batch, with times to the nanosecond."""
    columns: dict[str, list[object]] = {}
    for part, name in parts.items():
        column = batch.column(name)
        if part == "time" and pa.types.is_timestamp(column.type):
            texts = pc.cast(column.cast(pa.timestamp("ns", column.type.tz)), pa.int64())
            columns[name] = [None if ns is None else _Nanoseconds(ns) for ns in texts.to_pylist()]
        else:
            columns[name] = column.to_pylist()
    names = list(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


class _Nanoseconds(int):
    """A time since the epoch, as distinct from a typed number."""


def _claim(row: Mapping[str, object], event_type: str | None) -> Claim:
    named, sequence = identity(json_of(row.get("id")))
    kind = event_type if event_type is not None else row.get("event_type") or named
    number = sequence_of(json_of(row.get("sequence")))
    moment, exact = row.get("time"), row.get("time_ns")
    if isinstance(moment, _Nanoseconds):
        moment_ns: int | None = int(moment)
    else:
        moment_ns = time_of(json_of(moment) if moment != "" else None)
    if exact is not None and exact != "":
        if not str(exact).isdigit() or int(str(exact)) >= 2**63:
            raise BadClaim("time_ns", "time_ns must be nanoseconds since the epoch")
        moment_ns = int(str(exact))
    payload = row.get("payload")
    if payload is not None:  # JSON text unchanged; values of other columns as JSON
        payload = payload.encode() if isinstance(payload, str) else compact(json_of(payload))
    return Claim(
        None if kind is None else msgspec.json.encode(str(kind)),
        compact(_identifier(row)),
        payload,
        {},
        sequence if number is None else number,
        moment_ns,
    )


def _identifier(row: Mapping[str, object]) -> dict[str, Json]:
    values = _whole(row.get("identifier"))
    for part, value in row.items():
        if part.startswith(FIELD) and value is not None:
            values[part.removeprefix(FIELD)] = json_of(value)
    data, text = row.get("geometry"), row.get("polygon")
    if isinstance(data, bytes):
        try:
            place = wkb.decode(data, text if isinstance(text, str) else None)
        except ValueError as error:
            raise BadClaim("geometry", f"column 'geometry': {error}") from None
        points: Json = [list(point) for point in place.points]
        if isinstance(place, Area):
            values[POLYGON] = text if isinstance(text, str) else points
        else:
            values[POINT_CLOUD] = points
    elif isinstance(text, str):
        values[POLYGON] = text
    return values


def _whole(value: object) -> dict[str, Json]:
    """The identifier as a map, a struct, or JSON text."""
    if value is None:
        return {}
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except UNREADABLE as error:
            raise BadClaim("identifier", f"the identifier is not JSON: {error}") from None
    elif isinstance(value, list):
        value = dict(value)  # the pairs of a map
    if not isinstance(value, dict):
        raise BadClaim("identifier", "the identifier is not an object")
    return {str(name): json_of(item) for name, item in value.items() if item is not None}
