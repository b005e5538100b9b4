"""How values become typed."""

import pytest
from pydantic_core import PydanticCustomError

from aviso_server.core.json import Json
from aviso_server.settings.coercion import (
    as_bytes,
    as_cap,
    as_count,
    as_flag,
    as_integer,
    as_level,
    as_port,
    as_text,
)
from settings.configurations import configuration, settings


@pytest.mark.parametrize("yes", ["true", "TRUE", "1", "on", "Yes", 1, True])
@pytest.mark.parametrize("no", ["false", "False", "0", "OFF", "no", 0, False])
def test_booleans_have_many_spellings(yes: object, no: object) -> None:
    """True, 1, on and yes, false, 0, off and no, in any case."""
    assert (as_flag(yes), as_flag(no)) == (True, False)


@pytest.mark.parametrize("text", ["", "t", "2", 2, 1.0, "enabled", []])
def test_other_words_are_not_booleans(text: object) -> None:
    """Anything else is refused rather than guessed."""
    with pytest.raises(PydanticCustomError, match="must be true or false"):
        as_flag(text)


@pytest.mark.parametrize(("value", "number"), [(7, 7), ("7", 7), (" -7 ", -7), (1e3, 1000)])
def test_integers_are_read_from_text(value: object, number: int) -> None:
    """Integers accept numeric text, as environment values are text."""
    assert as_integer(value) == number


@pytest.mark.parametrize("value", [True, "", "7.0", 7.5, "seven", "1_000", [7], float("inf")])
def test_other_values_are_not_integers(value: object) -> None:
    """Fractions, booleans and words are refused."""
    with pytest.raises(PydanticCustomError, match="must be an integer"):
        as_integer(value)


@pytest.mark.parametrize(("value", "text"), [("a", "a"), (1, "1"), (1.5, "1.5"), (True, "true")])
def test_text_accepts_numbers_and_booleans(value: object, text: str) -> None:
    """A password of digits need not be quoted."""
    assert as_text(value) == text


def test_text_is_not_made_of_lists() -> None:
    """A list where a text is expected is a mistake."""
    with pytest.raises(PydanticCustomError, match="must be text"):
        as_text(["a"])


def test_counts_are_not_negative() -> None:
    """A negative count is refused."""
    with pytest.raises(PydanticCustomError, match="must not be negative"):
        as_count(-1)


@pytest.mark.parametrize("port", [-1, 65_536])
def test_ports_have_sixteen_bits(port: int) -> None:
    """Ports run from 0 to 65535."""
    with pytest.raises(PydanticCustomError, match="must be between 0 and 65535"):
        as_port(port)


def test_bytes_are_numbers_or_sizes() -> None:
    """``max_bytes`` takes a number, its text, or a size literal."""
    assert (as_bytes(5), as_bytes("5"), as_bytes("2Ki")) == (5, 5, 2048)
    with pytest.raises(PydanticCustomError, match="size unit must be one of"):
        as_bytes("10B")


def test_a_cap_that_is_no_number_is_zero() -> None:
    """``unlimited`` reaches the check that words the refusal."""
    assert (as_cap("unlimited"), as_cap("5")) == (0, 5)


@pytest.mark.parametrize(
    ("value", "level"), [("WARN", "warn"), ("Trace", "trace"), ("loud", "info"), (None, "info")]
)
def test_an_unknown_level_is_info(value: object, level: str) -> None:
    """Log levels are read in any case, and anything else is info."""
    assert as_level(value) == level


def test_a_section_reads_text_like_the_environment_gives_it() -> None:
    """Text values of every kind arrive typed."""
    raw: dict[str, Json] = configuration(
        application={"port": "0", "host": 1}, metrics={"enabled": "off"}, ecpds=None
    )
    loaded = settings(raw)
    assert (loaded.application.port, loaded.application.host) == (0, "1")
    assert loaded.metrics.enabled is False
