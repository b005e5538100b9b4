"""Int and float fields."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aviso_server.core.errors import InvalidRequest
from aviso_server.core.excerpt import excerpt
from aviso_server.core.fields.number import FloatField, IntField

INT = IntField(name="f", required=True)
FLOAT = FloatField(name="f", required=True)
DIGIT = "invalid digit found in string"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("42", "42"),
        ("+42", "42"),
        ("0042", "42"),
        ("-42", "-42"),
        ("0", "0"),
        ("-0", "0"),
        ("+0", "0"),
        ("00", "0"),
        ("9223372036854775807", "9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("0" * 5000 + "1", "1"),
    ],
)
def test_integers(text: str, canonical: str) -> None:
    """A sign and digits give plain decimal."""
    assert INT.canonical(text) == canonical


@pytest.mark.parametrize(
    ("text", "details"),
    [
        ("42.0", DIGIT),
        ("4e2", DIGIT),
        ("1_000", DIGIT),
        (" 42", DIGIT),
        ("abc", DIGIT),
        ("-", DIGIT),
        ("--1", DIGIT),
        ("٤", DIGIT),
        ("", "cannot parse integer from empty string"),
        ("9223372036854775808", "number too large to fit in target type"),
        ("-9223372036854775809", "number too small to fit in target type"),
        ("9" * 5000, "number too large to fit in target type"),
    ],
)
def test_refused_integers(text: str, details: str) -> None:
    """The details say what is wrong with the text."""
    with pytest.raises(InvalidRequest) as caught:
        INT.canonical(text)
    assert caught.value.message == excerpt(f"Field 'f' must be a valid integer, got: '{text}'")
    assert caught.value.details == details


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("12.5", "12.5"),
        ("12.50", "12.5"),
        ("1", "1"),
        ("1.0", "1"),
        ("1.", "1"),
        ("+1", "1"),
        ("01", "1"),
        (".5", "0.5"),
        ("+.5", "0.5"),
        ("1e3", "1000"),
        ("1E+3", "1000"),
        ("0.30000000000000004", "0.30000000000000004"),
        ("1e21", "1000000000000000000000"),
        ("1e-7", "0.0000001"),
        ("1e-400", "0"),
        ("-0", "0"),
        ("-0.0", "0"),
    ],
)
def test_floats(text: str, canonical: str) -> None:
    """What a float field accepts, and what becomes of it."""
    assert FLOAT.canonical(text) == canonical


@pytest.mark.parametrize("text", ["NaN", "inf", "-inf", "Infinity", "1e400", "-1e400"])
def test_infinite_floats_are_refused(text: str) -> None:
    """A number must be finite."""
    with pytest.raises(InvalidRequest) as caught:
        FLOAT.canonical(text)
    assert caught.value.message == f"Field 'f' must be a finite number, got: '{text}'"


@pytest.mark.parametrize("text", ["abc", "", " 1", "1_0", "0x1", "1e", ".", "*"])
def test_refused_floats(text: str) -> None:
    """The details tell an empty text from a bad one."""
    with pytest.raises(InvalidRequest) as caught:
        FLOAT.canonical(text)
    assert caught.value.message == f"Field 'f' must be a valid number, got: '{text}'"
    expected = "invalid float literal" if text else "cannot parse float from empty string"
    assert caught.value.details == expected


def test_ranges_are_inclusive() -> None:
    """Both ends are allowed; the message shows numbers in their canonical text."""
    whole = IntField(name="f", required=True, range=(1, 7))
    real = FloatField(name="f", required=True, range=(1.0, 7.0))
    assert [whole.canonical("1"), whole.canonical("7")] == ["1", "7"]
    assert [real.canonical("1"), real.canonical("7.0")] == ["1", "7"]
    with pytest.raises(InvalidRequest) as caught:
        whole.canonical("08")
    assert caught.value.message == "Field 'f' value 8 is outside allowed range [1, 7]"
    with pytest.raises(InvalidRequest) as caught:
        real.canonical("0.50")
    assert caught.value.message == "Field 'f' value 0.5 is outside allowed range [1, 7]"


def test_constraints_use_the_range() -> None:
    """A constraint outside the schema's range is refused, inside it is compiled."""
    field = IntField(name="f", required=True, range=(1, 7))
    assert field.constrain({"gte": 4}).test("5")
    with pytest.raises(InvalidRequest):
        field.constrain({"gte": 9})
    assert FLOAT.constrain({"lt": 50}).test("49.5")


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_are_idempotent(value: int) -> None:
    """Canonical text is its own canonical form."""
    assert INT.canonical(str(value)) == str(value)


@given(st.floats(allow_nan=False, allow_infinity=False).map(repr))
def test_floats_are_idempotent(text: str) -> None:
    """Canonical text is its own canonical form and the same double."""
    once = FLOAT.canonical(text)
    assert FLOAT.canonical(once) == once
    assert float(once) == float(text)
