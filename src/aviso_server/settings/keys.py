"""Which keys the configuration knows, derived from the models themselves."""

import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

from pydantic import JsonValue

from aviso_server.core.json import Json
from aviso_server.settings.faults import Fault, Warning_, unknown_key
from aviso_server.settings.model import Document, Section


def knows(path: Sequence[str]) -> bool:
    """True if a path such as ``application, port`` leads to a setting."""
    return bool(path) and shape_at(path) is not None


def shape_at(path: Sequence[str]) -> object | None:
    """The type of the setting at a path, or None if there is no such setting."""
    shape: object | None = Document
    for name in path:
        shape = inside(shape, name)
    return shape


def is_section(shape: object) -> TypeGuard[type[Section]]:
    """True for a block of settings, as opposed to a map or a single value."""
    return isinstance(shape, type) and issubclass(shape, Section)


def strays(raw: Mapping[str, Json]) -> Iterator[Fault | Warning_]:
    """Every key without a setting: a fault in closed sections, else a warning."""
    yield from _strays(Document, raw, "")


def inside(shape: object, name: str) -> object | None:
    """The type of what a section or map holds under a name, or None."""
    if is_section(shape):
        field = shape.model_fields.get(name)
        return None if field is None else _shape(field.annotation)
    if typing.get_origin(shape) is dict and name:
        return _shape(typing.get_args(shape)[1])
    # Identifier fields are free-form here: the field registry knows their options.
    return shape if shape is JsonValue and name else None


def _strays(section: type[Section], raw: Mapping[str, Json], at: str) -> Iterator[Fault | Warning_]:
    unknown = [key for key in raw if key not in section.model_fields and key not in section.retired]
    if unknown and section.closed:
        yield Fault(at, f"unknown field(s): {', '.join(unknown)}")
    elif unknown:
        for key in unknown:
            where = f"{at}.{key}".lstrip(".")
            yield unknown_key(where, f"unknown setting '{where}' is ignored")
    for key, field in section.model_fields.items():
        yield from _below(_shape(field.annotation), raw.get(key), f"{at}.{key}".lstrip("."))


def _below(shape: object, value: Json, at: str) -> Iterator[Fault | Warning_]:
    if not isinstance(value, dict):
        return
    if is_section(shape):
        yield from _strays(shape, value, at)
    elif typing.get_origin(shape) is dict:
        inner = _shape(typing.get_args(shape)[1])
        for key, item in value.items():
            yield from _below(inner, item, f"{at}.{key}")


def _shape(annotation: object) -> object:
    """The section, map or scalar type behind ``X | None`` and ``Annotated``."""
    if typing.get_origin(annotation) in {typing.Union, types.UnionType}:
        annotation = next(
            item for item in typing.get_args(annotation) if item is not types.NoneType
        )
    if typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    return annotation
