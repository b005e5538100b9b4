"""Levels by the name of the code that logs."""

import logging

import pytest

from aviso_server.telemetry.levels import OFF, BadDirectives, Levels, directives, level


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("aviso_server.http.notify", logging.DEBUG),
        ("aviso_server.http", logging.DEBUG),
        ("aviso_server.httpx", logging.ERROR),
        ("aviso_server.relay.hub", OFF),
        ("nats", logging.WARNING),
    ],
)
def test_the_longest_name_that_fits_decides(target: str, expected: int) -> None:
    """Names fit whole parts; what none fits gets the overall level."""
    text = "aviso_server=error, aviso_server::http = DEBUG ,warn,aviso_server.relay=off"
    assert directives(text, otherwise=logging.INFO).of(target) == expected


def test_the_floor_is_the_lowest() -> None:
    """Nothing that some directive wants is cut off before it is examined."""
    found = directives("error,a=debug", otherwise=logging.INFO)
    assert (found.floor, found.overall) == (logging.DEBUG, logging.ERROR)
    assert Levels(logging.INFO).floor == logging.INFO


def test_without_an_overall_level_the_configured_one_counts() -> None:
    """``a=debug`` says nothing about the rest."""
    assert directives("a=debug", otherwise=logging.WARNING).of("b") == logging.WARNING


@pytest.mark.parametrize("text", ["loud", "a=", "=info", "info,", "a=b=c"])
def test_malformed_directives(text: str) -> None:
    """The part that cannot be read is named."""
    with pytest.raises(BadDirectives, match="is neither a level nor logger=level"):
        directives(text, otherwise=logging.INFO)


@pytest.mark.parametrize("word", ["INFO", " info ", "nonsense", ""])
def test_a_configured_level_is_never_malformed(word: str) -> None:
    """What is not known is info."""
    assert level(word) == logging.INFO
