"""Topics: token codec, topic of a notification, pattern of a request (docs/schema.md#topics).

A topic is a list of decoded tokens. Its *subject* is the wire form (NATS subject): each token
percent-encoded, joined with ``.``. Its *display* form is the decoded tokens joined with ``.``;
it is for people only, because a value may itself contain a dot.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from aviso_server.core.errors import InvalidRequest
from aviso_server.core.excerpt import excerpt
from aviso_server.core.fields.place import POLYGON
from aviso_server.core.filter import Filter
from aviso_server.core.geometry import Area, Geometry
from aviso_server.core.schema import Schema

MAX_SUBJECT_BYTES = 3072
"""Longest subject accepted: protects the NATS connection, whose control line is bounded."""

FREE = "*"
"""Shown for a free token in a request pattern; never stored and never matched."""

_UNSAFE = re.compile(r"[\x00-\x20\x7f.*>%]")
_UNSAFE_BESIDE_DOTS = re.compile(r"[\x00-\x20\x7f*>%]")
_UNSAFE_BYTES = bytes((*range(0x21), 0x7F)) + b".*>%"
_NEVER_ESCAPED = re.compile(r"[A-Za-z0-9_~-]+")
"""What no percent-encoder touches: such a token has one spelling, whichever server wrote it."""
_ESCAPE = re.compile(rb"%(?P<hex>[0-9A-Fa-f]{2})")


class TopicError(ValueError):
    """A subject token that is not validly encoded."""


def encode_token(token: str) -> str:
    """Percent-encode what NATS gives a meaning to or cannot carry; the rest passes through."""
    return _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", token)


def decode_token(token: str) -> str:
    """Undo ``encode_token``: one pass over the bytes, any ``%HH`` in either case."""
    if "%" not in token:
        return token
    raw = token.encode()
    _check_escapes(raw, token)
    decoded = _ESCAPE.sub(lambda found: bytes([int(found["hex"], 16)]), raw)
    try:
        return decoded.decode()
    except UnicodeDecodeError as error:
        raise TopicError(f"Decoded token is not valid UTF-8 ('{token}'): {error.reason}") from None


def _check_escapes(raw: bytes, token: str) -> None:
    at = raw.find(b"%")
    while at >= 0:
        digits = raw[at + 1 : at + 3]
        for digit in digits:
            if digit not in b"0123456789abcdefABCDEF":
                raise TopicError(
                    f"Invalid percent-encoding: non-hex '{chr(digit)}' in token '{token}'"
                )
        if len(digits) < 2:
            raise TopicError(f"Invalid percent-encoding: trailing '%' in token '{token}'")
        at = raw.find(b"%", at + 3)


def subject(tokens: Sequence[str]) -> str:
    """The wire form of a topic."""
    text = ".".join(tokens)
    if text.count(".") < len(tokens) and _UNSAFE_BESIDE_DOTS.search(text) is None:
        return text  # as nearly all are
    return ".".join(map(encode_token, tokens))


def parse_subject(text: str) -> tuple[str, ...]:
    """The tokens of a wire subject, or TopicError."""
    if "%" not in text:
        return tuple(text.split("."))
    return tuple(map(decode_token, text.split(".")))


def tokens_of(
    schema: Schema, identifier: Mapping[str, str], geometry: Geometry | None
) -> tuple[str, ...]:
    """The topic of a notification, or InvalidRequest when it is too long."""
    names = schema.token_fields
    if names is None:
        names = tuple(sorted(identifier))
    known = {**identifier, POLYGON: geometry.text} if isinstance(geometry, Area) else identifier
    tokens = (schema.base, *map(known.__getitem__, names))
    # A character takes at most four bytes, encoded or not: short topics need not be measured.
    if 4 * len("".join(tokens)) + len(tokens) <= MAX_SUBJECT_BYTES:
        return tokens
    size = sum(map(_encoded_bytes, tokens)) + len(tokens) - 1
    if size > MAX_SUBJECT_BYTES:
        raise InvalidRequest(
            f"Topic exceeds maximum length of {MAX_SUBJECT_BYTES} bytes, got: {size}"
        )
    return tokens


def _encoded_bytes(token: str) -> int:
    """The length of an encoded token, without encoding what will be refused."""
    raw = token.encode()
    return len(raw) + 2 * (len(raw) - len(raw.translate(None, _UNSAFE_BYTES)))


def identifier_of(names: tuple[str, ...], tokens: Sequence[str]) -> dict[str, str]:
    """The identifier fields that a stored topic carries, in name order.

    Surplus tokens are ignored and missing ones leave the field out: the topic may have been
    written under another version of the schema. Spatial fields never come from tokens.
    """
    count = len(tokens)
    return {name: tokens[at] for name, at in _places(names) if at < count}


@lru_cache(maxsize=1024)
def _places(names: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """Where in a topic the fields are; worked out once, for every message that is read asks."""
    return tuple(sorted((name, at) for at, name in enumerate(names, 1) if name != POLYGON))


def pattern(schema: Schema, request: Filter) -> str:
    """How a watch or replay request is shown in control frames, errors and logs."""
    exact = dict(request.exact)
    names = schema.token_fields
    if names is None:
        return excerpt(".".join((schema.base, *exact.values())))
    return excerpt(".".join((schema.base, *(exact.get(name, FREE) for name in names))))


def possible_subjects(
    base: str, request: Filter, fields: Sequence[str | None]
) -> tuple[str, str] | None:
    """NATS subjects that together cover every stored topic a filter can match; None if any can.

    ``fields`` are those of the topic that no notification of the stream carries anywhere else; None
    where they differ. The first subject ends with the last key that the filter fixes, the second
    has more after it: topics may be shorter or longer than the present schema's.
    """
    exact = dict(request.exact)
    values: list[str] = []
    fixed = 0
    for number, name in enumerate(fields, start=1):
        text = "" if name is None else exact.get(name, "")
        known = _NEVER_ESCAPED.fullmatch(text) is not None
        values.append(text if known else FREE)
        fixed = number if known else fixed
    head = ".".join((encode_token(base), *values[:fixed]))
    return (head, f"{head}.>") if fixed and len(head) <= MAX_SUBJECT_BYTES else None
