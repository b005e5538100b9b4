"""Start-up checks on topics, spatial identifiers and fields."""

import pytest

from aviso_server.core.json import Json
from settings.configurations import FIELD, configuration, faults, messages, settings, with_schema

POLYGON: Json = {"type": "PolygonHandler", "required": True}
CLOUD: Json = {"type": "PointCloudHandler", "required": True}


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ([], ["must not be empty"]),
        (["class", "point_cloud"], ["must not contain reserved spatial key 'point_cloud'"]),
        (["class", "level"], ["contains undeclared identifier 'level'"]),
        (["class", "class", "class"], ["contains duplicate identifier 'class'"]),
        (["x", "y"], ["contains undeclared identifier 'x'", "contains undeclared identifier 'y'"]),
    ],
)
def test_key_order_names_declared_fields_once(order: Json, expected: list[str]) -> None:
    """Each rule has its literal message and is reported once per name."""
    raw = with_schema(topic={"base": "mars", "key_order": order})
    assert messages(raw) == [f"Schema 'mars' topic.key_order {why}" for why in expected]


def test_fields_may_stay_outside_the_topic() -> None:
    """Such fields are stored, emitted and filterable."""
    raw = with_schema(identifier={"class": FIELD, "note": FIELD})
    assert messages(raw) == []


def test_a_polygon_may_be_listed_in_key_order() -> None:
    """It still filters by intersection."""
    raw = with_schema(
        identifier={"polygon": POLYGON}, topic={"base": "p", "key_order": ["polygon"]}
    )
    assert messages(raw) == []


@pytest.mark.parametrize("base", ["", "a.b", "-a", "é", "a b", "a\n"])
def test_a_base_is_a_plain_name(base: str) -> None:
    """The base names a stream and starts every subject."""
    raw = with_schema(topic={"base": base, "key_order": ["class"]})
    assert messages(raw) == [
        f"Schema 'mars' topic.base '{base}' must match [A-Za-z0-9][A-Za-z0-9_-]*"
    ]


def test_without_topic_the_event_type_is_a_plain_name() -> None:
    """It stands in for the base; with a topic it may be any text."""
    assert messages(with_schema("a.b", topic=None)) == [
        "Schema 'a.b' must match [A-Za-z0-9][A-Za-z0-9_-]* because it has no topic configuration"
    ]
    assert messages(with_schema("a.b")) == []


def test_a_cloud_and_a_polygon_do_not_go_together() -> None:
    """The rules for one field alone are those of core/fields/test_registry.py."""
    raw = with_schema(identifier={"class": FIELD, "point_cloud": CLOUD, "polygon": POLYGON})
    assert messages(raw) == [
        "Schema 'mars' must not combine PointCloudHandler with a polygon identifier"
    ]


def test_a_point_cloud_needs_a_topic() -> None:
    """Its schema must say how its topic is laid out."""
    raw = with_schema(topic=None, identifier={"point_cloud": CLOUD})
    assert messages(raw) == ["Schema 'mars' PointCloudHandler requires a topic configuration"]


def test_field_options_are_checked() -> None:
    """A broken rule of a field type has its message and the path of its option."""
    raw = with_schema(identifier={"class": {"type": "EnumHandler", "values": [], "required": True}})
    assert [(f.path, f.message) for f in faults(raw)] == [
        (
            "notification_schema.mars.identifier.class.values",
            "Schema 'mars' identifier 'class' values must not be empty",
        )
    ]


def test_every_event_type_is_visited_in_file_order() -> None:
    """Faults of all event types come together."""
    entry: Json = {"identifier": {"f": {"type": "x", "required": 1}}}
    raw = configuration(notification_schema={"z": entry, "a": entry})
    assert [f.path for f in faults(raw)] == [
        "notification_schema.z.identifier.f.required",
        "notification_schema.z.identifier.f.type",
        "notification_schema.a.identifier.f.required",
        "notification_schema.a.identifier.f.type",
    ]


def test_fields_keep_the_order_of_the_file() -> None:
    """Error reports follow schema order."""
    loaded = settings(with_schema(identifier={"z": FIELD, "class": FIELD, "a": FIELD}))
    assert [f.name for f in loaded.catalogue.find("mars").fields] == ["z", "class", "a"]
