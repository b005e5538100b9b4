"""Announcements: the payload rule, and the order of checks on notify."""

import pytest
from msgspec import UNSET, UnsetType
from support.config import settings

from aviso_server.core.announcement import notification_of
from aviso_server.core.errors import InvalidRequest
from aviso_server.core.json import Json
from aviso_server.core.wire import NotificationRequest

SCHEMAS = settings().catalogue.schemas
RING: Json = [[0, 0], [0, 1], [1, 1], [0, 0]]


def asked(event_type: str, payload: "Json | UnsetType", **identifier: Json) -> NotificationRequest:
    """A notify request."""
    return NotificationRequest(event_type=event_type, identifier=identifier, payload=payload)


@pytest.mark.parametrize(
    ("payload", "kept"),
    [
        (UNSET, b"null"),
        (None, b"null"),
        ("text", b'"text"'),
        ({"b": 1.50, "a": [1, {"z": "s", "y": 1e3}]}, b'{"a":[1,{"y":1000.0,"z":"s"}],"b":1.5}'),
        ("é", '"é"'.encode()),
        (10**30, b"1" + b"0" * 30),
    ],
)
def test_payloads_are_compact_and_sorted(payload: "Json | UnsetType", kept: bytes) -> None:
    """Values keep their value, objects their members, absent is null."""
    assert notification_of(SCHEMAS["ev"], asked("ev", payload, region="n")).payload == kept


def test_required_payload() -> None:
    """An explicit null is a payload; an omitted one is refused after the identifier."""
    schema = SCHEMAS["test_polygon"]
    place: dict[str, Json] = {"date": "20250706", "time": "12", "polygon": RING}
    assert notification_of(schema, asked("test_polygon", None, **place)).payload == b"null"
    with pytest.raises(InvalidRequest) as caught:
        notification_of(schema, asked("test_polygon", UNSET, **place))
    assert caught.value.message == (
        "Payload is required for notify operation based on schema configuration"
    )
    with pytest.raises(InvalidRequest, match="Required field 'time' missing"):
        notification_of(schema, asked("test_polygon", UNSET, date="20250706"))


def test_topic_length_is_checked_last() -> None:
    """Identifier, payload, then the topic."""
    with pytest.raises(InvalidRequest, match="Topic exceeds maximum length"):
        notification_of(SCHEMAS["ev"], asked("ev", UNSET, region="x" * 4000))
