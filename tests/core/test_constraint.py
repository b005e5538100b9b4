"""Constraint objects."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aviso_server.core.constraint import (
    Choice,
    Constraint,
    Kind,
    NumberRange,
    enum_constraint,
    number_constraint,
)
from aviso_server.core.errors import InvalidRequest
from aviso_server.core.json import Json
from aviso_server.core.numeral import INT_MAX, INT_MIN, Number, float_text

INTS = st.integers(INT_MIN, INT_MAX)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = ("eq", "in", "gt", "gte", "lt", "lte", "between")


def on_int(spec: dict[str, Json], allowed: tuple[int, int] | None = None) -> Constraint:
    """A constraint on an int field ``f``."""
    return number_constraint("f", spec, Kind.INT, allowed)


def on_float(spec: dict[str, Json], allowed: tuple[float, float] | None = None) -> Constraint:
    """A constraint on a float field ``f``."""
    return number_constraint("f", spec, Kind.FLOAT, allowed)


def on_enum(spec: dict[str, Json]) -> Constraint:
    """A constraint on an enum field ``f`` of north and south."""
    return enum_constraint("f", spec, ("north", "south"))


def holds(operator: str, value: Number, low: Number, high: Number) -> bool:
    """What each operator means, in Python's own exact comparison."""
    return {
        "eq": value == low,
        "in": value in (low, high),
        "gt": value > low,
        "gte": value >= low,
        "lt": value < low,
        "lte": value <= low,
        "between": low <= value <= high,
    }[operator]


def spec_of(operator: str, low: Number, high: Number) -> dict[str, Json]:
    """The constraint object with one or both numbers."""
    return {operator: [low, high] if operator in ("in", "between") else low}


@given(st.sampled_from(NUMBERS), INTS, INTS, st.data())
def test_int_operators_mean_what_they_say(
    operator: str, first: int, last: int, data: st.DataObject
) -> None:
    """Integers compare as integers, also where doubles could not tell them apart."""
    low, high = sorted((first, last))
    near = st.sampled_from([low - 1, low, low + 1, high - 1, high, high + 1])
    value = data.draw((near | INTS).filter(lambda number: INT_MIN <= number <= INT_MAX))
    constraint = on_int(spec_of(operator, low, high))
    assert constraint.test(str(value)) == holds(operator, value, low, high)


@given(st.sampled_from(NUMBERS), FLOATS, FLOATS, st.data())
def test_float_operators_mean_what_they_say(
    operator: str, first: float, last: float, data: st.DataObject
) -> None:
    """Doubles compare exactly, without tolerance."""
    low, high = sorted((first, last))
    value = data.draw(st.sampled_from([low, high]) | FLOATS)
    constraint = on_float(spec_of(operator, low, high))
    assert constraint.test(float_text(value)) == holds(operator, value, low, high)


@given(st.sampled_from(NUMBERS), INTS, st.text())
def test_unreadable_text_never_matches(operator: str, number: int, text: str) -> None:
    """Stored text that is no number is not matched and is no error."""
    constraint = on_float(spec_of(operator, number, number))
    try:
        float(text)
    except ValueError:
        assert constraint.test(text) is False


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "", "1e400", " 5"])
def test_text_that_is_not_finite_never_matches(text: str) -> None:
    """A field cannot hold these, so no range holds them either."""
    assert not on_float({"gte": 0}).test(text)
    assert not on_float({"lte": 0}).test(text)
    assert not on_int({"gte": 0}).test(text)


def test_int_text_beyond_64_bit_never_matches() -> None:
    """A stored text that is no signed 64-bit integer is unreadable, not large."""
    assert not on_int({"gt": 0}).test(str(INT_MAX + 1))


def test_enum_operands_and_texts_ignore_case() -> None:
    """Enum operands are lower-cased, as is what they are compared with."""
    either = on_enum({"in": ["North", "SOUTH"]})
    assert either.test("north")
    assert either.test("South")
    assert not on_enum({"eq": "NORTH"}).test("south")


def test_equal_questions_are_equal_values() -> None:
    """Objects that ask the same share one index entry: they are equal and hash alike."""
    assert on_int({"eq": 4}) == on_int({"in": [4, 4]})
    assert hash(on_int({"eq": 4})) == hash(on_int({"in": [4]}))
    assert on_int({"gt": 4}) != on_int({"gte": 4})
    assert on_int({"eq": 4}) != on_float({"eq": 4})


def test_an_operator_is_a_range_or_a_choice() -> None:
    """Range operators have ends, the others values."""
    assert on_int({"eq": 4}) == Choice("f", Kind.INT, frozenset({4}))
    assert on_int({"gt": 4}) == NumberRange("f", Kind.INT, 4, None, low_open=True)
    assert on_int({"gte": 4}) == NumberRange("f", Kind.INT, 4, None)
    assert on_int({"lt": 4}) == NumberRange("f", Kind.INT, None, 4, high_open=True)
    assert on_int({"lte": 4}) == NumberRange("f", Kind.INT, None, 4)
    assert on_int({"between": [3, 4]}) == NumberRange("f", Kind.INT, 3, 4)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "Field 'f' constraint must contain exactly one operator"),
        ({"gte": 4, "lt": 7}, "Field 'f' constraint must contain exactly one operator"),
        (
            {"ge": 4},
            "Field 'f' has invalid operator 'ge'. Allowed: eq,in,gt,gte,lt,lte,between",
        ),
        ({"GTE": 4}, "Field 'f' has invalid operator 'GTE'. Allowed: eq,in,gt,gte,lt,lte,between"),
        ({"gte": "4"}, "Field 'f' operator 'gte' expects integer value"),
        ({"gte": 4.0}, "Field 'f' operator 'gte' expects integer value"),
        ({"eq": True}, "Field 'f' operator 'eq' expects integer value"),
        ({"eq": None}, "Field 'f' operator 'eq' expects integer value"),
        ({"eq": [4]}, "Field 'f' operator 'eq' expects integer value"),
        ({"eq": INT_MAX + 1}, "Field 'f' operator 'eq' expects integer value"),
        ({"in": 4}, "Field 'f' operator 'in' expects array of integers"),
        ({"in": []}, "Field 'f' operator 'in' must contain at least one value"),
        ({"in": ["x"] * 1001}, "Field 'f' operator 'in' contains 1001 values, maximum is 1000"),
        ({"in": [9, "4"]}, "Field 'f' operator 'in' expects integer value"),
        ({"between": 4}, "Field 'f' operator 'between' expects [min,max]"),
        ({"between": []}, "Field 'f' operator 'between' expects exactly two values [min,max]"),
        (
            {"between": [1, 2, 3]},
            "Field 'f' operator 'between' expects exactly two values [min,max]",
        ),
        ({"between": [9, 2.0]}, "Field 'f' operator 'between' expects integer value"),
        ({"between": [9, 2]}, "Field 'f' operator 'between' expects min <= max"),
        ({"between": [2, 9]}, "Field 'f' constraint value 9 is outside allowed range [1, 7]"),
        ({"gte": 9}, "Field 'f' constraint value 9 is outside allowed range [1, 7]"),
        ({"in": [1, 0]}, "Field 'f' constraint value 0 is outside allowed range [1, 7]"),
    ],
)
def test_refused_int_constraints(spec: dict[str, Json], message: str) -> None:
    """Shape is checked before type, type before order, order before range."""
    with pytest.raises(InvalidRequest, match=f"^{re.escape(message)}$"):
        on_int(spec, (1, 7))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"gte": "4"}, "Field 'f' operator 'gte' expects numeric value"),
        ({"gte": False}, "Field 'f' operator 'gte' expects numeric value"),
        ({"lt": 10**400}, "Field 'f' operator 'lt' expects finite numeric value"),
        ({"in": {}}, "Field 'f' operator 'in' expects array of numbers"),
        ({"in": [1, None]}, "Field 'f' operator 'in' expects numeric value"),
        ({"between": [2, 1.5]}, "Field 'f' operator 'between' expects min <= max"),
        ({"gt": 200.5}, "Field 'f' constraint value 200.5 is outside allowed range [0, 200]"),
        ({"gt": -1}, "Field 'f' constraint value -1 is outside allowed range [0, 200]"),
    ],
)
def test_refused_float_constraints(spec: dict[str, Json], message: str) -> None:
    """Numbers in messages are float text; integers are fine as operands, booleans are not."""
    with pytest.raises(InvalidRequest, match=f"^{re.escape(message)}$"):
        on_float(spec, (0.0, 200.0))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "Field 'f' constraint must contain exactly one operator"),
        (
            {"gt": "a"},
            "Field 'f' has invalid operator 'gt'. Allowed for enum constraints: eq,in",
        ),
        ({"eq": 4}, "Field 'f' operator 'eq' expects string value"),
        ({"in": "north"}, "Field 'f' operator 'in' expects array of strings"),
        ({"in": []}, "Field 'f' operator 'in' must contain at least one value"),
        ({"in": ["x"] * 1001}, "Field 'f' operator 'in' contains 1001 values, maximum is 1000"),
        ({"in": ["urgent", 4]}, "Field 'f' operator 'in' expects string value"),
        (
            {"in": ["North", "URGENT"]},
            "Field 'f' has invalid enum value 'urgent'. Allowed: [north, south]",
        ),
    ],
)
def test_refused_enum_constraints(spec: dict[str, Json], message: str) -> None:
    """Enums know two operators; membership is checked last."""
    with pytest.raises(InvalidRequest, match=f"^{re.escape(message)}$"):
        on_enum(spec)


def test_a_range_ends_are_allowed_operands() -> None:
    """The schema's range is inclusive for constraints too."""
    assert on_int({"between": [1, 7]}, (1, 7)) == NumberRange("f", Kind.INT, 1, 7)
