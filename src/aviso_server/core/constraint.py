"""Constraints of a filter: compiled once, then asked about stored text (docs/schema.md#filters).

Seven operators come down to two questions: is the value one of these (``Choice``: eq, in), or
does it lie between these (``NumberRange``: gt, gte, lt, lte, between). Two objects that ask the
same, such as ``{"eq": 4}`` and ``{"in": [4]}``, become equal values and can share an index entry.

Stored text that does not read as the field's kind never matches and is never an error: it may
have been written under another schema.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from aviso_server.core.errors import InvalidRequest
from aviso_server.core.json import Json
from aviso_server.core.numeral import (
    INT_MAX,
    INT_MIN,
    Number,
    number_text,
    parse_float,
    parse_int,
    to_double,
)

Operand: TypeAlias = Number | str

NUMBER_OPERATORS = ("eq", "in", "gt", "gte", "lt", "lte", "between")
ENUM_OPERATORS = ("eq", "in")

MAX_CHOICES = 1000
"""Values of one ``in``: each costs memory for as long as a watch lasts, some 100 bytes in all."""


class Kind(Enum):
    """How stored text is read before it is compared."""

    INT = "int"
    FLOAT = "float"
    ENUM = "enum"

    def read(self, text: str) -> Operand | None:
        """The comparable value of a stored text, or None if it has none."""
        if self is Kind.INT:
            return parse_int(text)
        if self is Kind.ENUM:
            return text.lower()
        value = parse_float(text)
        return value if value is not None and math.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class Choice:
    """The field has one of these values."""

    field: str
    kind: Kind
    choices: frozenset[Operand]

    def test(self, text: str) -> bool:
        """Whether a stored text satisfies this."""
        # None, for text that cannot be read, is never among the choices.
        return self.kind.read(text) in self.choices


@dataclass(frozen=True, slots=True)
class NumberRange:
    """The field lies between two numbers, either of which may be free."""

    field: str
    kind: Kind
    low: Number | None = None
    high: Number | None = None
    low_open: bool = False
    """The low end itself does not match."""
    high_open: bool = False

    def test(self, text: str) -> bool:
        """Whether a stored text satisfies this."""
        value = self.kind.read(text)
        if value is None or isinstance(value, str):
            return False
        low, high = self.low, self.high
        if low is not None and (value < low or (self.low_open and value == low)):
            return False
        return high is None or value < high or (not self.high_open and value == high)


Constraint: TypeAlias = Choice | NumberRange


def number_constraint(
    field: str, spec: Mapping[str, Json], kind: Kind, allowed: tuple[Number, Number] | None
) -> Constraint:
    """Compile a constraint on an int or float field; ``allowed`` is the schema's range."""
    operator, operand = _single(field, spec)
    if operator not in NUMBER_OPERATORS:
        raise InvalidRequest(
            f"Field '{field}' has invalid operator '{operator}'. "
            f"Allowed: {','.join(NUMBER_OPERATORS)}"
        )
    read = _read_int if kind is Kind.INT else _read_float
    numbers = _numbers(field, operator, operand, read)
    for number in numbers:
        _check_allowed(field, number, allowed)
    first, last = numbers[0], numbers[-1]
    match operator:
        case "eq" | "in":
            return Choice(field, kind, frozenset(numbers))
        case "gt" | "gte":
            return NumberRange(field, kind, low=first, low_open=operator == "gt")
        case "lt" | "lte":
            return NumberRange(field, kind, high=last, high_open=operator == "lt")
        case _:
            return NumberRange(field, kind, low=first, high=last)


def enum_constraint(field: str, spec: Mapping[str, Json], allowed: tuple[str, ...]) -> Constraint:
    """Compile a constraint on an enum field; ``allowed`` are the schema's values, lower-cased."""
    operator, operand = _single(field, spec)
    if operator not in ENUM_OPERATORS:
        raise InvalidRequest(
            f"Field '{field}' has invalid operator '{operator}'. "
            f"Allowed for enum constraints: {','.join(ENUM_OPERATORS)}"
        )
    items = _array(field, operand, "strings") if operator == "in" else [operand]
    words = [_read_word(field, operator, item) for item in items]
    for word in words:
        if word not in allowed:
            raise InvalidRequest(
                f"Field '{field}' has invalid enum value '{word}'. Allowed: [{', '.join(allowed)}]"
            )
    return Choice(field, Kind.ENUM, frozenset(words))


def _single(field: str, spec: Mapping[str, Json]) -> tuple[str, Json]:
    if len(spec) != 1:
        raise InvalidRequest(f"Field '{field}' constraint must contain exactly one operator")
    ((operator, operand),) = spec.items()
    return operator, operand


def _array(field: str, operand: Json, of_what: str) -> list[Json]:
    if not isinstance(operand, list):
        raise InvalidRequest(f"Field '{field}' operator 'in' expects array of {of_what}")
    if not operand:
        raise InvalidRequest(f"Field '{field}' operator 'in' must contain at least one value")
    if len(operand) > MAX_CHOICES:
        raise InvalidRequest(
            f"Field '{field}' operator 'in' contains {len(operand)} values, "
            f"maximum is {MAX_CHOICES}"
        )
    return operand


def _numbers(
    field: str, operator: str, operand: Json, read: Callable[[str, str, Json], Number]
) -> list[Number]:
    """The operands of a numeric operator, shape and types checked."""
    if operator == "in":
        of_what = "integers" if read is _read_int else "numbers"
        return [read(field, operator, item) for item in _array(field, operand, of_what)]
    if operator != "between":
        return [read(field, operator, operand)]
    if not isinstance(operand, list):
        raise InvalidRequest(f"Field '{field}' operator 'between' expects [min,max]")
    if len(operand) != 2:
        raise InvalidRequest(
            f"Field '{field}' operator 'between' expects exactly two values [min,max]"
        )
    low, high = (read(field, operator, item) for item in operand)
    if low > high:
        raise InvalidRequest(f"Field '{field}' operator 'between' expects min <= max")
    return [low, high]


def _read_int(field: str, operator: str, operand: Json) -> int:
    # bool is a subclass of int in Python, and not an integer in JSON.
    if type(operand) is not int or not INT_MIN <= operand <= INT_MAX:
        raise InvalidRequest(f"Field '{field}' operator '{operator}' expects integer value")
    return operand


def _read_float(field: str, operator: str, operand: Json) -> float:
    if type(operand) is not int and type(operand) is not float:
        raise InvalidRequest(f"Field '{field}' operator '{operator}' expects numeric value")
    value = to_double(operand)
    if not math.isfinite(value):
        raise InvalidRequest(f"Field '{field}' operator '{operator}' expects finite numeric value")
    return value


def _read_word(field: str, operator: str, operand: Json) -> str:
    if not isinstance(operand, str):
        raise InvalidRequest(f"Field '{field}' operator '{operator}' expects string value")
    return operand.lower()


def _check_allowed(field: str, number: Number, allowed: tuple[Number, Number] | None) -> None:
    if allowed is None or allowed[0] <= number <= allowed[1]:
        return
    low, high = (number_text(end) for end in allowed)
    raise InvalidRequest(
        f"Field '{field}' constraint value {number_text(number)} "
        f"is outside allowed range [{low}, {high}]"
    )
