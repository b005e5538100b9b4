"""From rows to notify requests: pure, and the inverse of what the source does.

A row is the columns of ``lake.layout.RECORD`` that are present. What only a stored notification has
(sequence, time, topic, box) is ignored. The server validates what it can; refused here is only what
cannot be put into a request at all.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import cast

import msgspec
import pyarrow as pa

from aviso_server.core.errors import AvisoError, MalformedBody
from aviso_server.core.fields.place import POINT_CLOUD, POLYGON
from aviso_server.core.geometry import Area
from aviso_server.core.json import Json, compact, parse
from aviso_server.lake import wkb
from aviso_server.pipeline.delivery.client import Rejected

INVALID_ROW = "INVALID_ROW"
"""Our own code, beside the server's: the row cannot be put into a request."""


@dataclass(frozen=True, slots=True)
class SinkRow:
    """One row as it came, so that it can be written down if it is not taken."""

    event_type: str | None
    identifier: Mapping[str, object] | None
    """Texts of a map column, or the values of a struct column."""
    payload: str | None
    """JSON text; None: no payload is sent."""
    geometry: bytes | None = None
    """WKB, longitude first."""
    polygon: str | None = None
    """The spelling of the polygon, where it matters."""
    key: str | None = None
    """From the column of idempotency keys."""
    problem: str | None = None
    """Why the source could not decode the stored message."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request object, ready to be sent, and the row it came from."""

    row: SinkRow
    key: str
    body: bytes
    """JSON, with its idempotency key."""


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """Why a row is not a notification: the server's message, or ours."""

    row: SinkRow
    key: str | None
    code: str
    message: str
    error: str = "Invalid Row"
    details: str | None = None
    field: str | None = None
    """The field, member or column that is wrong, where it is one."""

    @classmethod
    def by_server(cls, request: Request, why: Rejected) -> "RejectedRow":
        """What the server said about a request."""
        return cls(
            request.row, request.key, why.code, why.message, why.error, why.details, why.field
        )


class _Unfit(AvisoError):
    """Why a row cannot be put into a request."""


def rows_of(
    batch: pa.RecordBatch, *, event_type: str | None = None, key_column: str | None = None
) -> Iterator[SinkRow]:
    """The rows of a batch; ``event_type`` overrules the column of that name."""

    def column(name: str | None) -> Iterable[object]:
        if name is None or name not in batch.schema.names:
            return [None] * batch.num_rows
        return cast("list[object]", batch.column(name).to_pylist())

    types = [event_type] * batch.num_rows if event_type is not None else column("event_type")
    rest = ("payload", "geometry", "polygon", key_column, "problem")
    rows = zip(types, column("identifier"), *map(column, rest), strict=True)
    for kind, identifier, payload, geometry, polygon, key, problem in rows:
        yield SinkRow(
            cast("str | None", kind),
            _mapping(identifier),
            cast("str | None", payload),
            cast("bytes | None", geometry),
            cast("str | None", polygon),
            None if key is None else str(key),
            cast("str | None", problem),
        )


def request_of(row: SinkRow) -> Request | RejectedRow:
    """The request of a row, or why there is none."""
    try:
        members: dict[str, Json] = {"event_type": row.event_type, "identifier": _identifier(row)}
        if row.payload is not None:
            members["payload"] = _json(row.payload, "payload")
    except _Unfit as why:
        return RejectedRow(
            row, row.key, INVALID_ROW, why.message, details=why.details, field=why.field
        )
    key = content_key(members) if row.key is None else row.key
    return Request(row, key, msgspec.json.encode({**members, "idempotency_key": key}))


def content_key(members: Mapping[str, Json]) -> str:
    """The key of a request: the same for equal content, whatever the order of its keys."""
    digest = hashlib.blake2b(compact(dict(members)), digest_size=20).hexdigest()
    return f"content-{digest}"


def _identifier(row: SinkRow) -> dict[str, Json] | None:
    """The identifier with its place, as the server wants it."""
    if row.problem is not None:
        raise _Unfit(f"the stored message could not be decoded: {row.problem}")
    if row.identifier is None:
        return None
    values = {name: json_of(value) for name, value in row.identifier.items() if value is not None}
    cloud = values.get(POINT_CLOUD)
    if isinstance(cloud, str):
        # A map holds texts only, and a cloud has no spelling as text.
        values[POINT_CLOUD] = _json(cloud, POINT_CLOUD)
    place = _place(row)
    if place is not None:
        if values.keys() & {POLYGON, POINT_CLOUD}:
            raise _Unfit("the place is given twice: as a column and inside the identifier")
        values[place[0]] = place[1]
    return values


def _place(row: SinkRow) -> tuple[str, Json] | None:
    if row.geometry is None:
        return None if row.polygon is None else (POLYGON, row.polygon)
    try:
        place = wkb.decode(row.geometry, row.polygon)
    except ValueError as error:
        raise _Unfit(f"column 'geometry': {error}", field="geometry") from None
    points = cast("Json", place.points)
    if isinstance(place, Area):
        return POLYGON, points if row.polygon is None else row.polygon
    return POINT_CLOUD, points


def _json(text: str, name: str) -> Json:
    # Parsed rather than pasted: text that is no JSON would otherwise change the whole request.
    try:
        return parse(text.encode(), failed=f"column '{name}' is not JSON")
    except MalformedBody as why:
        raise _Unfit(why.message, field=name) from None


def _mapping(value: object) -> Mapping[str, object] | None:
    """A map comes out of Arrow as pairs, a struct as a dictionary."""
    if value is None or isinstance(value, dict):
        return value
    return dict(cast("Iterable[tuple[str, object]]", value))


def json_of(value: object) -> Json:
    """A value of a table, as a request has it."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list() | tuple():
            return [json_of(item) for item in value]
        case dict():
            return {str(name): json_of(item) for name, item in value.items()}
        case date():
            return value.isoformat()
        case bytes():
            return value.decode(errors="replace")
        case _:
            return str(value)
