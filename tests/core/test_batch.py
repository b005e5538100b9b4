"""Taking a batch apart: where its items are, how many, and at what cost."""

import json
import tracemalloc

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aviso_server.core.batch import (
    AT_ONCE,
    MAX_COMMAS,
    MAX_ENVELOPE,
    check_element,
    elements,
    is_array,
    parse_item,
    parse_items,
    unwrap,
)
from aviso_server.core.errors import InvalidRequest, MalformedBody, RequestError, WrongShape
from aviso_server.core.json import parse
from aviso_server.core.split import BLOCK, split

BLOCKS = st.integers(1, 9)
"""So small that everything is cut somewhere."""
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('a"\\[]{},:\n é'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('k"\\{'), inner),
    max_leaves=8,
)
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])


def texts(body: bytes, *, block: int = BLOCK, max_items: int = 10_000) -> list[bytes]:
    """The items of a body, checked; a RequestError when it is refused as a whole."""
    found = split(body, max_items=max_items, block_size=block)
    spans = [span for spans in found for span in spans]
    if is_array(body):
        for span in spans:
            check_element(body, span)
    return [body[start:end] for start, end in spans]


@given(st.lists(VALUES, min_size=1), st.sampled_from([None, 1]), BLOCKS)
def test_the_elements_of_an_array_are_found(
    values: list[object], indent: int | None, block: int
) -> None:
    """Whatever is in them, and wherever the blocks end."""
    body = json.dumps(values, indent=indent, ensure_ascii=False).encode()
    stepwise = texts(body, block=block)
    assert [json.loads(text) for text in stepwise] == values
    assert elements(body, max_items=len(values)) == [text.strip() for text in stepwise]
    assert elements(body, max_items=len(values) - 1) is None


@given(st.text('[]{},:"\\1 \n').map(lambda text: f"[{text}]".encode()), BLOCKS)
@example(b'["\\\\",1]', 3)
@example(b"[1}", 2)
@example(b"[[1]}", 2)
@example(b"[1]]", 9)
@example(b"[,]", 9)
@example(b"[ ]", 1)
def test_an_array_is_refused_exactly_if_it_is_not_json(body: bytes, block: int) -> None:
    """The parser that reads it in one step is the oracle, for the items as well."""
    try:
        expected = [bytes(item).strip() for item in _ELEMENTS.decode(body)]
    except msgspec.DecodeError:
        with pytest.raises(MalformedBody, match=r"^JSON parsing failed: .* at line \d+ column \d+"):
            texts(body, block=block)
        assert elements(body, max_items=100) is None
        return
    if not expected:
        with pytest.raises(InvalidRequest):
            texts(body, block=block)
    else:
        assert [text.strip() for text in texts(body, block=block)] == expected


def test_only_small_arrays_are_taken_apart_in_one_step() -> None:
    """By their bytes, and by how many elements they could have; lines are no array."""
    assert elements(b"[1]" + b" " * (AT_ONCE - 3), max_items=9) == [b"1"]
    assert elements(b"[1]" + b" " * (AT_ONCE - 2), max_items=9) is None
    assert elements(b"[" + b"1," * MAX_COMMAS + b"1]", max_items=AT_ONCE) == [b"1"] * (
        MAX_COMMAS + 1
    )
    assert elements(b"[" + b"1," * (MAX_COMMAS + 1) + b"1]", max_items=AT_ONCE) is None
    assert elements(b"[]", max_items=9) is None
    assert elements(b"1\n2", max_items=9) is None


@given(st.text("ab \t\r\n").map(str.encode), BLOCKS)
def test_lines_that_are_not_blank_are_items(body: bytes, block: int) -> None:
    """With any mixture of ends and blank lines between them."""
    expected = [line for line in body.split(b"\n") if line.strip()]
    if expected:
        assert texts(body, block=block) == expected
    else:
        with pytest.raises(InvalidRequest):
            texts(body, block=block)


@pytest.mark.parametrize("body", [b'[1,\n {"b":yes}]', b'\n[1,2,{"a":1}}', b'[1,\n"\xff'])
def test_the_place_of_a_fault_is_that_in_the_whole_body(body: bytes) -> None:
    """An element is explained by itself, but its line and column are those the client sees."""
    with pytest.raises(MalformedBody) as whole:
        parse(body)
    with pytest.raises(MalformedBody) as refused:
        texts(body)
    assert refused.value.message.rpartition(" at ")[2] == whole.value.message.rpartition(" at ")[2]


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"1," * 4_000_000 + b"1]",
        b"[" + b"{}," * 2_600_000 + b"{}]",
        b"1\n" * 4_000_000,
    ],
    ids=["numbers", "objects", "lines"],
)
def test_too_many_items_are_refused_before_anything_is_made_of_them(body: bytes) -> None:
    """A body of 8 MB costs no more memory than a few blocks of it."""
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest, match="more than 5000"):
            texts(body, max_items=5000)
        assert tracemalloc.get_traced_memory()[1] < 12_000_000  # one copy, to look for blanks
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "body",
    [b"\n" * 1_000_000, b" \n" * 500_000, b"[" * 1_000_000, b'["' + b'\\"' * 500_000, b"1" * 10**6],
    ids=["newlines", "blank lines", "brackets", "quotes", "one line"],
)
def test_every_step_looks_at_one_block(body: bytes) -> None:
    """So the caller can do something else in between, whatever the body holds."""
    steps = 0
    try:
        for _ in split(body, max_items=5000):
            steps += 1
    except RequestError:
        pass
    assert steps >= len(body) // BLOCK


@pytest.mark.parametrize(
    ("body", "atomic"),
    [
        (b'{"atomic": true, "notifications": [{"a": [1]}, 2]}', True),
        (b' {\n"notifications" : [{"a": [1]}, 2] ,\n "atomic" : false } \n', False),
        (b'{"notifications":[{"a": [1]}, 2]}', False),
    ],
)
def test_an_array_may_be_in_an_object(body: bytes, atomic: bool) -> None:
    """Its elements stand where they stood, so that errors name the right place."""
    inner, found = unwrap(body)
    assert found is atomic
    assert texts(inner) == [b'{"a": [1]}', b" 2"]
    assert inner.index(b"[") == body.index(b"[")
    assert inner.count(b"\n", 0, body.index(b"[")) == body.count(b"\n", 0, body.index(b"["))


@pytest.mark.parametrize("body", [b"[1]", b'{"event_type":"x"}\n{"atomic":true}', b"", b"x"])
def test_all_else_is_no_such_object(body: bytes) -> None:
    """Arrays and lines are as they were."""
    assert unwrap(body) == (body, False)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"atomic": true}', "WrongShape"),
        (b'{"atomic": 1, "notifications": [1]}', "WrongShape"),
        (b'{"notifications": {"a": [1]}}', "WrongShape"),
        (b'{"notifications": [1], "more": 2}', "UnknownMember"),
        (b'{"notifications": [1]', "MalformedBody"),
        (b'{"notifications": [1]} x', "MalformedBody"),
        (b'{"atomic": true, "notifications"', "MalformedBody"),
    ],
)
def test_objects_that_are_refused(body: bytes, error: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(RequestError) as refusal:
        unwrap(body)
    assert type(refusal.value).__name__ == error


def test_two_arrays_are_not_one() -> None:
    """A member given twice is refused: which of the two is meant?"""
    inner, _ = unwrap(b'{"notifications": [1], "notifications": [2]}')
    with pytest.raises(MalformedBody):
        texts(inner)


@pytest.mark.parametrize(
    "body",
    [
        b'{"atomic":true,' + b" " * MAX_ENVELOPE + b'"notifications":[1]}',
        b'{"notifications":[1]' + b" " * MAX_ENVELOPE + b"}",
        b'{"notifications":"' + b"x" * MAX_ENVELOPE + b'"}',
    ],
)
def test_what_surrounds_the_array_is_bounded(body: bytes) -> None:
    """Megabytes of blanks would be read while everybody waits."""
    with pytest.raises(WrongShape, match="4096 bytes outside its array"):
        unwrap(body)


GOOD = b'{"event_type":"ev","identifier":{"n":"1"},"payload":[1]}'
ITEMS = [
    GOOD,
    GOOD[:-1] + b',"idempotency_key":"k"}',
    GOOD[:-1] + b',"other":1}',
    GOOD.replace(b"[1]", b"[" * 130 + b"]" * 130),
    GOOD.replace(b"[1]", b"9" * 309),
    GOOD[:-1],
    b"\xff",
    WrongShape("refused before"),
]


@given(st.lists(st.sampled_from(ITEMS), max_size=5))
def test_items_read_in_one_go_are_read_as_if_alone(items: list[bytes | RequestError]) -> None:
    """Whatever stands beside them."""
    alone = [item if isinstance(item, RequestError) else parse_item(item) for item in items]
    assert list(map(_shown, parse_items(items))) == list(map(_shown, alone))


def _shown(item: object) -> object:
    return (type(item), str(item)) if isinstance(item, RequestError) else item
