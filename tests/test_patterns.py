"""Every regular expression that meets a client's text is linear, whatever the text.

Each is fed texts made to mislead it: a beginning that it likes, a piece of it many times over, and
an end that it does not like. All are made of the fragments given here, in every combination.
"""

import ast
import importlib
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Literal, NamedTuple

import pytest
from support.cost import cpu_ns

import aviso_server

SOURCE = Path(aviso_server.__file__).parent


class Use(NamedTuple):
    """How a pattern is used, and of what fragments the hardest texts for it are made."""

    how: Literal["fullmatch", "sub"]
    fragments: tuple[str, ...]


DIGITS = ("0", "1", "+", "x")
MOMENT = ("2025-01-01T00:00:00.", "2025-1-1 0:0:0", "0", " ", "+")

USES: dict[str, Use] = {
    "auth.credential._READABLE": Use("fullmatch", ("a", "\t")),
    "auth.token._JWT": Use("fullmatch", ("a", ".", "-")),
    "backends.jetstream.answers._PROPERTIES": Use(
        "fullmatch", ("\r\nNats-Stream: ", "\r\nNats-Subject: ", "\r\nNats-Sequence: 1", "a")
    ),
    "backends.jetstream.messages._NOT_PLAIN": Use("sub", ("a", "%", "é")),
    "backends.jetstream.natslog._CANNOT_WRITE": Use("sub", ("out of ", "no space", "r")),
    "backends.jetstream.natslog._LINE": Use("fullmatch", ("[1] ", "a", " ", "[ERR] ")),
    "core.batch._WRAPPED": Use("fullmatch", (" ", "{", '"atomic"', "\n")),
    "core.wire._KEY": Use("fullmatch", ("a", "~")),
    "core.cursor._FORMATS[0]": Use("fullmatch", MOMENT),
    "core.cursor._FORMATS[1]": Use("fullmatch", MOMENT),
    "core.cursor._FORMATS[2]": Use("fullmatch", MOMENT),
    "core.cursor._NATURAL": Use("fullmatch", DIGITS),
    "core.cursor._NEGATIVE": Use("fullmatch", ("-", *DIGITS)),
    "core.fields.moment._CLOCK": Use("fullmatch", ("0", ":")),
    "core.fields.moment._COMPACT_CLOCK": Use("fullmatch", ("0",)),
    "core.fields.moment._DATE": Use("fullmatch", ("2025", "-", "0")),
    "core.fields.moment._HOUR": Use("fullmatch", ("0",)),
    "core.fields.text._UNSIGNED": Use("fullmatch", DIGITS),
    "core.json._BRACKET": Use("sub", ("[", "{", "a")),
    "core.json._LARGE_NUMBER": Use("sub", ("1", ".", "e", "-", "1" * 208)),
    "core.json._LONE_SURROGATE": Use("sub", ("\\", "\\ud800", "\\u")),
    "core.json._OFFSET": Use("sub", (" ", " (byte ", "1")),
    "core.json._STRING": Use("sub", ('"', "\\", "a", '\\"')),
    "core.numeral._FLOAT": Use("fullmatch", ("1", ".", "e", "-", "inf")),
    "core.numeral._INT": Use("fullmatch", DIGITS),
    "core.schema.NAME": Use("fullmatch", ("a", "-", "_")),
    "core.topic._ESCAPE": Use("sub", ("%", "2", "%2E")),
    "core.topic._NEVER_ESCAPED": Use("fullmatch", ("a", "-", "é")),
    "core.topic._UNSAFE": Use("sub", ("a", "%", ".")),
    "core.topic._UNSAFE_BESIDE_DOTS": Use("sub", ("a", "%", ".")),
    "lake.files._UNSAFE": Use("sub", ("a", ".", "é")),
    "lake.typed.columns._NOT_IN_NAMES": Use("sub", ("a", ";", "=")),
    "lake.typed.table.NAME": Use("fullmatch", ("a", "-", "_")),
    "lake.typed.table._UNSAFE": Use("sub", ("a", ".", "é")),
    "relay.admin._SEQUENCE": Use("fullmatch", DIGITS),
    "telemetry.redaction._ASSIGNED": Use("sub", ("token", " ", "=", '"', "'")),
    "telemetry.redaction._BARE_USER_INFO": Use("sub", ("@", " ", ",", ":", "a")),
    "telemetry.redaction._CREDENTIALS": Use("sub", ("Bearer", " ", ";", "a")),
    "telemetry.redaction._SENSITIVE": Use("sub", ("secret", "s", "api_")),
    "telemetry.redaction._SUSPECT": Use("sub", ("secret", "s", "api_")),
    "telemetry.redaction._USER_INFO": Use("sub", ("://", "@", "a", " ", "?")),
}

ELSEWHERE = {
    "auth.keys._PEM": "the keys of an identity provider, which the operator chose",
    "http.pages._PLACEHOLDER": "our own pages",
    "server.reload": "the configuration",
    "settings": "the configuration",
    "pipeline": "runs beside the server, on its own answers",
    "cli": "runs at a terminal",
}
"""Modules and patterns that no client's text reaches, and whose it is."""

SIZE = 10_000
ENDS = ("", "\x00")


def _elsewhere(name: str) -> bool:
    return any(name == known or name.startswith(f"{known}.") for known in ELSEWHERE)


def _modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(SOURCE.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        if not _elsewhere(name):
            yield name, path


def _patterns() -> dict[str, re.Pattern[str] | re.Pattern[bytes]]:
    """Every compiled pattern of the modules that clients reach, by its name."""
    found: dict[str, re.Pattern[str] | re.Pattern[bytes]] = {}
    for module, path in _modules():
        if "re.compile" not in path.read_text():
            continue
        for name, value in vars(importlib.import_module(f"aviso_server.{module}")).items():
            if isinstance(value, re.Pattern):
                found[f"{module}.{name}"] = value
            elif isinstance(value, tuple):
                found |= {
                    f"{module}.{name}[{i}]": one
                    for i, one in enumerate(value)
                    if isinstance(one, re.Pattern)
                }
    return {name: value for name, value in found.items() if not _elsewhere(name)}


PATTERNS = _patterns()


def test_every_pattern_is_known_here() -> None:
    """A new pattern has to say how it is used and what would be hardest for it."""
    assert PATTERNS.keys() == USES.keys()


def test_patterns_have_names() -> None:
    """No pattern is compiled inside a function, where the other tests would not see it."""
    unseen = []
    for name, path in _modules():
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=attr)):
                    unseen += [f"{name}:{node.lineno}"] * (attr not in {"compile", "escape"})
    assert not unseen


def _texts(fragments: tuple[str, ...]) -> Iterator[str]:
    pumps = [*fragments, *("".join(pair) for pair in product(fragments, repeat=2))]
    for start, pump, end in product(("", *fragments), pumps, ENDS):
        yield start + pump * (SIZE // len(pump)) + end


def _cost_ns(pattern: re.Pattern[str] | re.Pattern[bytes], how: str, text: str) -> int:
    given: str | bytes = text.encode() if isinstance(pattern.pattern, bytes) else text
    empty = given[:0]
    if how == "sub":
        return cpu_ns(lambda: pattern.sub(empty, given), attempts=1)  # type: ignore[arg-type]
    return cpu_ns(lambda: pattern.fullmatch(given), attempts=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(USES))
def test_no_text_is_slow(name: str) -> None:
    """The hardest text costs a small multiple of replacing every character of one as long.

    A quadratic pattern costs hundreds of times as much, at this size.
    """
    pattern, (how, fragments) = PATTERNS[name], USES[name]
    every = re.compile(r"[^a]|a")
    limit = 15 * cpu_ns(lambda: every.sub("b", "ab" * (SIZE // 2)))
    for text in _texts(fragments):
        # Once is enough to pass; what seems slow is measured again.
        cost = _cost_ns(pattern, how, text)
        if cost > limit:
            cost = min(cost, *(_cost_ns(pattern, how, text) for _ in range(3)))
        assert cost <= limit, f"{cost / limit:.0f} times the limit for {text[:40]!r}..."
