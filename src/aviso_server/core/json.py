"""JSON values as a type, the one compact spelling the service writes, and the one way it reads.

Reading is stricter than most parsers (http.md 3): besides bad syntax and bad UTF-8 it refuses
numbers that overflow a double, lone surrogates, and nesting deeper than 128. msgspec refuses the
first three itself, except integers, which it reads exactly at any size; integers and nesting are
checked here. Both checks cost one scan of the raw bytes and only for bodies large enough to break
the limit, because every notify passes through them.
"""

import re
from array import array
from itertools import accumulate
from math import isinf
from typing import NoReturn, TypeAlias

import msgspec

from aviso_server.core.errors import MalformedBody

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

MAX_DEPTH = 128
"""Deepest nesting of arrays and objects that is read (http.md 3)."""

_DECODER = msgspec.json.Decoder()
_SORTED = msgspec.json.Encoder(order="sorted")

# The smallest integer that overflows a double has 309 digits. Turning every digit into a zero makes
# such a run a plain substring, which is found 20 times faster than a regular expression finds it.
_ZEROS = b"0" * 309
_TO_ZERO = bytes.maketrans(b"123456789", b"0" * 9)
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BRACKET = re.compile(rb"[\[\]{}]")
_OFFSET = re.compile(r" \(byte ([0-9]+)\)")
# A high surrogate escape that no low one follows; an even run of backslashes is not an escape.
_LONE_SURROGATE = re.compile(rb"(?<!\\)(?:\\\\)*(\\u[dD][89abAB][0-9a-fA-F]{2})(?!\\u[dD][c-fC-F])")

_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
# Opening brackets become +1 and closing ones -1 as signed bytes.
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")


def compact(value: Json) -> bytes:
    """Compact JSON, object keys sorted by code point at every level, raw UTF-8 (http.md 2)."""
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
        _refuse(body, _first_overflow(body) or 0, f"{failed}: {_TOO_LARGE}")
    except msgspec.DecodeError as error:
        text, offset = _explain(body, str(error))
        _refuse(body, offset, f"{failed}: {text}")
    refuse_excess(body, failed=failed)
    return value


def refuse_excess(body: bytes, *, failed: str = "JSON parsing failed") -> None:
    """Raise MalformedBody when valid JSON breaks a limit msgspec does not know (http.md 3).

    For callers that decode to a type of their own instead of calling ``parse``.
    """
    if len(body) <= MAX_DEPTH:
        return
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and _depth(body) > MAX_DEPTH:
        _refuse(body, _first_too_deep(body), f"{failed}: {_TOO_DEEP}")
    if len(body) >= len(_ZEROS) and _ZEROS in body.translate(_TO_ZERO):
        offset = _first_overflow(body)
        if offset is not None:
            _refuse(body, offset, f"{failed}: {_TOO_LARGE}")


_TOO_DEEP = f"nesting deeper than {MAX_DEPTH} levels"
_TOO_LARGE = "number out of range"


def _refuse(body: bytes, offset: int, what: str) -> NoReturn:
    line = body.count(b"\n", 0, offset) + 1
    column = offset - body.rfind(b"\n", 0, offset)
    raise MalformedBody(f"{what} at line {line} column {column}") from None


def _explain(body: bytes, text: str) -> tuple[str, int]:
    """The parser's reason without its offset, and the offset; the end where it gives none."""
    found = _OFFSET.search(text)
    if found is not None:
        return _OFFSET.sub("", text).removeprefix("JSON is malformed: "), int(found[1])
    # msgspec calls a lone surrogate just before the end "truncated", which would mislead.
    lone = _LONE_SURROGATE.search(body)
    if lone is not None:
        return "lone surrogate in string", lone.start(1)
    return "unexpected end of input", len(body)


def _first_bad_utf8(body: bytes) -> int:
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return error.start
    return 0


def _depth(body: bytes) -> int:
    """How deep valid JSON nests, or a bound on it that is within the limit."""
    brackets = _STRING.sub(b"", body).translate(None, _NOT_BRACKETS)
    # Dropping leaf pairs takes away two levels at most. What a large point cloud leaves is tiny,
    # so the walk in Python below is for unusual bodies only.
    stems = brackets.replace(b"[]", b"").replace(b"{}", b"")
    if len(stems) // 2 + 2 <= MAX_DEPTH:
        return len(stems) // 2 + 2
    return max(accumulate(array("b", brackets.translate(_STEPS))))


def _first_too_deep(body: bytes) -> int:
    """Offset of the bracket that opens one level too many; strings are skipped."""
    depth = 0
    for found in _BRACKET.finditer(_without_strings(body)):
        depth += 1 if found[0] in b"[{" else -1
        if depth > MAX_DEPTH:
            return found.start()
    return 0


def _first_overflow(body: bytes) -> int | None:
    """Offset of the first number that overflows a double; strings are skipped."""
    for found in _NUMBER.finditer(_without_strings(body)):
        if isinf(float(found[0])):
            return found.start()
    return None


def _without_strings(body: bytes) -> bytes:
    """The same text with every string blanked out, offsets kept."""
    return _STRING.sub(lambda found: b" " * len(found[0]), body)
