"""Whatever a parser or codec is given, it reads it or raises the error it declares, no other.

Here are those that have no such law beside their other tests; docs/security.md lists all of them.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import settings as bounded
from hypothesis import strategies as st
from msgspec.json import encode as encode_json
from support import draws
from support.config import settings
from support.fuzz import DEEP, JSON, SLIPS, Slip, damaged, examples

from aviso_server.auth.authotron import find_token
from aviso_server.auth.credential import bearer_token, forwardable
from aviso_server.auth.keys import BadKey, key_set
from aviso_server.auth.outbound import Reply
from aviso_server.auth.refusal import MalformedHeader
from aviso_server.backends.jetstream.answers import read_fields
from aviso_server.backends.jetstream.connection import Refused, Unavailable, read_answer
from aviso_server.backends.jetstream.messages import Stored, decode, encode
from aviso_server.core.batch import is_array, parse_item
from aviso_server.core.cloudevent import Renderer
from aviso_server.core.declaration import BadDeclaration, declaration, read_declaration
from aviso_server.core.errors import (
    AvisoError,
    BodyTooLarge,
    InvalidRequest,
    MalformedBody,
    RequestError,
    WrongShape,
)
from aviso_server.core.fields.field import Field, ScalarField, scalar_text
from aviso_server.core.frame import Framer, NotRendered, StreamFailed
from aviso_server.core.geometry import Area
from aviso_server.core.identifier import check_spatial, compile_filter, read_identifier
from aviso_server.core.json import Json
from aviso_server.core.notification import Notification, Record, Unreadable
from aviso_server.core.operation import Operation
from aviso_server.core.split import split
from aviso_server.core.topic import TopicError, parse_subject, subject
from aviso_server.core.wire import parse_wipe
from aviso_server.http.body import _decode
from aviso_server.lake import wkb
from aviso_server.lake.record import batch_to_records, records_to_batch, storable
from aviso_server.pipeline.delivery.client import NotSent, _problem, _results
from aviso_server.pipeline.ingest.claim import BadClaim, read_line
from aviso_server.pipeline.ingest.table import _whole
from aviso_server.pipeline.recover.saved import Line, Saving, read_saved
from aviso_server.pipeline.sink import options as sink
from aviso_server.pipeline.source import options as source
from aviso_server.pipeline.source.events import record_of
from aviso_server.pipeline.source.failure import BadOption
from aviso_server.pipeline.source.http import _frame
from aviso_server.relay.admin import parse_id
from aviso_server.settings.environment import overlay

SCHEMAS = settings().catalogue.schemas
SCHEMA = draws.SCHEMA
RENDERER = Renderer("http://localhost:8000")
EVENT = (
    b'{"data":{"identifier":{"level":"3","polygon":[[1.0,2.0],[3.0,4.0],[5.0,1.0],[1.0,2.0]],'
    b'"region":"north"},"payload":{"a":[1]}},"id":"mixed@7","sequence":7,"specversion":"1.0",'
    b'"time":"2026-03-04T10:00:00.123456789Z","type":"int.ecmwf.aviso.mixed"}'
)
PLACE = wkb.encode(Area.of(((1.0, 2.0), (3.0, 4.0), (5.0, 1.0), (1.0, 2.0))))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


class Reader(NamedTuple):
    """A parser of bytes, bytes that it reads, and what it may raise for others."""

    read: Callable[[bytes], object]
    good: bytes
    errors: tuple[type[Exception], ...] = ()


READERS = {
    "request to wipe": Reader(parse_wipe, b'{"stream_name":"MARS"}', (MalformedBody, WrongShape)),
    "item of a batch": Reader(
        parse_item, b'{"event_type":"ev","identifier":{"region":"x"},"idempotency_key":"k"}'
    ),
    "event of a replay": Reader(lambda text: record_of(SCHEMA, text), EVENT, (ValueError,)),
    "frame of a stream": Reader(
        lambda text: _frame(text).members(), b"event: replay\ndata: " + EVENT, (MalformedBody,)
    ),
    "line of a legacy history": Reader(read_line, EVENT, (MalformedBody, BadClaim)),
    "identifier in a legacy table": Reader(
        lambda text: _whole(text.decode(errors="replace")), b'{"a":"b"}', (BadClaim,)
    ),
    "place in the lake": Reader(wkb.decode, PLACE, (ValueError,)),
    "answer of JetStream": Reader(
        read_answer,
        b'{"error":{"code":404,"err_code":1,"description":"x"}}',
        (Refused, Unavailable),
    ),
    "key set": Reader(key_set, b'{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}', (BadKey,)),
    "answer of auth-o-tron": Reader(
        lambda body: find_token(Reply(200, {}, body)), b'{"token":"a.b.c"}'
    ),
    "answer to the sink": Reader(
        lambda body: _results("http://x", body),
        b'{"results":[{"status":"success","id":"a@1"}]}',
        (NotSent,),
    ),
    "refusal to the sink": Reader(_problem, b'{"code":"X","message":"y"}'),
}


@pytest.mark.parametrize("name", READERS)
def test_any_bytes_are_read_or_refused(name: str) -> None:
    """Arbitrary, damaged, nested without end, and texts that are not UTF-8 where text is due."""
    read, good, errors = READERS[name]

    def attempt(text: bytes) -> None:
        with suppress(*errors):
            read(text)

    with suppress(*(error for error in errors if error is Refused)):
        read(good)
    for text in (DEEP, b"[1]", b"null", b"1"):
        attempt(text)
    quotes = [at for at, byte in enumerate(good) if byte == ord('"')]
    for at in quotes:
        attempt(good[: at + 1] + b"\xff" + good[at + 1 :])
        attempt(good[:at] + DEEP)

    @given(st.binary(max_size=60), SLIPS)
    @bounded(max_examples=examples(60))
    def search(noise: bytes, slips: list[Slip]) -> None:
        attempt(noise)
        attempt(damaged(good, slips))

    search()


@given(st.binary(max_size=60), SLIPS, st.sampled_from(["gzip", "deflate", "br", "é", "\udcff"]))
@bounded(max_examples=examples(60))
def test_any_encoded_body_is_decoded_or_refused(
    noise: bytes, slips: list[Slip], encoding: str
) -> None:
    """Whatever the encoding is called, and however the bytes are damaged."""
    gzip = bytes.fromhex("1f8b08000000000002ffabae050043bfa6a302000000")
    for body in (noise, damaged(gzip, slips)):
        with suppress(MalformedBody, BodyTooLarge):
            _decode(body, encoding, 1000)


@given(st.binary(max_size=80), st.integers(1, 20))
@bounded(max_examples=examples(100))
def test_any_batch_is_taken_apart_or_refused(body: bytes, block: int) -> None:
    """Items lie in the body, one behind the other, whatever bytes it is made of."""
    behind = 0
    with suppress(RequestError):
        for spans in split(body, max_items=10, block_size=block):
            for start, end in spans:
                assert behind <= start <= end <= len(body)
                behind = end
    assert is_array(body) is body.lstrip().startswith(b"[")


FIELDS = [field for schema in SCHEMAS.values() for field in schema.fields] + list(SCHEMA.fields)


@given(st.sampled_from(FIELDS), JSON)
@bounded(max_examples=examples(300))
def test_any_value_of_a_field_is_read_or_refused(field: Field, value: Json) -> None:
    """Canonical text is its own canonical form; a place is read again from its own points."""
    with suppress(InvalidRequest):
        if isinstance(field, ScalarField):
            text = field.canonical(scalar_text(field.name, value))
            assert field.canonical(text) == text
        else:
            place = field.parse(value)
            assert field.parse([list(point) for point in place.points]).points == place.points


OPERATORS = st.sampled_from(["eq", "in", "gt", "gte", "lt", "lte", "between", "x"])


@given(st.sampled_from(FIELDS), st.dictionaries(OPERATORS, JSON, max_size=2), TEXTS)
@bounded(max_examples=examples(200))
def test_any_constraint_is_compiled_or_refused(
    field: Field, spec: dict[str, Json], stored: str
) -> None:
    """What is compiled has an answer for every stored text."""
    with suppress(InvalidRequest):
        assert field.constrain(spec).test(stored) in {True, False}


@given(
    st.sampled_from(sorted(SCHEMAS)),
    st.dictionaries(
        st.sampled_from([field.name for field in FIELDS] + ["point", "nope"]), JSON, max_size=4
    ),
)
@bounded(max_examples=examples(150))
def test_any_identifier_is_understood_or_refused(name: str, values: dict[str, Json]) -> None:
    """As an announcement and as a filter, of each event type."""
    with suppress(InvalidRequest):
        read_identifier(SCHEMAS[name], values)
    with suppress(InvalidRequest):
        check_spatial(values)
        compile_filter(SCHEMAS[name], values, Operation.REPLAY)


@given(draws.notifications(), st.data())
@bounded(max_examples=examples(60))
def test_any_stored_message_can_be_shown(item: Notification, data: st.DataObject) -> None:
    """Others may write to the log: what they wrote is shown, or is unreadable, and kept as such."""
    message = encode(SCHEMA, item, "key")
    headers = read_fields(message.head)
    for header in data.draw(st.sets(st.sampled_from([*headers, "aviso-identifier", "x"]))):
        text = headers.get(header, "").encode()
        broken = damaged(text, data.draw(SLIPS)).decode(errors="replace")
        headers[header] = data.draw(st.sampled_from([broken, "{}", "[1e999]", '{"a":1}', ""]))
    body = damaged(message.body, data.draw(SLIPS))
    assert_shown(Stored(1, 2, message.subject + data.draw(TEXTS), headers, body))


@pytest.mark.parametrize(
    "text", [pytest.param(DEEP.decode(), id="deep"), '{"tag":"\\ud800"}', '{"\\udfff":"x"}']
)
def test_an_identifier_that_no_text_can_hold_is_unreadable(text: str) -> None:
    """Nested without end, or half a character: no stream may break for it."""
    assert isinstance(
        decode(SCHEMA, Stored(1, 2, "mixed", {"Aviso-Identifier": text}, b"1")), Unreadable
    )


def assert_shown(stored: Stored) -> None:
    entry = decode(SCHEMA, stored)
    if isinstance(entry, Record):
        assert json.loads(json.dumps(entry.notification.topic))
        RENDERER.render(entry)
    record = storable(entry)
    assert record.sequence == entry.sequence
    if isinstance(record, Record):
        assert batch_to_records(records_to_batch([record]))[0].sequence == 1


@given(TEXTS | st.text(".%aF0é*", max_size=20))
@bounded(max_examples=examples(150))
def test_any_subject_is_read_or_refused(text: str) -> None:
    """What is read means the same when it is written again."""
    with suppress(TopicError):
        tokens = parse_subject(text)
        assert parse_subject(subject(tokens)) == tokens


@given(JSON, st.sampled_from(sorted(SCHEMAS)), st.data())
@bounded(max_examples=examples(100))
def test_any_declaration_is_read_or_refused(noise: Json, name: str, data: st.DataObject) -> None:
    """A schema comes back from its declaration; with anything in its place it is refused."""
    written = declaration(SCHEMAS[name])
    assert declaration(read_declaration(written)) == written
    spoiled = {**written, data.draw(st.sampled_from(sorted(written))): noise}
    fields: Json = {**written, "identifier": [{"name": "x", "type": noise}]}
    for value in (noise, spoiled, fields):
        with suppress(BadDeclaration):
            read_declaration(value)


@given(st.text(max_size=30), st.sampled_from(["", "Bearer ", "bearer\t", "Basic "]))
@bounded(max_examples=examples(80))
def test_any_header_is_a_credential_or_refused(text: str, scheme: str) -> None:
    """Header bytes that are not UTF-8 arrive as lone surrogates."""
    for read in (forwardable, bearer_token):
        with suppress(MalformedHeader):
            assert read(scheme + text)


@given(st.text(max_size=30) | st.tuples(TEXTS, st.integers()).map(lambda p: f"{p[0]}@{p[1]}"))
@bounded(max_examples=examples(80))
def test_any_notification_id_is_read_or_refused(text: str) -> None:
    """Sequences are positive and fit 64 bits."""
    with suppress(InvalidRequest):
        name, sequence = parse_id(text)
        assert name
        assert 0 < sequence < 2**64


@given(st.text(max_size=200), st.text(max_size=50))
@bounded(max_examples=examples(80))
def test_any_text_stays_inside_its_frame(message: str, topic: str) -> None:
    """A frame is two lines and one JSON text, whatever is said in it."""
    framer = Framer("id", topic.encode(errors="replace").decode())
    said = message.encode(errors="replace").decode()
    for frame in (StreamFailed(said), NotRendered(1, said, said)):
        name, data, *end = framer.render(frame, 0).split(b"\n")
        assert (name, end) == (b"event: error", [b"", b""])
        assert json.loads(data.removeprefix(b"data: "))["message"] == said


WORDS = "{ {} [] [1] earliest latest -1 true a,b http://x http://[ nats://a@b 2025-01-01T00:00:00Z"
ODD = st.sampled_from([*WORDS.split(), "", "9" * 30, '{"*":1}', '{"identifier":{}}', "\ud800"])


@given(st.dictionaries(st.sampled_from([*source.KNOWN, "nope"]), ODD | TEXTS, max_size=5))
@bounded(max_examples=examples(200))
def test_any_options_of_the_source_are_read_or_refused(given_options: dict[str, str]) -> None:
    """Alone, and beside an address and an event type that are good."""
    for base in ({}, {"url": "http://x", "eventType": "a"}, {"servers": "nats://x"}):
        with suppress(BadOption):
            source.read_options({**base, **given_options})


@example({"username": "\ud800", "password": "p"})
@given(st.dictionaries(st.sampled_from([*sink._NAMES, "nope"]), ODD | TEXTS, max_size=5))
@bounded(max_examples=examples(200))
def test_any_options_of_the_sink_are_read_or_refused(given_options: dict[str, str]) -> None:
    """Alone, and beside an address and a way to reject that are good."""
    for base in ({}, {"url": "http://x", "onReject": "fail"}):
        with suppress(sink.BadSinkOptions):
            sink.parse_options({**base, **given_options})


def test_a_saved_message_comes_back_as_it_was(tmp_path: Path) -> None:
    """Whatever bytes it is made of; what NATS adds to a message is not part of it."""
    every = bytes(range(256))
    saving = Saving(tmp_path / "saved")
    saving.add("mixed", Stored(7, 1, "mixed.é", {"Nats-X": "1", "a": "\x7f"}, every))
    saving.keep()
    (line,) = read_saved(tmp_path / "saved")
    assert (line.subject, line.headers, line.body) == ("mixed.é", {"a": "\x7f"}, every)


@given(slips=SLIPS, noise=st.binary(max_size=40))
@bounded(max_examples=examples(60))
def test_any_saved_line_is_read_or_refused(tmp_path: Path, slips: list[Slip], noise: bytes) -> None:
    """A damaged file is refused by line."""
    line = Line("mixed", 7, "2026-03-04T10:00:00Z", 1, "mixed", {"a": "b"}, noise)
    path = tmp_path / "saved"
    for text in (damaged(encode_json(line), slips), noise, b'{"event_type":"\xff"}', DEEP):
        path.write_bytes(text)
        with suppress(AvisoError):
            list(read_saved(path))


@given(st.sampled_from(["", "[", "{"]), st.text(max_size=30), st.booleans())
@bounded(max_examples=examples(60))
def test_any_environment_is_laid_over_or_reported(start: str, text: str, deep: bool) -> None:
    """A value that looks like JSON and is not is a fault, never an error."""
    value = start + DEEP.decode() * deep + text
    laid = overlay({}, {"AVISOSERVER_APPLICATION__PORT": value}, lambda _: True)
    assert laid.faults or laid.raw
