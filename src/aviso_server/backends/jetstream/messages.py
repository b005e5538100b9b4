"""Notifications as JetStream messages and back (docs/storage.md#messages). Pure.

The layout is the reference server's, so each server reads the other's messages. What that layout
has no place for travels in headers of our own, which the reference server ignores:

    Aviso-Event-Type    marks a message as ours; its body is then known to be compact JSON
    Aviso-Topic         the identifier fields that are subject tokens, in their order
    Aviso-Identifier    identifier fields that are not
    Nats-Msg-Id         the idempotency key
"""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import unquote

import msgspec

from aviso_server.core.errors import InvalidRequest, MalformedBody
from aviso_server.core.fields.place import POLYGON, PointCloudField, parse_polygon
from aviso_server.core.filter import Filter
from aviso_server.core.geometry import Area, Geometry
from aviso_server.core.json import UNREADABLE, compact, parse
from aviso_server.core.notification import Entry, Notification, Record, Unreadable
from aviso_server.core.schema import Schema
from aviso_server.core.topic import TopicError, identifier_of, parse_subject, subject

BOX = "spatial_bbox"
GEOMETRY = "spatial_geometry"
POINT_CLOUD = "spatial_point_cloud"
EVENT_TYPE = "Aviso-Event-Type"
TOPIC = "Aviso-Topic"
IDENTIFIER = "Aviso-Identifier"
MESSAGE_ID = "Nats-Msg-Id"

_EVERYTHING = Filter()
_TEXTS = msgspec.json.Decoder(dict[str, str])
# Percent signs and commas are written as escapes too, or names with them could not be read back.
_NOT_PLAIN = re.compile(r"[^\x21-\x7e]|[%,]")
_CLOUD = PointCloudField(name="point_cloud", required=False)
"""Reads stored clouds under the general limit: a schema's own limit may have been lowered."""


class Message(msgspec.Struct, frozen=True, gc=False):
    """What is published."""

    subject: str
    key: str
    head: bytes
    """The lines of its headers."""
    body: bytes

    @property
    def size(self) -> int:
        """What counts against the limits of NATS."""
        return len(self.head) + len(self.body)


class Stored(msgspec.Struct, frozen=True, gc=False):
    """What is read back."""

    sequence: int
    time_ns: int
    subject: str
    headers: Mapping[str, str]
    body: bytes


def encode(schema: Schema, notification: Notification, key: str) -> Message:
    """The message that stores a notification."""
    # What a topic means is stored with it: declarations change, and other servers may have others.
    head = f"{_head(notification.event_type, schema.key_order or ())}{MESSAGE_ID}: {key}\r\n"
    if beside := _beside(schema, notification.identifier):
        head += f"{IDENTIFIER}: {_ascii_json(beside)}\r\n"
    if (geometry := notification.geometry) is not None:
        place = GEOMETRY if isinstance(geometry, Area) else POINT_CLOUD
        head += f"{BOX}: {geometry.box.text}\r\n{place}: {geometry.text}\r\n"
    return Message(subject(notification.tokens), key, head.encode(), notification.payload)


def decode(schema: Schema, stored: Stored) -> Entry:
    """The notification in a stored message, or Unreadable with the reason; never raises."""
    found = decode_wanted(schema, stored, _EVERYTHING)
    assert found is not None  # noqa: S101 - nothing is left out
    return found


def decode_wanted(schema: Schema, stored: Stored, wanted: Filter) -> Entry | None:
    """The same; None if its texts are not wanted, and then place and payload are not read."""
    headers = _named(stored.headers)
    try:
        tokens, identifier = _texts(schema, stored, headers)
    except (TopicError, _Unreadable) as why:
        return Unreadable(stored.sequence, stored.time_ns, stored.subject, str(why))
    event_type = _event_type(schema, headers, tokens)
    if not wanted.any_texts:
        named = Notification(event_type, tokens, identifier, None, b"")
        if not wanted.matches_texts(named):
            return None
    place = _geometry(schema, stored, headers, tokens)
    payload = _payload(headers, stored.body)
    notification = Notification(event_type, tokens, identifier, place, payload)
    return Record(stored.sequence, stored.time_ns, notification)


def _texts(
    schema: Schema, stored: Stored, headers: Mapping[str, str]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The tokens of the topic, and all identifier fields that are texts, in name order."""
    tokens = parse_subject(stored.subject)
    identifier = identifier_of(_token_fields(schema, stored, headers), tokens)
    beside = headers.get(IDENTIFIER)
    if beside is None:
        return tokens, identifier
    return tokens, dict(sorted({**identifier, **_identifier(beside)}.items()))


def _token_fields(schema: Schema, stored: Stored, headers: Mapping[str, str]) -> tuple[str, ...]:
    """The fields in a subject: by its own account, or else as they were declared at the time."""
    text = headers.get(TOPIC)
    return schema.token_fields_at(stored.sequence) if text is None else _names(text)


@lru_cache(maxsize=1024)
def _head(event_type: str, names: tuple[str, ...]) -> str:
    """The headers that all messages of a stream begin with."""
    topic = ",".join(map(_escaped, names))
    return f"{EVENT_TYPE}: {_escaped(event_type)}\r\n{TOPIC}: {topic}\r\n"


@lru_cache(maxsize=1024)
def _names(text: str) -> tuple[str, ...]:
    return tuple(map(unquote, text.split(","))) if text else ()


_NAMES = {
    name.lower(): name for name in (BOX, GEOMETRY, POINT_CLOUD, EVENT_TYPE, TOPIC, IDENTIFIER)
}


def _named(headers: Mapping[str, str]) -> Mapping[str, str]:
    """The headers by the names used here; others may have spelled them in another case."""
    if EVENT_TYPE in headers:
        return headers  # written by us, spelled by us
    return {_NAMES.get(name.lower(), name): text for name, text in headers.items()}


class _Unreadable(ValueError):
    """Why a message cannot be read."""


@lru_cache(maxsize=1024)
def _escaped(name: str) -> str:
    return _NOT_PLAIN.sub(lambda found: "".join(f"%{b:02X}" for b in found[0].encode()), name)


def _ascii_json(values: Mapping[str, str]) -> str:
    """JSON in visible ASCII and blanks: headers carry nothing else unharmed."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return text.replace("\x7f", "\\u007f")


def _beside(schema: Schema, identifier: Mapping[str, str]) -> dict[str, str]:
    """The fields the subject does not name: all of them unless the schema has a ``topic``."""
    return {name: identifier[name] for name in identifier.keys() - (schema.key_order or ())}


def _identifier(text: str) -> dict[str, str]:
    try:
        return _TEXTS.decode(text)
    except (*UNREADABLE, UnicodeEncodeError):
        raise _Unreadable(f"header {IDENTIFIER} is not a JSON object of texts") from None


def _event_type(schema: Schema, headers: Mapping[str, str], tokens: tuple[str, ...]) -> str:
    """The owner of the base; without a schema what the message says."""
    if not schema.generic:
        return schema.event_type
    named = headers.get(EVENT_TYPE)
    return tokens[0] if named is None else unquote(named)


def _geometry(
    schema: Schema, stored: Stored, headers: Mapping[str, str], tokens: tuple[str, ...]
) -> Geometry | None:
    """The place, if there is a usable one; a notification without it is still readable."""
    cloud, area = headers.get(POINT_CLOUD), headers.get(GEOMETRY)
    # Ours say what they have, whatever is declared now; of others' only that is read.
    if TOPIC not in headers:
        if schema.spatial is None:
            return None
        if isinstance(schema.spatial, PointCloudField):
            area = None
        else:
            cloud, area = None, area or _polygon_token(schema, stored.sequence, tokens)
    try:
        if cloud is not None:
            return _CLOUD.parse(parse(cloud.encode()))
        return None if area is None else _area(area)
    except (InvalidRequest, MalformedBody):
        return None


@lru_cache(maxsize=256)
def _area(text: str) -> Area:
    """Producers announce the same area again and again, and reading one is slow."""
    return parse_polygon(POLYGON, text)


def _polygon_token(schema: Schema, sequence: int, tokens: tuple[str, ...]) -> str | None:
    """The polygon from the subject, for messages whose metadata lacks it."""
    names = schema.token_fields_at(sequence)
    return dict(zip(names, tokens[1:], strict=False)).get(POLYGON)


def _payload(headers: Mapping[str, str], body: bytes) -> bytes:
    """The body as compact JSON. Ours is; others' is parsed, and text if it is not JSON."""
    if not body:
        return b"null"
    # A line break would end an SSE frame early, so not even our own mark vouches for one.
    if EVENT_TYPE in headers and b"\n" not in body and b"\r" not in body:
        return body
    try:
        return compact(parse(body))
    except MalformedBody:
        return compact(body.decode(errors="replace"))
