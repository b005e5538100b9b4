"""Checks on topics, spatial identifiers and fields."""

from collections.abc import Iterator

from aviso_server.core.schema import NAME
from aviso_server.settings.faults import Fault
from aviso_server.settings.model import Document, EventType, Topic
from aviso_server.settings.schemas import build_fields

_RULE = "must match [A-Za-z0-9][A-Za-z0-9_-]*"


def topics(document: Document) -> Iterator[Fault]:
    """Topic layouts; fields may be left out of ``key_order``."""
    for event_type, entry in document.event_types.items():
        at = f"notification_schema.{event_type}"
        if entry.topic is not None:
            yield from _key_order(event_type, entry, entry.topic)
            if not NAME.fullmatch(entry.topic.base):
                yield Fault(
                    f"{at}.topic.base",
                    f"Schema '{event_type}' topic.base '{entry.topic.base}' {_RULE}",
                )
        elif not NAME.fullmatch(event_type):
            yield Fault(at, f"Schema '{event_type}' {_RULE} because it has no topic configuration")


def _key_order(event_type: str, entry: EventType, topic: Topic) -> Iterator[Fault]:
    at = f"notification_schema.{event_type}.topic.key_order"
    prefix = f"Schema '{event_type}' topic.key_order"
    if not topic.key_order:
        yield Fault(at, f"{prefix} must not be empty")
    seen: list[str] = []
    for key in topic.key_order:
        if key == "point_cloud":
            yield Fault(at, f"{prefix} must not contain reserved spatial key 'point_cloud'")
        elif key not in entry.identifier:
            yield Fault(at, f"{prefix} contains undeclared identifier '{key}'")
        elif seen.count(key) == 1:
            yield Fault(at, f"{prefix} contains duplicate identifier '{key}'")
        seen.append(key)


def spatial(document: Document) -> Iterator[Fault]:
    """Rules about spatial fields that need the whole schema; the rest is in the field registry."""
    for event_type, entry in document.event_types.items():
        types = {
            name: spec.get("type") if isinstance(spec, dict) else None
            for name, spec in entry.identifier.items()
        }
        if "PointCloudHandler" not in types.values():
            continue
        at = f"notification_schema.{event_type}.identifier"
        if "polygon" in types or "PolygonHandler" in types.values():
            yield Fault(
                at,
                f"Schema '{event_type}' must not combine PointCloudHandler"
                " with a polygon identifier",
            )
        if entry.topic is None:
            yield Fault(
                at, f"Schema '{event_type}' PointCloudHandler requires a topic configuration"
            )


def fields(document: Document) -> Iterator[Fault]:
    """Every fault of every field definition."""
    for event_type, entry in document.event_types.items():
        yield from build_fields(event_type, entry.identifier).faults
