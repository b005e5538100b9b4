"""From the identifier of a request to stored values (notify) or to a filter (watch, replay).

The order of the checks here decides which error a client sees first: unknown names, then the
declared fields in schema order.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

import msgspec

from aviso_server.core.constraint import Constraint
from aviso_server.core.errors import InvalidRequest
from aviso_server.core.fields.field import Field, ScalarField, scalar_text
from aviso_server.core.fields.place import PointCloudField, PolygonField, parse_point
from aviso_server.core.filter import Filter
from aviso_server.core.geometry import Geometry
from aviso_server.core.json import Json
from aviso_server.core.operation import Operation
from aviso_server.core.schema import Schema

if TYPE_CHECKING:
    from aviso_server.core.spatial import Spatial

Values = Mapping[str, Json]

_FILTER_POLYGON = PolygonField(name="polygon", required=False)


class Identifier(msgspec.Struct, frozen=True, gc=False):
    """What a notification is about."""

    values: Mapping[str, str]
    """Canonical text by field name, in name order."""
    geometry: Geometry | None = None


def refuse_point(identifier: Values) -> None:
    """A producer announces areas; ``point`` only asks for them."""
    if "point" in identifier:
        raise InvalidRequest(
            "identifier.point is only supported for watch/replay endpoints, not /notification",
            field="point",
        )


def check_spatial(identifier: Values) -> None:
    """At most one spatial filter, and a ``point`` that reads as one."""
    if "point" not in identifier:
        return
    if "polygon" in identifier:
        raise InvalidRequest(
            "Cannot specify both identifier.polygon and identifier.point. "
            "Provide only one spatial filter.",
            field="point",
        )
    _point(identifier["point"])


def read_identifier(schema: Schema, identifier: Values) -> Identifier:
    """The validated identifier of a notify request."""
    if schema.generic:
        return Identifier(
            {
                name: _generic(name, identifier[name], Operation.NOTIFY)
                for name in sorted(identifier)
            }
        )
    texts = schema.texts
    if schema.spatial is None and len(identifier) == len(texts):
        try:
            return Identifier({name: known[identifier[name]] for name, known in texts.items()})
        except (InvalidRequest, KeyError, TypeError):
            pass  # something is wrong, and what comes first in the schema is reported
    return _read_in_order(schema, identifier)


def _read_in_order(schema: Schema, identifier: Values) -> Identifier:
    """Field by field as the schema has them, so that the first fault is raised."""
    _refuse_unknown(identifier, schema.by_name.keys(), Operation.NOTIFY)
    values: dict[str, str] = {}
    geometry: Geometry | None = None
    for field in schema.fields:
        name = field.name
        if name not in identifier:
            raise _missing(name, Operation.NOTIFY)
        value = identifier[name]
        if isinstance(value, dict):
            raise _no_constraint(name)
        try:
            if isinstance(field, ScalarField):
                values[name] = schema.texts[name][scalar_text(name, value)]
            else:
                geometry = field.parse(_not_null(name, value))
        except InvalidRequest as error:
            error.field = name
            raise
    return Identifier(dict(sorted(values.items())), geometry)


def compile_filter(schema: Schema, identifier: Values, operation: Operation) -> Filter:
    """The filter that a watch or replay request asks for."""
    if schema.generic:
        if "point" in identifier:
            raise InvalidRequest("Field 'point' is not supported without schema", field="point")
        return Filter(tuple((n, _generic(n, identifier[n], operation)) for n in sorted(identifier)))
    _refuse_unknown(identifier, schema.by_name.keys() | _extras(schema), operation)
    if isinstance(schema.spatial, PointCloudField):
        _refuse_cloud_filters(identifier)
    exact: list[tuple[str, str]] = []
    constraints: list[Constraint] = []
    spatial: Spatial | None = None
    for field in schema.fields:
        name = field.name
        if not isinstance(field, ScalarField):
            spatial = _spatial(field, identifier, operation)
        elif name in identifier:
            value = identifier[name]
            try:
                if isinstance(value, dict):
                    constraints.append(field.constrain(value))
                else:
                    exact.append((name, field.canonical(scalar_text(name, value))))
            except InvalidRequest as error:
                error.field = name
                raise
        elif field.required:
            raise _missing(name, operation)
    constraints.sort(key=lambda constraint: constraint.field)
    return Filter(tuple(sorted(exact)), tuple(constraints), spatial)


def _refuse_unknown(identifier: Values, known: AbstractSet[str], operation: Operation) -> None:
    unknown = identifier.keys() - known
    if unknown:
        name = min(unknown)
        raise InvalidRequest(
            f"Unknown field '{name}' provided for {operation.value} operation", field=name
        )


def _extras(schema: Schema) -> set[str]:
    """Names a filter may use although the schema does not declare them."""
    if schema.spatial is None:
        return set()
    # On a point-cloud schema ``point`` gets its own, clearer refusal.
    return {"point", "polygon"} if isinstance(schema.spatial, PointCloudField) else {"point"}


def _refuse_cloud_filters(identifier: Values) -> None:
    if "point_cloud" in identifier:
        raise InvalidRequest(
            "identifier.point_cloud is only supported for notify operation; "
            "use identifier.polygon for watch and replay",
            field="point_cloud",
        )
    if "point" in identifier:
        raise InvalidRequest(
            "identifier.point is not supported for point-cloud schemas", field="point"
        )


def _spatial(field: Field, identifier: Values, operation: Operation) -> "Spatial | None":
    """The spatial test, checked in the spatial field's place in schema order."""
    # Loads numpy, for which a server without spatial filters has no use.
    from aviso_server.core.spatial import Contains, Intersects  # noqa: PLC0415

    if "polygon" in identifier:
        value = identifier["polygon"]
        if isinstance(value, dict):
            raise InvalidRequest(
                "Field 'polygon' does not support constraint filters; expected scalar value",
                field="polygon",
            )
        # A schema of clouds has no polygon field to say how large one may be.
        own = field if isinstance(field, PolygonField) else _FILTER_POLYGON
        return Intersects(own.parse(_not_null("polygon", value)))
    if "point" in identifier:
        return Contains(*_point(identifier["point"]))
    if field.required:
        raise _missing(field.name, operation)
    return None


def _point(value: Json) -> tuple[float, float]:
    if value is None:
        raise InvalidRequest(
            "identifier.point must be a scalar value: Field 'point' cannot be null", field="point"
        )
    if isinstance(value, dict):
        raise InvalidRequest(
            "identifier.point must be a scalar value: "
            "Field 'point' constraint object is not allowed in this operation",
            field="point",
        )
    return parse_point(value)


def _generic(name: str, value: Json, operation: Operation) -> str:
    """The text of a field of an event type without schema."""
    if isinstance(value, dict):
        if operation is Operation.NOTIFY:
            raise _no_constraint(name)
        raise InvalidRequest(
            f"Field '{name}' constraint object is not supported without schema", field=name
        )
    text = scalar_text(name, value)
    if not text:
        raise InvalidRequest(f"Field '{name}' cannot be empty", field=name)
    return text


def _not_null(name: str, value: Json) -> Json:
    if value is None:
        raise InvalidRequest(f"Field '{name}' cannot be null", field=name)
    return value


def _no_constraint(name: str) -> InvalidRequest:
    return InvalidRequest(
        f"Field '{name}' constraint object is not supported for notify operation", field=name
    )


def _missing(name: str, operation: Operation) -> InvalidRequest:
    return InvalidRequest(
        f"Required field '{name}' missing for {operation.value} operation", field=name
    )
