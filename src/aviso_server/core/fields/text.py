"""Fields that are words: free text, one of a list, experiment version."""

import re
from dataclasses import dataclass, field
from typing import ClassVar

from aviso_server.core.constraint import Constraint, enum_constraint
from aviso_server.core.errors import InvalidRequest
from aviso_server.core.fields.field import ScalarField
from aviso_server.core.json import Json

_UNSIGNED = re.compile(r"\+?0*([0-9]{1,10})")
_UNSIGNED_MAX = 2**32 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StringField(ScalarField):
    """Any non-empty text, kept unchanged; ``*`` is an ordinary value."""

    max_length: int | None = None
    """In characters (code points), inclusive."""

    type: ClassVar[str] = "StringHandler"

    def options(self) -> dict[str, Json]:
        """The length limit, null where there is none."""
        return {"max_length": self.max_length}

    def canonical(self, text: str) -> str:
        """The text itself."""
        if not text:
            raise InvalidRequest(f"Field '{self.name}' cannot be empty")
        if self.max_length is not None and len(text) > self.max_length:
            raise InvalidRequest(
                f"Field '{self.name}' exceeds maximum length of {self.max_length} characters, "
                f"got: {len(text)}"
            )
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class EnumField(ScalarField):
    """One of the configured words, whatever their case."""

    values: tuple[str, ...]
    """As configured."""
    _lower: tuple[str, ...] = field(init=False, repr=False, compare=False)

    type: ClassVar[str] = "EnumHandler"

    def __post_init__(self) -> None:
        object.__setattr__(self, "_lower", tuple(value.lower() for value in self.values))

    def options(self) -> dict[str, Json]:
        """The words as configured."""
        return {"values": list(self.values)}

    def canonical(self, text: str) -> str:
        """The lower-cased word."""
        lower = text.lower()
        if lower not in self._lower:
            raise InvalidRequest(
                f"Field '{self.name}' has invalid value '{text}'. "
                f"Allowed: [{', '.join(self.values)}]"
            )
        return lower

    def constrain(self, spec: dict[str, Json]) -> Constraint:
        """Compile ``eq`` or ``in``."""
        return enum_constraint(self.name, spec, self._lower)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpverField(ScalarField):
    """An experiment version: a number padded to four digits, or a lower-cased word."""

    default: str | None = None
    """Replaces an explicitly empty text, never an omitted field."""

    type: ClassVar[str] = "ExpverHandler"

    def options(self) -> dict[str, Json]:
        """The default as configured, null where there is none."""
        return {"default": self.default}

    def canonical(self, text: str) -> str:
        """The padded number or lower-cased word."""
        text = text or self.default or ""
        if not text:
            raise InvalidRequest(f"Field '{self.name}' cannot be empty")
        number = _UNSIGNED.fullmatch(text)
        if number is not None and int(number[1]) <= _UNSIGNED_MAX:
            return f"{int(number[1]):04}"
        return text.lower()
