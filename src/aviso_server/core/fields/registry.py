"""From a field definition of the configuration to a field.

Types are strict inside a definition, except in ``description``: a quoted number in a range is more
likely a mistake than intended. All faults of one definition are collected and raised together.
"""

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias, TypedDict, TypeVar

from aviso_server.core.errors import AvisoError
from aviso_server.core.fields.field import Field
from aviso_server.core.fields.moment import DATE_FORMATS, DateField, TimeField
from aviso_server.core.fields.number import FloatField, IntField
from aviso_server.core.fields.place import (
    MAX_POINTS,
    POINT,
    POINT_CLOUD,
    POLYGON,
    PointCloudField,
    PolygonField,
)
from aviso_server.core.fields.text import EnumField, ExpverField, StringField
from aviso_server.core.json import Json
from aviso_server.core.numeral import INT_MAX, INT_MIN, to_double

Fault: TypeAlias = tuple[str, str]
"""Path inside the definition (empty for the whole of it) and what is wrong there."""


_N = TypeVar("_N", int, float)


class _Base(TypedDict):
    """What every field has."""

    name: str
    required: bool
    description: str | None


class FieldFaults(AvisoError):
    """Everything wrong with one field definition."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("; ".join(message for _, message in faults))
        self.faults = faults


def build(event_type: str, name: str, spec: Mapping[str, Json]) -> Field:
    """The field a definition describes, or FieldFaults."""
    definition = _Definition(event_type, name, spec)
    field = definition.field()
    if field is None or definition.faults:
        raise FieldFaults(definition.faults)
    return field


class _Definition:
    """One definition being read: hands out checked options and gathers what is wrong.

    A reader that finds a fault notes it and returns a harmless value; ``build`` discards the field
    if anything was noted.
    """

    def __init__(self, event_type: str, name: str, spec: Mapping[str, Json]) -> None:
        self.name = name
        self.faults: list[Fault] = []
        self._event_type = event_type
        self._spec = spec

    def field(self) -> Field | None:
        """The field, or None where not even its type is known."""
        word = self._spec.get("type")
        required = self._required()
        description = self._description()
        if not isinstance(word, str) or word not in _TYPES:
            self._note_type(word)
            return None
        self._check_name(word)
        options, make = _TYPES[word]
        known = {"type", "required", "description", *options}
        unknown = [key for key in self._spec if key not in known]
        if unknown:
            self.note("", f"unknown field(s): {', '.join(unknown)}")
        return make(self, _Base(name=self.name, required=required, description=description))

    def note(self, path: str, message: str) -> None:
        """Gather one fault."""
        self.faults.append((path, message))

    def rule(self, path: str, words: str) -> None:
        """Gather a broken rule."""
        self.note(path, f"Schema '{self._event_type}' identifier '{self.name}' {words}")

    def integer(self, path: str) -> int | None:
        """An optional integer; a boolean is none."""
        value = self._spec.get(path)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        self.note(path, "expected an integer")
        return None

    def text(self, path: str) -> str | None:
        """An optional text."""
        value = self._spec.get(path)
        if value is None or isinstance(value, str):
            return value
        self.note(path, "expected a string")
        return None

    def words(self, path: str) -> tuple[str, ...]:
        """A mandatory list of texts."""
        if path not in self._spec:
            self.note(path, f"missing field `{path}`")
            return ()
        value = self._spec[path]
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.note(path, "expected a list of strings")
            return ()
        words = tuple(item for item in value if isinstance(item, str))
        self._check_words(path, words)
        return words

    def int_range(self) -> tuple[int, int] | None:
        """An optional pair of signed 64-bit integers."""
        pair = self._pair("integers", _whole)
        return None if pair is None else self._ordered(pair)

    def float_range(self) -> tuple[float, float] | None:
        """An optional pair of numbers, integers among them."""
        pair = self._pair("numbers", _number)
        return None if pair is None else self._ordered(pair)

    def _pair(self, kind: str, read: Callable[[Json], _N | None]) -> tuple[_N, _N] | None:
        value = self._spec.get("range")
        if value is None:
            return None
        if isinstance(value, list) and len(value) == 2:
            low, high = map(read, value)
            if low is not None and high is not None:
                return low, high
        self.note("range", f"expected a list of two {kind}")
        return None

    def _ordered(self, pair: tuple[_N, _N]) -> tuple[_N, _N]:
        if not (all(map(math.isfinite, pair)) and pair[0] <= pair[1]):
            self.rule("range", "range must be finite with min <= max")
        return pair

    def _required(self) -> bool:
        value = self._spec.get("required")
        if isinstance(value, bool):
            return value
        self.note(
            "required",
            "expected a boolean" if "required" in self._spec else "missing field `required`",
        )
        return False

    def _description(self) -> str | None:
        value = self._spec.get("description")
        match value:
            case bool():
                return "true" if value else "false"
            case None | str():
                return value
            case int() | float():
                return str(value)
        self.note("description", "expected a string")
        return None

    def _note_type(self, word: Json) -> None:
        known = ", ".join(_TYPES)
        if "type" not in self._spec:
            self.note("type", "missing field `type`")
        elif isinstance(word, str):
            self.note("type", f"unknown type `{word}`, expected one of: {known}")
        else:
            self.note("type", f"expected one of: {known}")

    def _check_name(self, word: str) -> None:
        """Spatial handlers and their names belong together."""
        for handler, own in ((PolygonField.type, POLYGON), (PointCloudField.type, POINT_CLOUD)):
            if word == handler and self.name != own:
                self.note(
                    "type",
                    f"Schema '{self._event_type}' {handler} must use the identifier name "
                    f"'{own}', got '{self.name}'",
                )
                return
            if word == handler:
                return
        if self.name in (POINT, POLYGON, POINT_CLOUD):
            self.rule("", "is reserved")

    def _check_words(self, path: str, words: tuple[str, ...]) -> None:
        if not words:
            self.rule(path, f"{path} must not be empty")
        if "" in words:
            self.rule(path, f"{path} must not contain an empty value")
        seen: set[str] = set()
        for word in words:
            if word and word.lower() in seen:
                self.rule(path, f"{path} contain '{word}' twice")
            seen.add(word.lower())


def _whole(item: Json) -> int | None:
    if isinstance(item, bool) or not isinstance(item, int):
        return None
    return item if INT_MIN <= item <= INT_MAX else None


def _number(item: Json) -> float | None:
    if isinstance(item, bool) or not isinstance(item, int | float):
        return None
    return to_double(item)


def _string(definition: _Definition, base: _Base) -> Field:
    max_length = definition.integer("max_length")
    if max_length is not None and max_length < 1:
        definition.rule("max_length", "max_length must be greater than zero")
    return StringField(**base, max_length=max_length)


def _date(definition: _Definition, base: _Base) -> Field:
    wanted = definition.text("canonical_format")
    if wanted is None:
        return DateField(**base)
    if wanted not in DATE_FORMATS:
        definition.rule(
            "canonical_format",
            f"canonical_format '{wanted}' is not supported; use {' or '.join(DATE_FORMATS)}",
        )
    return DateField(**base, canonical_format=wanted)


def _expver(definition: _Definition, base: _Base) -> Field:
    default = definition.text("default")
    if default == "":
        definition.rule("default", "default must not be empty")
    return ExpverField(**base, default=default)


def _cloud(definition: _Definition, base: _Base) -> Field:
    limit = _max_points(definition, least=1)
    return PointCloudField(**base) if limit is None else PointCloudField(**base, max_points=limit)


def _max_points(definition: _Definition, *, least: int) -> int | None:
    limit = definition.integer("max_points")
    if limit is not None and not least <= limit <= MAX_POINTS:
        definition.note(
            "max_points",
            f"field '{definition.name}' max_points must be between {least} and {MAX_POINTS}, "
            f"got {limit}",
        )
    return limit


# Each type's name, its options, and how it is built from them.
_TYPES: dict[str, tuple[tuple[str, ...], Callable[[_Definition, _Base], Field]]] = {
    StringField.type: (("max_length",), _string),
    DateField.type: (("canonical_format",), _date),
    EnumField.type: (("values",), lambda d, base: EnumField(**base, values=d.words("values"))),
    ExpverField.type: (("default",), _expver),
    IntField.type: (("range",), lambda d, base: IntField(**base, range=d.int_range())),
    FloatField.type: (("range",), lambda d, base: FloatField(**base, range=d.float_range())),
    TimeField.type: ((), lambda _, base: TimeField(**base)),
    PolygonField.type: (
        ("max_points",),
        lambda d, base: PolygonField(**base, max_points=_max_points(d, least=4)),
    ),
    PointCloudField.type: (("max_points",), _cloud),
}
