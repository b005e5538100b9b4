"""Topics: the codec, building, reading back, the request pattern."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.config import settings
from support.draws import SCHEMA, notifications

from aviso_server.core.errors import InvalidRequest
from aviso_server.core.filter import Filter
from aviso_server.core.geometry import Area
from aviso_server.core.identifier import compile_filter
from aviso_server.core.notification import Notification
from aviso_server.core.operation import Operation
from aviso_server.core.schema import Catalogue, Schema
from aviso_server.core.topic import (
    MAX_SUBJECT_BYTES,
    TopicError,
    decode_token,
    encode_token,
    identifier_of,
    parse_subject,
    pattern,
    subject,
    tokens_of,
)

CATALOGUE = settings().catalogue
GENERIC = Catalogue(strict=False).find("made_up")


@pytest.mark.parametrize(
    ("logical", "wire"),
    [
        ("1.45", "1%2E45"),
        ("1*34", "1%2A34"),
        ("1>0", "1%3E0"),
        ("a b", "a%20b"),
        ("1%", "1%25"),
        ("1.45*foo>bar%baz", "1%2E45%2Afoo%3Ebar%25baz"),
        ("é", "é"),
        ("\x7f\n", "%7F%0A"),
    ],
)
def test_codec_table(logical: str, wire: str) -> None:
    """The protocol's table, both ways."""
    assert encode_token(logical) == wire
    assert decode_token(wire) == logical


@pytest.mark.parametrize(
    ("wire", "logical"), [("%2e", "."), ("%41", "A"), ("%C3%A9", "é"), ("1%25", "1%")]
)
def test_decoding_is_lenient_about_case_and_need(wire: str, logical: str) -> None:
    """Any %HH in either case is decoded, byte-wise, once."""
    assert decode_token(wire) == logical


@pytest.mark.parametrize(
    ("wire", "message"),
    [
        ("%", "Invalid percent-encoding: trailing '%' in token '%'"),
        ("%2", "Invalid percent-encoding: trailing '%' in token '%2'"),
        ("%2G", "Invalid percent-encoding: non-hex 'G' in token '%2G'"),
        ("%%25", "Invalid percent-encoding: non-hex '%' in token '%%25'"),
    ],
)
def test_bad_encodings(wire: str, message: str) -> None:
    """A broken escape is named."""
    with pytest.raises(TopicError) as caught:
        decode_token(wire)
    assert str(caught.value) == message


def test_decoded_bytes_must_be_text() -> None:
    """What decodes to something that is not UTF-8 is refused."""
    with pytest.raises(TopicError, match=r"Decoded token is not valid UTF-8 \('%FF'\): "):
        decode_token("%FF")


@given(st.lists(st.text(min_size=1), min_size=1, max_size=6))
def test_subjects_round_trip(tokens: list[str]) -> None:
    """Encoding loses nothing, and the wire form has nothing NATS gives a meaning to."""
    wire = subject(tokens)
    assert parse_subject(wire) == tuple(tokens)
    assert not set(wire) & set(" *>\t\r\n\x00\x7f")
    assert wire.count(".") == len(tokens) - 1


def test_examples() -> None:
    """The protocol's examples of stored topics."""
    extreme = CATALOGUE.schemas["extreme"]
    values = {"region": "north", "run_time": "1200", "severity": "4", "anomaly": "42.5"}
    tokens = tokens_of(extreme, values, None)
    assert subject(tokens) == "extreme.north.1200.4.42%2E5"
    assert ".".join(tokens) == "extreme.north.1200.4.42.5"
    assert parse_subject("diss%2Ev2.FOO") == ("diss.v2", "FOO")


def test_a_polygon_in_key_order_contributes_its_text() -> None:
    """It is a token, and still read back from the geometry, not from the token."""
    schema = Schema("area", SCHEMA.fields, base="area", key_order=("tag", "polygon"))
    area = Area(((0.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.0, 0.0)), "(0,0,0,1,1,1,0,0)")
    tokens = tokens_of(schema, {"tag": "a"}, area)
    assert tokens == ("area", "a", "(0,0,0,1,1,1,0,0)")
    assert identifier_of(("tag", "polygon"), tokens) == {"tag": "a"}


def test_without_topic_and_generic() -> None:
    """Without a topic block, values follow the event type in order of field name."""
    schema = Schema("mixed", SCHEMA.fields, base="mixed")
    values = {"tag": "t", "region": "r", "value": "1", "level": "2"}
    assert tokens_of(schema, values, None) == ("mixed", "2", "r", "t", "1")
    assert tokens_of(GENERIC, {"b": "2", "a": "1"}, None) == ("made_up", "1", "2")
    assert tokens_of(GENERIC, {}, None) == ("made_up",)


def test_long_topics_are_refused() -> None:
    """A subject of more than 3072 bytes is refused; 3072 themselves are not."""
    room = 3072 - len("made_up.")
    assert tokens_of(GENERIC, {"a": "x" * room}, None)
    with pytest.raises(InvalidRequest) as caught:
        tokens_of(GENERIC, {"a": "x" * (room + 1)}, None)
    assert caught.value.message == "Topic exceeds maximum length of 3072 bytes, got: 3073"


def test_reading_back_tolerates_other_lengths() -> None:
    """Surplus tokens are ignored, missing ones leave the field out."""
    names = ("region", "run_time")
    assert identifier_of(names, ("extreme", "north")) == {"region": "north"}
    assert len(identifier_of(names, ("extreme", *"abcdefg"))) == 2


@given(notifications())
def test_tokens_carry_the_key_order_fields(notification: Notification) -> None:
    """What the topic carries is read back from it unchanged."""
    carried = identifier_of(SCHEMA.token_fields or (), parse_subject(subject(notification.tokens)))
    assert carried == {name: notification.identifier[name] for name in ("region", "level")}


def test_request_patterns() -> None:
    """Values where fixed, a star where free, constrained or spatial."""
    extreme = CATALOGUE.schemas["extreme"]
    asked = compile_filter(extreme, {"region": "North", "severity": {"gte": 4}}, Operation.WATCH)
    assert pattern(extreme, asked) == "extreme.north.*.*.*"
    assert pattern(GENERIC, Filter((("a", "1"), ("b", "2")))) == "made_up.1.2"


@given(st.text("a.*>% é\x00€", max_size=40))
def test_a_topic_is_measured_as_it_would_be_encoded(text: str) -> None:
    """The length in the refusal is that of the subject, which is not made for it."""
    long = text + "x" * MAX_SUBJECT_BYTES
    size = len(encode_token(long).encode()) + len("made_up.")
    with pytest.raises(InvalidRequest, match=rf"got: {size}$"):
        tokens_of(GENERIC, {"a": long}, None)
