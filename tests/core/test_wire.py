"""Request bodies: precedence and literal texts."""

import json
from collections.abc import Callable
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from aviso_server.core.errors import MalformedBody, RequestError, UnknownMember, WrongShape
from aviso_server.core.json import Json
from aviso_server.core.wire import NotificationRequest, _examine, parse_request

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
ANYTHING = SCALARS.filter(lambda v: v not in (float("inf"), float("-inf"))) | st.sampled_from(
    [[], {}, [1], {"a": None}]
)
MEMBERS = ("event_type", "identifier", "from_id", "from_date", "to_id", "to_date", "payload")


def body(**members: object) -> bytes:
    return json.dumps({"event_type": "mars", "identifier": {}, **members}).encode()


def refused(text: bytes, kind: type[RequestError]) -> str:
    with pytest.raises(RequestError) as raised:
        parse_request(text)
    assert type(raised.value) is kind
    assert raised.value.details == raised.value.message
    return raised.value.message


def outcome(read: Callable[[], NotificationRequest]) -> NotificationRequest | tuple[type, str]:
    """The request, or the kind and text of its refusal."""
    try:
        return read()
    except RequestError as error:
        return type(error), error.message


def test_a_full_request_is_read() -> None:
    """Every member arrives under its own name, values as sent."""
    request = parse_request(
        body(
            identifier={"step": 4, "class": None, "polygon": [[1.5, 2]]},
            from_id="5",
            from_date="2025-01-15T10:00:00Z",
            to_id="007",
            to_date="",
            payload={"z": 1, "a": [True]},
        )
    )
    assert request == NotificationRequest(
        event_type="mars",
        identifier={"step": 4, "class": None, "polygon": [[1.5, 2]]},
        from_id="5",
        from_date="2025-01-15T10:00:00Z",
        to_id="007",
        to_date="",
        payload={"z": 1, "a": [True]},
    )


def test_an_omitted_payload_differs_from_null() -> None:
    """An explicit null is present, an omitted payload is not."""
    assert parse_request(body()).payload is UNSET
    assert parse_request(body(payload=None)).payload is None


@pytest.mark.parametrize("name", ["from_id", "from_date", "to_id", "to_date"])
def test_cursors_are_text_integers_or_absent(name: str) -> None:
    """An integer is its decimal text, at any size and sign; null is absent."""
    assert getattr(parse_request(body(**{name: 1740509903710})), name) == "1740509903710"
    assert getattr(parse_request(body(**{name: -5})), name) == "-5"
    assert getattr(parse_request(body(**{name: 10**30})), name) == str(10**30)
    assert getattr(parse_request(body(**{name: None})), name) is None
    assert getattr(parse_request(body()), name) is None


@pytest.mark.parametrize("name", ["from_id", "from_date", "to_id", "to_date"])
@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("true", "boolean `true`"),
        ("1.5", "floating point `1.5`"),
        ("1.0", "floating point `1.0`"),
        ("1e3", "floating point `1000.0`"),
        ("[]", "sequence"),
        ("{}", "map"),
    ],
)
def test_other_cursors_are_shape_errors(name: str, value: str, found: str) -> None:
    """Booleans, fractional numbers, arrays and objects are refused, 1.0 too."""
    text = f'{{"event_type":"mars","identifier":{{}},"{name}":{value}}}'.encode()
    assert refused(text, WrongShape) == (
        f"Request deserialization failed: invalid type: {found}, expected a string"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "missing field `event_type`"),
        ('{"event_type":"a"}', "missing field `identifier`"),
        ('{"identifier":{}}', "missing field `event_type`"),
        ('{"event_type":5,"identifier":{}}', "invalid type: integer `5`, expected a string"),
        ('{"event_type":null,"identifier":{}}', "invalid type: null, expected a string"),
        ('{"event_type":"a","identifier":null}', "invalid type: null, expected a map"),
        ('{"event_type":"a","identifier":[]}', "invalid type: sequence, expected a map"),
        (
            '{"event_type":"a","identifier":"x\\"\\n"}',
            'invalid type: string "x\\"\\n", expected a map',
        ),
        ("[]", "invalid type: sequence, expected struct NotificationRequest"),
        ("null", "invalid type: null, expected struct NotificationRequest"),
        ("false", "invalid type: boolean `false`, expected struct NotificationRequest"),
        ("-7", "invalid type: integer `-7`, expected struct NotificationRequest"),
        ("1e-7", "invalid type: floating point `1e-7`, expected struct NotificationRequest"),
        ('"é"', 'invalid type: string "é", expected struct NotificationRequest'),
    ],
)
def test_shape_errors_have_fixed_words(text: str, why: str) -> None:
    """The first wrong type or missing member, byte for byte."""
    assert refused(text.encode(), WrongShape) == f"Request deserialization failed: {why}"


def test_an_unknown_member_is_named_with_the_allowed_ones() -> None:
    """The alphabetically first unknown member is named."""
    message = (
        "Request contains unknown fields: Unknown field 'Foo' in request. Allowed fields: "
        '["event_type", "identifier", "from_id", "from_date", "to_id", "to_date", "payload"]'
    )
    assert refused(body(zeta=1, Foo=2, bar=3), UnknownMember) == message


def test_an_unknown_member_beats_a_shape_error() -> None:
    """Syntax, then unknown member, then shape."""
    refused(b'{"foo":1,"event_type":5}', UnknownMember)
    refused(b'{"foo":1,"event_type":5', MalformedBody)


def test_types_are_examined_alphabetically_and_before_missing_members() -> None:
    """The first wrong type by name, then missing members."""
    assert "floating point" in refused(b'{"to_id":[],"identifier":null,"from_id":1.5}', WrongShape)
    assert "sequence" in refused(b'{"to_id":[]}', WrongShape)


def test_the_last_of_duplicate_members_wins_whatever_the_first_was() -> None:
    """A wrong earlier duplicate is forgotten."""
    text = (
        b'{"event_type":5,"identifier":[],"from_id":[],'
        b'"event_type":"a","identifier":{"x":1},"from_id":7}'
    )
    assert parse_request(text) == NotificationRequest(
        event_type="a", identifier={"x": 1}, from_id="7"
    )


@pytest.mark.parametrize(
    "part", [b"1e400", b"9" * 400, b"[" * 128 + b"]" * 128, b'"\xff"', rb'"\ud800"', b"NaN"]
)
def test_syntax_limits_hold_in_every_member(part: bytes) -> None:
    """A body that decodes to the request's type obeys the same limits as any other JSON."""
    for member in (b'"identifier":{"a":%s}', b'"identifier":{},"payload":[%s]'):
        refused(b'{"event_type":"a",' + member % part + b"}", MalformedBody)


@given(st.dictionaries(st.sampled_from([*MEMBERS, "foo"]), ANYTHING))
def test_the_quick_path_and_the_careful_one_agree(members: dict[str, Json]) -> None:
    """A body accepted in one step is the request the member-by-member examination gives."""
    text = msgspec.json.encode(members)
    assert outcome(lambda: parse_request(text)) == outcome(lambda: _examine(json.loads(text)))


@given(st.binary())
def test_any_bytes_give_a_request_error_or_a_request(text: bytes) -> None:
    """No body raises anything but the three errors of the parse stage."""
    with suppress(MalformedBody, UnknownMember, WrongShape):
        parse_request(text)
