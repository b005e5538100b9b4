"""JSON values as a type, the one compact spelling the service writes, and the one way it reads.

Reading is stricter than most parsers: besides bad syntax and bad UTF-8 it refuses
numbers that overflow a double, lone surrogates, and nesting deeper than 128. msgspec refuses the
first three itself, except integers, which it reads exactly at any size; integers and nesting are
checked here. Both checks cost one scan of the raw bytes and only for bodies large enough to break
the limit, because every notify passes through them.

Refusing costs no more than reading: the search for the place of a fault is linear, and gives up
where it would have to go far (``_WINDOW``).
"""

import re
from math import isinf
from typing import NoReturn, TypeAlias

import msgspec

from aviso_server.core.errors import MalformedBody

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

MAX_DEPTH = 128
"""Deepest nesting of arrays and objects that is read."""

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""All that msgspec raises for bytes it does not read; for callers that do not use ``parse``."""

_DECODER = msgspec.json.Decoder()
_SORTED = msgspec.json.Encoder(order="sorted")

# The smallest integer that overflows a double has 309 digits. Turning every digit into a zero makes
# such a run a plain substring, which is found 20 times faster than a regular expression finds it.
_ZEROS = b"0" * 309
_TO_ZERO = bytes.maketrans(b"123456789", b"0" * 9)
# Numbers that may overflow: 209 digits before the point, or an exponent of three digits. A run of
# digits is matched only from its first, and digits of a fraction or an exponent are no number.
_LARGE_NUMBER = re.compile(
    rb"(?<![0-9.eE])(?<![eE][+-])-?+"
    rb"(?:[0-9]{209,}+(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+"
    rb"|[0-9]++(?:\.[0-9]++)?+[eE]\+?+[0-9]{3,}+)"
)
_OFFSET = re.compile(r" \(byte ([0-9]+)\)")
# A high surrogate escape that no low one follows, in the last bytes of a text.
_LONE_SURROGATE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")
_LONGEST_PAIR = len(rb"\ud83d\ude0")

_WINDOW = 64 * 1024
"""How far a number out of range is searched for, to say where it is: some milliseconds."""
_SMALL = 16 * 1024
"""Bytes up to which plain Python is quick enough: 2 ms. Few servers ever need numpy then."""
_STRING = re.compile(rb'\\.|"(?:[^"\\]++|\\.)*+"?+', re.DOTALL)
_BRACKET = re.compile(rb"[][{}]")
_AS_ROUND = bytes.maketrans(b"[{]}", b"(())")
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_BLOCK = 64 * 1024
"""Bytes scanned in one step: bounds the arrays made for it."""


def compact(value: Json) -> bytes:
    """Compact JSON, object keys sorted by code point at every level, raw UTF-8."""
    return _SORTED.encode(value)


def parse(body: bytes, *, failed: str = "JSON parsing failed") -> Json:
    """The value of a JSON text, or MalformedBody with ``failed``, the reason and the place.

    Lines and columns count from 1; columns count bytes. Of duplicate keys the last one wins.
    """
    try:
        value: Json = _DECODER.decode(body)
    except UnicodeDecodeError:
        _refuse(body, _first_bad_utf8(body), f"{failed}: invalid UTF-8")
    except RecursionError:
        _refuse(body, _first_too_deep(body), f"{failed}: {_TOO_DEEP}")
    except msgspec.ValidationError:
        # Decoding to any type fails validation for one reason only: a number out of range.
        near = _outside_strings(body[:_WINDOW])
        _refuse(body, _first_overflow(near), f"{failed}: {_TOO_LARGE}")
    except msgspec.DecodeError as error:
        text, offset = _explain(body, str(error))
        _refuse(body, offset, f"{failed}: {text}")
    refuse_excess(body, failed=failed)
    return value


def refuse_excess(body: bytes, *, failed: str = "JSON parsing failed") -> None:
    """Raise MalformedBody when valid JSON breaks a limit msgspec does not know.

    For callers that decode to their own type instead of calling ``parse``.
    """
    if len(body) <= 2 * MAX_DEPTH:
        return  # every level takes two bytes, and a number that overflows takes more than these
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH:
        too_deep = _first_too_deep(body)
        if too_deep is not None:
            _refuse(body, too_deep, f"{failed}: {_TOO_DEEP}")
    if len(body) >= len(_ZEROS) and _ZEROS in body.translate(_TO_ZERO):
        too_large = _first_overflow(_outside_strings(body))
        if too_large is not None:
            _refuse(body, too_large, f"{failed}: {_TOO_LARGE}")


_TOO_DEEP = f"nesting deeper than {MAX_DEPTH} levels"
_TOO_LARGE = "number out of range"


def _refuse(body: bytes, offset: int | None, what: str) -> NoReturn:
    if offset is None:
        raise MalformedBody(what) from None
    line = body.count(b"\n", 0, offset) + 1
    column = offset - body.rfind(b"\n", 0, offset)
    raise MalformedBody(f"{what} at line {line} column {column}") from None


def _explain(body: bytes, text: str) -> tuple[str, int]:
    """The parser's reason without its offset, and the offset; the end where it gives none."""
    found = _OFFSET.search(text)
    if found is not None:
        return _OFFSET.sub("", text).removeprefix("JSON is malformed: "), int(found[1])
    # msgspec calls a lone surrogate just before the end "truncated", which would mislead.
    end = max(0, len(body) - _LONGEST_PAIR)
    lone = _LONE_SURROGATE.search(body, end)
    # An even run of backslashes before it makes it an escape.
    if lone is not None and not _ends_in_escape(body[: lone.start()]):
        return "lone surrogate in string", lone.start()
    return "unexpected end of input", len(body)


def _ends_in_escape(text: bytes) -> bool:
    return bool((len(text) - len(text.rstrip(b"\\"))) % 2)


def _first_bad_utf8(body: bytes) -> int:
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return error.start
    return 0


def _first_too_deep(body: bytes) -> int | None:
    """Offset of the bracket that opens one level too many; all before it is valid JSON."""
    if len(body) <= _SMALL:
        return _first_too_deep_of_few(body)
    from aviso_server.core.scan import first_deeper  # noqa: PLC0415 - as below

    return first_deeper(body, MAX_DEPTH, _BLOCK)


def _first_too_deep_of_few(body: bytes) -> int | None:
    outside = _outside_strings(body)
    nested = outside.translate(_AS_ROUND, _NO_BRACKETS)
    for _ in range(MAX_DEPTH):
        nested = nested.replace(b"()", b"")  # the innermost
    if not nested:
        return None
    depth = 0
    for bracket in _BRACKET.finditer(outside):
        depth += 1 if bracket[0] in b"[{" else -1
        if depth > MAX_DEPTH:
            return bracket.start()
    return None


def _first_overflow(outside: bytes) -> int | None:
    """Offset of the first number that overflows a double, in a text without strings."""
    for found in _LARGE_NUMBER.finditer(outside):
        if isinf(float(found[0])):
            return found.start()
    return None


def _outside_strings(body: bytes) -> bytes:
    """The same text with every string blanked out, offsets kept."""
    if len(body) <= _SMALL:
        return _STRING.sub(lambda found: b" " * len(found[0]), body)
    # Importers that only need the type do not wait for numpy.
    from aviso_server.core.scan import blocks_outside_strings  # noqa: PLC0415

    return b"".join(block.tobytes() for _, block in blocks_outside_strings(body, _BLOCK))
