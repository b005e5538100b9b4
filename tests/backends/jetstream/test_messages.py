"""The stored layout: what is written, what is read back, and what others wrote (op. 3.4)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.config import settings
from support.places import RINGS

from aviso_server.backends.jetstream.answers import read_fields
from aviso_server.backends.jetstream.messages import Stored, decode, encode
from aviso_server.core.geometry import Area, Cloud, Geometry
from aviso_server.core.json import compact
from aviso_server.core.notification import Notification, Record, Unreadable
from aviso_server.core.schema import EarlierTopics, Schema
from aviso_server.core.topic import tokens_of

SCHEMAS = settings().catalogue.schemas
GENERIC = Schema(event_type="Made-Up", base="Made-Up", generic=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


def made(
    schema: Schema, values: dict[str, str], geometry: Geometry | None = None, payload: bytes = b"1"
) -> Notification:
    """A notification as the core would make it."""
    values = dict(sorted(values.items()))
    tokens = tokens_of(schema, values, geometry)
    return Notification(schema.event_type, tokens, values, geometry, payload)


def stored(schema: Schema, subject: str, headers: dict[str, str], body: bytes) -> Notification:
    """What is read of a stored message."""
    entry = decode(schema, Stored(7, 8, subject, headers, body))
    assert isinstance(entry, Record), entry
    assert (entry.sequence, entry.stored_at_ns) == (7, 8)
    return entry.notification


def read_back(schema: Schema, notification: Notification) -> object:
    """The notification after storage; header values pass through as NATS carries them."""
    message = encode(schema, notification, "key")
    headers = read_fields(message.head)
    assert all(
        value == value.strip() and all(" " <= c <= "~" for c in value) for value in headers.values()
    )
    return stored(schema, message.subject, headers, message.body)


@given(TEXTS, TEXTS)
def test_every_text_survives(destination: str, note: str) -> None:
    """Fields in and outside ``key_order`` come back, whatever characters they have."""
    notification = made(SCHEMAS["diss2"], {"destination": destination, "note": note})
    assert read_back(SCHEMAS["diss2"], notification) == notification


@given(st.dictionaries(TEXTS, TEXTS, max_size=4))
def test_generic_fields_survive(values: dict[str, str]) -> None:
    """Event types without schema keep every field and their own spelling."""
    notification = made(GENERIC, values)
    assert read_back(GENERIC, notification) == notification


@given(RINGS)
def test_places_survive(points: tuple[tuple[float, float], ...]) -> None:
    """Polygons and point clouds come back to the last bit, order and repeats kept."""
    for name, place in (("area", Area.of(points)), ("observations", Cloud(points))):
        notification = made(SCHEMAS[name], {"date": "20250706"}, place)
        assert read_back(SCHEMAS[name], notification) == notification


def test_the_worked_example() -> None:
    """What schema ``test_polygon`` stores: subject, bounding box and polygon text."""
    text = "(52.5,13.4,52.6,13.5,52.5,13.6,52.4,13.5,52.5,13.4)"
    field = SCHEMAS["test_polygon"].spatial
    assert field is not None
    notification = made(
        SCHEMAS["test_polygon"], {"date": "20250706", "time": "1200"}, field.parse(text)
    )
    message = encode(SCHEMAS["test_polygon"], notification, "k1")
    assert message.subject == "polygon.20250706.1200"
    assert read_fields(message.head) == {
        "Aviso-Event-Type": "test_polygon",
        "Aviso-Topic": "date,time",
        "Nats-Msg-Id": "k1",
        "spatial_bbox": "52.4,13.4,52.6,13.6",
        "spatial_geometry": text,
    }


def test_identifier_header() -> None:
    """Keys sorted, non-ASCII escaped, only what the subject does not have."""
    notification = made(SCHEMAS["diss2"], {"destination": "FOO", "note": "caf\u00e9\x7f"})
    message = encode(SCHEMAS["diss2"], notification, "k")
    header = read_fields(message.head)["Aviso-Identifier"]
    assert header == '{"note":"caf\\u00e9\\u007f"}'


def test_names_in_headers_are_escaped() -> None:
    """Percent-encoded outside visible ASCII; so is the comma, which separates the fields."""
    schema = Schema(event_type="é %", base="x", key_order=("a,b", "ö"))
    notification = made(schema, {"a,b": "1", "ö": "2"})
    message = encode(schema, notification, "k")
    assert read_fields(message.head)["Aviso-Event-Type"] == "%C3%A9%20%25"
    assert read_fields(message.head)["Aviso-Topic"] == "a%2Cb,%C3%B6"
    assert read_back(schema, notification) == notification


RING = SCHEMAS["area"].fields
TEXT = SCHEMAS["diss2"].by_name["destination"]


@pytest.mark.parametrize(
    "now",
    [
        Schema("ev", base="ev", key_order=("b", "a"), fields=RING),
        Schema("ev", base="ev", key_order=("b",), fields=RING),
        Schema("ev", base="ev", key_order=("new", "a", "b"), fields=RING),
        Schema("ev", base="ev", key_order=None, fields=(TEXT,)),
        Schema("ev", base="ev", key_order=(), fields=SCHEMAS["observations"].fields),
        Schema("ev", base="ev", generic=True),
    ],
)
@pytest.mark.parametrize("order", [("a", "b"), ("a",), (), None])
def test_what_is_stored_keeps_its_meaning(order: tuple[str, ...] | None, now: Schema) -> None:
    """A notification is read as it was announced, whatever is declared when it is read."""
    then = Schema("ev", base="ev", key_order=order, fields=(TEXT, *RING))
    place = Area.of(POINTS)
    values = {"a": "x", "b": "5"}
    if order is None:
        values = {"destination": "x", "date": "20250706"}
    notification = made(then, values, place)
    message = encode(then, notification, "k")
    assert stored(now, message.subject, read_fields(message.head), message.body) == notification


def test_topics_that_do_not_name_their_fields() -> None:
    """They are read as was declared when they were stored."""
    earlier = (EarlierTopics(5, ("a", "b")), EarlierTopics(7, ("b", "a")))
    schema = Schema("ev", base="ev", key_order=("c",), earlier=earlier)
    for sequence, identifier in [
        (1, {"a": "x", "b": "5"}),
        (5, {"a": "x", "b": "5"}),
        (6, {"a": "5", "b": "x"}),
        (8, {"c": "x"}),
    ]:
        entry = decode(schema, Stored(sequence, 8, "ev.x.5", {}, b"1"))
        assert isinstance(entry, Record)
        assert entry.notification.identifier == identifier


FLAT = "(1,2,3,4,5,6,1,2)"
POINTS = ((1.0, 2.0), (3.0, 4.0), (5.0, 6.0), (1.0, 2.0))


@pytest.mark.parametrize("text", [FLAT, "1,2,3,4,5,6,1,2", json.dumps(POINTS)])
@pytest.mark.parametrize("name", ["spatial_geometry", "Spatial_Geometry"])
def test_geometry_of_any_reference_release(text: str, name: str) -> None:
    """Flat text or JSON pairs, header names in any case, no bounding box needed."""
    found = stored(SCHEMAS["area"], "area.20250706", {name: text}, b"{}")
    assert isinstance(found.geometry, Area)
    assert found.geometry.points == POINTS
    assert found.identifier == {"date": "20250706"}
    assert found.event_type == "area"


def test_unusable_geometry_is_none() -> None:
    """Such a notification is readable and matches without a spatial filter."""
    found = stored(SCHEMAS["area"], "area.x", {"spatial_geometry": "oops"}, b"{}")
    assert found.geometry is None


def test_polygon_in_the_subject() -> None:
    """Metadata overrides the token, and the token does where there is none."""
    polygon = SCHEMAS["area"].spatial
    assert polygon is not None
    schema = Schema(event_type="p", base="p", key_order=("polygon",), fields=(polygon,))
    notification = made(schema, {}, polygon.parse(FLAT))
    subject = encode(schema, notification, "k").subject
    assert stored(schema, subject, {}, b"1") == notification


@pytest.mark.parametrize(
    ("body", "payload"),
    [
        (b"", b"null"),
        (b'{"b": 1,\n "a": 2}', b'{"a":2,"b":1}'),
        (b"not json", b'"not json"'),
        (b"\xff", '"\ufffd"'.encode()),
    ],
)
def test_foreign_bodies(body: bytes, payload: bytes) -> None:
    """Bodies we did not write become compact JSON, or a JSON string."""
    assert stored(SCHEMAS["ev"], "ev.x", {}, body).payload == payload


@given(st.recursive(st.none() | st.integers() | st.text(max_size=5), st.lists, max_leaves=5))
def test_our_bodies_are_taken_as_they_are(value: object) -> None:
    """What we wrote is compact already and is not parsed again."""
    payload = compact(value)  # type: ignore[arg-type]
    notification = made(SCHEMAS["ev"], {"region": "n"}, payload=payload)
    assert read_back(SCHEMAS["ev"], notification) == notification


@pytest.mark.parametrize(
    ("subject", "headers"),
    [
        ("ev.%zz", {}),
        ("ev.%FF", {}),
        ("ev.a", {"Aviso-Identifier": "{"}),
        ("ev.a", {"Aviso-Identifier": '{"a":1}'}),
        ("ev.a", {"Aviso-Identifier": "[]"}),
    ],
)
def test_unreadable_messages(subject: str, headers: dict[str, str]) -> None:
    """A message that cannot be decoded is reported as such, with its sequence."""
    entry = decode(SCHEMAS["ev"], Stored(3, 4, subject, headers, b"1"))
    assert isinstance(entry, Unreadable)
    assert (entry.sequence, entry.stored_at_ns, entry.topic) == (3, 4, subject)


def test_other_token_counts() -> None:
    """Surplus tokens are ignored, missing ones leave the field out."""
    for subject, identifier in [("diss", {}), ("diss.A.B", {"destination": "A"})]:
        assert stored(SCHEMAS["diss2"], subject, {}, b"").identifier == identifier


def test_generic_without_headers() -> None:
    """Without a schema and our header the base is the event type."""
    assert stored(GENERIC, "made-up.a", {}, b"1").event_type == "made-up"
