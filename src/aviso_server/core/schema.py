"""What an event type looks like, and the catalogue of all of them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter

from aviso_server.core.errors import InvalidRequest, UnknownEventType
from aviso_server.core.expectation import NOTHING, Expectations
from aviso_server.core.fields.field import Field, ScalarField
from aviso_server.core.fields.known import KnownTexts
from aviso_server.core.fields.place import PointCloudField, PolygonField
from aviso_server.core.json import Json

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
"""What an event type without schema, and every topic base, must look like."""

GENERIC = "generic"
"""The label of every event type without schema."""


@dataclass(frozen=True, slots=True)
class StoragePolicy:
    """How a durable backend keeps one event type; None means the backend's default."""

    retention_s: int | None = None
    max_messages: int | None = None
    max_bytes: int | None = None
    allow_duplicates: bool | None = None
    compression: bool | None = None


@dataclass(frozen=True, slots=True)
class StreamAccess:
    """Who may access one event type; without roles all users read and administrators write."""

    required: bool
    read_roles: Mapping[str, tuple[str, ...]] | None = None
    write_roles: Mapping[str, tuple[str, ...]] | None = None
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EarlierTopics:
    """How topics were laid out before the topic of an event type was declared otherwise."""

    through: int
    """The last sequence that may have been stored then."""
    fields: tuple[str, ...]


@dataclass(frozen=True)
class Schema:
    """One event type: its fields, its topic layout and its rules."""

    event_type: str
    fields: tuple[Field, ...] = ()
    """In the order of the configuration file, which is the order of error reports."""
    base: str = ""
    """First topic token; the event type itself when no topic is configured."""
    key_order: tuple[str, ...] | None = None
    """Fields that become topic tokens; None without a ``topic`` block."""
    payload_required: bool | None = None
    """None without a ``payload`` block, which means optional."""
    history_cap: int | None = None
    """Overrides ``watch_endpoint.max_historical_notifications``."""
    storage: StoragePolicy = field(default_factory=StoragePolicy)
    access: StreamAccess | None = None
    generic: bool = False
    """An event type without schema: any scalar field is accepted."""
    expectations: Expectations = NOTHING
    earlier: tuple[EarlierTopics, ...] = ()
    """How older topics of a log are read that do not name their fields themselves; ascending."""

    @cached_property
    def by_name(self) -> Mapping[str, Field]:
        """The fields by name."""
        return {item.name: item for item in self.fields}

    @cached_property
    def spatial(self) -> PolygonField | PointCloudField | None:
        """The spatial field, of which there is at most one."""
        for item in self.fields:
            if isinstance(item, PolygonField | PointCloudField):
                return item
        return None

    @cached_property
    def texts(self) -> Mapping[str, KnownTexts]:
        """Canonical texts by field, of those whose values are text; in name order."""
        scalars = (item for item in self.fields if isinstance(item, ScalarField))
        return {item.name: KnownTexts(item) for item in sorted(scalars, key=attrgetter("name"))}

    @cached_property
    def stream(self) -> str:
        """Name of the stream: the topic base in upper case."""
        return self.base.upper()

    @cached_property
    def token_fields(self) -> tuple[str, ...] | None:
        """The fields after the base, in topic order; None if notifications differ in them."""
        if self.generic:
            return None
        if self.key_order is not None:
            return self.key_order
        return tuple(sorted(item.name for item in self.fields if not item.spatial))

    def token_fields_at(self, sequence: int) -> tuple[str, ...]:
        """The fields of a stored topic that does not name them; none if notifications differ."""
        for topics in self.earlier:
            if sequence <= topics.through:
                return topics.fields
        return self.token_fields or ()

    @property
    def label(self) -> str:
        """The bounded name used in metrics: clients make generic names up."""
        return GENERIC if self.generic else self.event_type

    def view(self) -> dict[str, Json]:
        """The public view: identifier and payload, nothing else."""
        payload: Json = (
            None if self.payload_required is None else {"required": self.payload_required}
        )
        return {"identifier": {f.name: f.view() for f in self.fields}, "payload": payload}


class Catalogue:
    """All configured event types and what happens to others."""

    def __init__(
        self,
        schemas: Iterable[Schema] = (),
        *,
        strict: bool | None = None,
        configured: bool = True,
    ) -> None:
        self.schemas: Mapping[str, Schema] = {item.event_type: item for item in schemas}
        self.strict = bool(self.schemas) if strict is None else strict
        self.configured = configured
        """False when there is no ``notification_schema`` section at all."""
        self.names = tuple(sorted(self.schemas))
        self._owner = {item.stream: item.event_type for item in self.schemas.values()}

    def find(self, event_type: str) -> Schema:
        """The schema of an event type; a generic one where that is allowed."""
        schema = self.schemas.get(event_type)
        if schema is not None:
            return schema
        if self.strict:
            raise UnknownEventType(event_type, self.names)
        if not NAME.fullmatch(event_type):
            raise InvalidRequest(
                f"event_type '{event_type}' is invalid. It must match [A-Za-z0-9][A-Za-z0-9_-]*",
                field="event_type",
            )
        if event_type.upper() in self._owner:
            raise stream_conflict(event_type)
        return Schema(event_type=event_type, base=event_type, generic=True)

    def resolve(self, name: str, others: Iterable[str] = ()) -> str | None:
        """The event type an administrator means, or None.

        ``others`` are event types without schema that the backend knows.
        """
        known = [*self.schemas, *others]
        folded = name.lower()
        if name in known:
            return name
        for event_type in known:
            if event_type.lower() == folded:
                return event_type
        return self._owner.get(name.upper())

    def label(self, event_type: str) -> str:
        """The bounded name of an event type that may not be configured."""
        return event_type if event_type in self.schemas else GENERIC


def stream_conflict(event_type: str) -> InvalidRequest:
    """The refusal of a name whose stream belongs to a differently spelled event type."""
    return InvalidRequest(
        f"event_type '{event_type}' conflicts with an existing stream", field="event_type"
    )
