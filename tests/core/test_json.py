"""Reading and writing JSON."""

import json
import math
import re
from typing import NoReturn

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.cost import assert_linear

from aviso_server.core.errors import MalformedBody
from aviso_server.core.json import MAX_DEPTH, Json, _outside_strings, compact, parse

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
BLANKS = bytes.maketrans(b'"\\', b"  ")
PIECES = st.sampled_from('{}[],:"\\0-eé \n\x00\ufeff') | st.sampled_from(
    ["\\u", "d800", "dc00", '"a"', '"\\ud83d\\ude00"', "1.5", "E+9", "1e400", "true", "null", "NaN"]
)


def reason(body: bytes) -> str:
    with pytest.raises(MalformedBody) as raised:
        parse(body)
    assert raised.value.details == raised.value.message
    return raised.value.message


def _refuse(_: str) -> NoReturn:
    raise ValueError


def _finite(text: str) -> float:
    if math.isinf(float(text)):
        raise ValueError
    return float(text)


def _integer(text: str) -> int:
    _finite(text)
    return int(text)


def _depth(value: Json) -> int:
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    return 0


def oracle(body: bytes) -> Json:
    """The standard library's reading plus the protocol's extra refusals; ValueError if refused."""
    text = body.decode()
    if text.startswith("\ufeff"):
        raise ValueError
    value: Json = json.loads(text, parse_constant=_refuse, parse_float=_finite, parse_int=_integer)
    json.dumps(value, ensure_ascii=False).encode()  # lone surrogates cannot be encoded
    return value


def agree(body: bytes) -> None:
    try:
        expected = oracle(body)
    except ValueError:
        assert re.fullmatch(
            r"JSON parsing failed: .+ at line [1-9][0-9]* column [1-9][0-9]*", reason(body)
        )
    else:
        assert parse(body) == expected


@given(VALUES)
def test_what_is_written_is_read_back(value: Json) -> None:
    """Writing and reading is the identity on every JSON value."""
    assert parse(compact(value)) == value


@given(VALUES)
def test_writing_is_compact_sorted_and_raw(value: Json) -> None:
    """The spelling is that of sorted keys, no spaces and raw UTF-8."""
    spelled = compact(value)
    assert compact(parse(spelled)) == spelled
    assert spelled == spelled.strip()
    spelled.decode()


def test_keys_are_sorted_by_code_point_at_every_level() -> None:
    """Key order is by code point, also inside arrays and objects."""
    value: Json = {"b": [{"é": 1, "z": 2, "Z": 3}], "a": None}
    assert compact(value) == '{"a":null,"b":[{"Z":3,"z":2,"é":1}]}'.encode()


@given(st.binary())
def test_any_bytes_are_read_or_refused_as_malformed(body: bytes) -> None:
    """No bytes raise anything but MalformedBody, and the standard library agrees."""
    agree(body)


@given(st.lists(PIECES).map(lambda parts: "".join(parts).encode()))
def test_scraps_of_json_are_judged_as_the_standard_library_judges_them(body: bytes) -> None:
    """Validity agrees with Python's json module and the protocol's extra rules."""
    agree(body)


@given(VALUES, st.data())
def test_damaged_documents_are_judged_as_the_standard_library_judges_them(
    value: Json, data: st.DataObject
) -> None:
    """One changed, removed or added byte anywhere gives the same verdict and value."""
    body = bytearray(json.dumps(value).encode())
    at = data.draw(st.integers(0, len(body) - 1))
    body[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    agree(bytes(body))


@pytest.mark.parametrize(
    "body",
    [
        rb'"\ud800"',
        rb'"\ud800abc"',
        rb'"\ud800abcdefghijkl"',
        rb'"\ud800\u0041"',
        rb'"\ud800\ud800"',
        rb'"\udc00"',
        rb'"\udc00abc"',
        rb'{"\ud800":1}',
        rb'{"a":["\udfffx"]}',
        b'"\xed\xa0\x80"',
        b'"\xff"',
        b'{"\xff":1}',
        b"\xef\xbb\xbf{}",
        b"NaN",
        b"-Infinity",
        b"1e400",
        b"[-1e309]",
        b"9" * 309,
        b'{"a":' + b"9" * 5000 + b"}",
        b"9" * 400 + b".5",
        b"{} {}",
        b"",
        b" ",
        b"{",
        b"'a'",
        b'{"a":1,}',
        b'"a\nb"',
    ],
)
def test_each_kind_of_malformed_text_is_refused(body: bytes) -> None:
    """Every syntax fault is a MalformedBody with a place."""
    agree(body)
    with pytest.raises(MalformedBody):
        parse(body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "unexpected end of input at line 1 column 1"),
        (b'{\n  "a": x\n}', "invalid character at line 2 column 8"),
        (b'["\xc3\xa9", x]', "invalid character at line 1 column 8"),
        (b'[1,\n"\xff"]', "invalid UTF-8 at line 2 column 2"),
        (b'["1e400", 1e400]', "number out of range at line 1 column 11"),
        (b"[1, " + b"9" * 400 + b"]", "number out of range at line 1 column 5"),
        (rb'["a\\", "\ud800"]', "lone surrogate in string at line 1 column 10"),
        (b"\n" + b"[" * 129 + b"]" * 129, "nesting deeper than 128 levels at line 2 column 129"),
    ],
)
def test_the_place_of_a_fault_is_reported(body: bytes, message: str) -> None:
    """Lines and columns count from 1 and columns count bytes."""
    assert reason(body) == f"JSON parsing failed: {message}"


def test_the_opening_words_are_the_callers() -> None:
    """A route with its own wording keeps reason and place."""
    with pytest.raises(MalformedBody, match=r"^Json deserialize error: .+ at line 1 column 1$"):
        parse(b"", failed="Json deserialize error")


def test_the_last_of_duplicate_keys_wins() -> None:
    """Duplicate keys are not an error."""
    assert parse(b'{"a":1,"b":2,"a":3}') == {"a": 3, "b": 2}


def test_integers_are_exact_as_long_as_they_fit_a_double() -> None:
    """An integer keeps every digit up to the range of a double, and is refused beyond it."""
    largest = int(1.7976931348623157e308)
    assert parse(str(largest).encode()) == largest
    assert "number out of range" in reason(str(largest * 10).encode())


def test_long_digits_inside_a_string_are_text() -> None:
    """Only numbers are held against the range of a double."""
    assert parse(b'["%s"]' % (b"9" * 400)) == ["9" * 400]


@given(
    depth=st.integers(1, 2 * MAX_DEPTH),
    shapes=st.lists(
        st.sampled_from([("[", "]"), ('{"]":', "}"), ('{"a":1,"[":', "}"), ("[[],", "]")])
    ),
)
@example(depth=MAX_DEPTH, shapes=[("[", "]")])
@example(depth=MAX_DEPTH + 1, shapes=[("[", "]")])
@example(depth=2000, shapes=[('{"a":', "}")])
@pytest.mark.parametrize("small", [0, 16 * 1024])
def test_nesting_is_read_down_to_128(depth: int, shapes: list[tuple[str, str]], small: int) -> None:
    """128 levels are read and 129 refused, whatever brackets stand in strings or beside."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aviso_server.core.json._SMALL", small)
        _check_nesting(depth, shapes)


def _check_nesting(depth: int, shapes: list[tuple[str, str]]) -> None:
    levels = [(shapes or [("[", "]")])[i % (len(shapes) or 1)] for i in range(depth)]
    innermost = "1" if levels[-1][0] != "[[]," else "[]"
    text = "".join(o for o, _ in levels) + innermost + "".join(c for _, c in reversed(levels))
    body = text.encode()
    # "[[]," holds an empty array one level further down.
    extra = max((i + 2 for i, (o, _) in enumerate(levels) if o == "[[],"), default=0)
    if max(depth, extra) > MAX_DEPTH:
        assert "nesting deeper than 128 levels" in reason(body)
    else:
        assert _depth(parse(body)) == max(depth, extra)


def test_nesting_hidden_behind_a_duplicate_key_is_refused() -> None:
    """The text is measured, not the value it leaves."""
    assert "nesting" in reason(b'{"a":' + b"[" * 128 + b"]" * 128 + b',"a":1}')


def test_many_shallow_brackets_are_read() -> None:
    """The number of brackets is no limit, whether in arrays, objects or text."""
    value: Json = [[[1, 2], {"a": []}, "[{" * 200]] * 300
    assert parse(compact(value)) == value


def _refusal(body: bytes) -> str:
    try:
        parse(body)
    except MalformedBody as error:
        return error.message
    raise AssertionError("was read")


@pytest.mark.parametrize(
    ("start", "pump", "end"),
    [
        (b"[" * 1200 + b'"', rb"\"", b""),
        (b'[1e999,"', rb"\"", b""),
        (b'["' + b"[" * 1200, rb"\\", b""),
        (b"[", b'"",', b"1e999]"),
        (b"[", b"1e100,", b"1e999]"),
        (b"[", b"9" * 208 + b",", b"9" * 400 + b"]"),
        (b"[", b"\n", b"x"),
        (b'["', b"a", b'\xff"]'),
        (b'["', rb"\ud83d\ude00", rb"\ud800"),
    ],
)
def test_refusing_is_linear(start: bytes, pump: bytes, end: bytes) -> None:
    """Whatever is wrong with a text, saying so does not take longer per byte for long texts."""
    assert_linear(_refusal, lambda size: start + pump * (size // len(pump)) + end, size=60_000)


def test_the_place_of_a_number_is_looked_for_near_the_beginning_only() -> None:
    """Far behind, the number is refused without a place."""
    far = b"[" + b"1," * 40_000 + b"1e999]"
    assert reason(far) == "JSON parsing failed: number out of range"


@given(st.lists(st.sampled_from([rb"\"", rb"\\", b'"', b"[", b"9", b" "]), max_size=60))
def test_strings_are_found_across_blocks(parts: list[bytes]) -> None:
    """Quotes and escapes mean the same wherever a block ends."""
    body = b"".join(parts)
    with pytest.MonkeyPatch.context() as patch:
        # A backslash outside a string is no JSON, and whether it stays is not a promise.
        few = _outside_strings(body)
        patch.setattr("aviso_server.core.json._SMALL", -1)
        whole = _outside_strings(body).replace(b"\\", b" ")
        patch.setattr("aviso_server.core.json._BLOCK", 3)
        assert _outside_strings(body).replace(b"\\", b" ") == whole
    # Nor whether the quote at the end of a string does.
    assert few.translate(BLANKS) == whole.translate(BLANKS)
    assert len(whole) == len(body)
