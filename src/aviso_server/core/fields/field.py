"""What a field of an identifier is: a rule for its values.

Declared
├── ScalarField     text in, canonical text out; part of topics and text comparisons
└── SpatialField    raw JSON in, geometry out; stored beside the topic, never compared
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import msgspec

from aviso_server.core.constraint import Constraint
from aviso_server.core.errors import InvalidRequest
from aviso_server.core.geometry import Geometry
from aviso_server.core.json import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared(ABC):
    """One declared identifier field; immutable, so a schema can be shared by every request."""

    name: str
    required: bool
    """Must be present on watch and replay; on notify every declared field must be."""
    description: str | None = None

    type: ClassVar[str]
    """Its name in the configuration, such as ``IntHandler``."""
    spatial: ClassVar[bool] = False

    def options(self) -> dict[str, Json]:
        """The field's own options as the public schema view shows them."""
        return {}

    def constrain(self, spec: dict[str, Json]) -> Constraint:  # noqa: ARG002 - see subclasses
        """Compile a constraint object; fields without operators refuse it."""
        raise InvalidRequest(
            f"Field '{self.name}' does not support constraint filters; expected scalar value"
        )

    def view(self) -> dict[str, Json]:
        """The public view of this field."""
        shown: dict[str, Json] = {"type": self.type, "required": self.required, **self.options()}
        if self.description is not None:
            shown["description"] = self.description
        return shown


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarField(Declared):
    """A field whose values are text."""

    @abstractmethod
    def canonical(self, text: str) -> str:
        """The canonical text of a value, or InvalidRequest with the protocol's message.

        Canonical text is its own canonical form.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class SpatialField(Declared):
    """A field whose values are places."""

    spatial: ClassVar[bool] = True

    @abstractmethod
    def parse(self, value: Json) -> Geometry:
        """The place a JSON value describes, or InvalidRequest; null is the caller's to refuse."""


Field: TypeAlias = ScalarField | SpatialField


def scalar_text(field: str, value: Json) -> str:
    """The text that a JSON value gives to a field; objects are the caller's."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            # msgspec writes the shortest digits and keeps a fraction or exponent: 4.0, 1e16.
            return msgspec.json.encode(value).decode()
        case None:
            raise InvalidRequest(f"Field '{field}' cannot be null", field=field)
        case _:
            raise InvalidRequest(
                f"Field '{field}' must be a scalar value or constraint object, got array",
                field=field,
            )
