"""Numbers as text."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aviso_server.core.numeral import (
    INT_MAX,
    INT_MIN,
    float_text,
    number_text,
    parse_float,
    parse_int,
    read_int,
    to_double,
)

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(FINITE)
def test_float_text_reads_back_as_the_same_double(value: float) -> None:
    """Float text loses nothing, except the sign of zero."""
    assert parse_float(float_text(value)) == value


@given(FINITE)
def test_float_text_is_plain(value: float) -> None:
    """Float text has no exponent, no trailing ``.0`` and no minus zero."""
    text = float_text(value)
    assert set(text) <= set("-.0123456789")
    assert not text.endswith(".0")
    assert text != "-0"


@pytest.mark.parametrize("text", ["", " 1", "1 ", "1_0", "0x1", "1e", ".", "e1", "١", "+-1", "ınf"])
def test_only_the_grammar_reads_as_a_float(text: str) -> None:
    """Spellings that Python or Unicode would allow are not numbers here."""
    assert parse_float(text) is None


@pytest.mark.parametrize("text", ["INF", "+infinity", "NaN", "1e400"])
def test_words_for_the_infinite_read_as_such(text: str) -> None:
    """The grammar has words for what is not finite; refusing them is the caller's."""
    value = parse_float(text)
    assert value is not None
    assert not math.isfinite(value)


@given(st.integers(INT_MIN, INT_MAX), st.integers(0, 30))
def test_leading_zeros_do_not_count(value: int, zeros: int) -> None:
    """An integer may be padded to any length."""
    sign = "-" if value < 0 else ""
    assert parse_int(f"{sign}{'0' * zeros}{abs(value)}") == value


def test_integers_are_signed_64_bit() -> None:
    """One beyond either end is no integer, but its sign is known; so is that of a huge text."""
    assert (parse_int(str(INT_MAX)), parse_int(str(INT_MIN))) == (INT_MAX, INT_MIN)
    assert parse_int(str(INT_MAX + 1)) is None
    assert read_int("-" + "9" * 100_000) == INT_MIN - 1
    assert read_int("9" * 100_000) == INT_MAX + 1


@pytest.mark.parametrize("text", ["", "-", "--1", "1.0", "1e2", "1_000", " 1", "٣", "1\n"])
def test_only_digits_read_as_an_integer(text: str) -> None:
    """A sign and ASCII digits, and nothing else."""
    assert read_int(text) is None


def test_to_double_saturates_and_has_one_zero() -> None:
    """Integers beyond any double become infinite instead of failing; minus zero becomes zero."""
    assert to_double(10**400) == math.inf
    assert to_double(-(10**400)) == -math.inf
    assert math.copysign(1.0, to_double(-0.0)) == 1.0


def test_number_text_keeps_integers_whole() -> None:
    """Messages show integers with all digits and doubles as float text."""
    assert number_text(2**60) == str(2**60)
    assert number_text(7.0) == "7"
