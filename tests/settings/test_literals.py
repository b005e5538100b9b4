"""Durations and sizes."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aviso_server.settings.literals import LiteralError, duration_s, size_bytes


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0s", 0),
        ("30s", 30),
        ("10m", 600),
        ("2H", 7200),
        (" 7d ", 604_800),
        ("1w", 604_800),
        ("007D", 604_800),
    ],
)
def test_a_duration_is_an_integer_and_a_unit_in_any_case(text: str, seconds: int) -> None:
    """A duration is trimmed, and its unit is read in any case."""
    assert duration_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "duration must not be empty"),
        ("   ", "duration must not be empty"),
        ("10", "duration must include a unit suffix"),
        ("1.5h", "duration value must be an integer"),
        ("10 m", "duration value must be an integer"),
        ("-1d", "duration value must be an integer"),
        ("h", "duration value must be an integer"),
        ("٣s", "duration value must be an integer"),
        ("10ms", "duration unit must be one of: s, m, h, d, w"),
        ("10y", "duration unit must be one of: s, m, h, d, w"),
        ("9223372036s", None),
        ("9223372037s", "duration overflow"),
        ("9" * 5000 + "w", "duration overflow"),
    ],
)
def test_a_refused_duration_says_why(text: str, why: str | None) -> None:
    """Each kind of bad duration has its literal reason."""
    assert _why(duration_s, text) == why


@pytest.mark.parametrize(
    ("text", "size"), [("100K", 100_000), ("100Ki", 102_400), ("2Mi", 2_097_152), ("1T", 10**12)]
)
def test_sizes_are_powers_of_1000_and_of_1024(text: str, size: int) -> None:
    """``K`` counts in thousands, ``Ki`` in 1024s."""
    assert size_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "size must not be empty"),
        ("10", "size must include a unit suffix"),
        ("1.5M", "size value must be an integer"),
        ("0Mi", "size value must be greater than zero"),
        ("10m", "size unit must be one of: K, Ki, M, Mi, G, Gi, T, Ti"),
        ("10B", "size unit must be one of: K, Ki, M, Mi, G, Gi, T, Ti"),
        ("10ki", "size unit must be one of: K, Ki, M, Mi, G, Gi, T, Ti"),
        ("8388608Ti", "size overflow"),
        ("8388607Ti", None),
    ],
)
def test_a_refused_size_says_why(text: str, why: str | None) -> None:
    """Each kind of bad size has its literal reason; units are case-sensitive."""
    assert _why(size_bytes, text) == why


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text makes the readers fail in another way than LiteralError."""
    for read in (duration_s, size_bytes):
        assert _why(read, text) != ""


def _why(read: Callable[[str], int], text: str) -> str | None:
    try:
        read(text)
    except LiteralError as error:
        return str(error)
    return None
