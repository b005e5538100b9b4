"""Fields that are numbers: signed 64-bit integers and finite doubles."""

import math
from dataclasses import dataclass
from typing import ClassVar

from aviso_server.core.constraint import Constraint, Kind, number_constraint
from aviso_server.core.errors import InvalidRequest
from aviso_server.core.fields.field import ScalarField
from aviso_server.core.json import Json
from aviso_server.core.numeral import (
    INT_MAX,
    INT_MIN,
    Number,
    float_text,
    number_text,
    parse_float,
    read_int,
)

__all__ = ["FloatField", "IntField", "float_text", "parse_float"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IntField(ScalarField):
    """A signed 64-bit integer."""

    range: tuple[int, int] | None = None
    """Smallest and largest allowed value, inclusive."""

    type: ClassVar[str] = "IntHandler"

    def options(self) -> dict[str, Json]:
        """The range, null where there is none."""
        return {"range": None if self.range is None else list(self.range)}

    def canonical(self, text: str) -> str:
        """Plain decimal digits."""
        value = read_int(text)
        if value is None or not INT_MIN <= value <= INT_MAX:
            raise InvalidRequest(
                f"Field '{self.name}' must be a valid integer, got: '{text}'",
                details=_why_no_int(text, value),
            )
        _check_range(self.name, value, self.range)
        return str(value)

    def constrain(self, spec: dict[str, Json]) -> Constraint:
        """Compile any of the seven numeric operators."""
        return number_constraint(self.name, spec, Kind.INT, self.range)


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatField(ScalarField):
    """A finite double."""

    range: tuple[float, float] | None = None
    """Smallest and largest allowed value, inclusive."""

    type: ClassVar[str] = "FloatHandler"

    def options(self) -> dict[str, Json]:
        """The range, null where there is none."""
        return {"range": None if self.range is None else list(self.range)}

    def canonical(self, text: str) -> str:
        """Float text."""
        value = parse_float(text)
        if value is None:
            raise InvalidRequest(
                f"Field '{self.name}' must be a valid number, got: '{text}'",
                details="invalid float literal" if text else "cannot parse float from empty string",
            )
        if not math.isfinite(value):
            raise InvalidRequest(f"Field '{self.name}' must be a finite number, got: '{text}'")
        _check_range(self.name, value, self.range)
        return float_text(value)

    def constrain(self, spec: dict[str, Json]) -> Constraint:
        """Compile any of the seven numeric operators."""
        return number_constraint(self.name, spec, Kind.FLOAT, self.range)


def _why_no_int(text: str, value: int | None) -> str:
    if not text:
        return "cannot parse integer from empty string"
    if value is None:
        return "invalid digit found in string"
    return f"number too {'large' if value > 0 else 'small'} to fit in target type"


def _check_range(name: str, value: Number, allowed: tuple[Number, Number] | None) -> None:
    if allowed is None or allowed[0] <= value <= allowed[1]:
        return
    low, high = map(number_text, allowed)
    raise InvalidRequest(
        f"Field '{name}' value {number_text(value)} is outside allowed range [{low}, {high}]"
    )
