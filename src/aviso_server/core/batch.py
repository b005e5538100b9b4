"""Several notifications in one body: a JSON array, or NDJSON with one request object per line.

The array may be in an object, ``{"atomic": true, "notifications": [...]}``: all or none.

Items are validated individually; only a body that cannot be split is refused as a whole. An item is
a request object with one more member allowed, ``idempotency_key``.

Splitting megabytes takes long, whatever they contain, so ``core/split.py`` does it in steps; then
each item is checked and parsed individually.
"""

import re
from collections.abc import Sequence
from typing import TypeAlias, cast

import msgspec

from aviso_server.core.errors import (
    MalformedBody,
    RequestError,
    UnknownMember,
    WrongShape,
)
from aviso_server.core.json import UNREADABLE, parse, refuse_excess
from aviso_server.core.wire import GOOD, NotificationRequest, check_key, parse_request

Span: TypeAlias = tuple[int, int]
"""Where an item begins and ends in its body."""
Item: TypeAlias = tuple[NotificationRequest, str | None] | RequestError
"""A request and its key, or why there is none."""

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_SYNTAX = msgspec.json.Decoder(msgspec.Raw)
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
AT_ONCE, MAX_COMMAS = 512 * 1024, 32 * 1024
"""Bytes and commas of an array that is taken apart in one step: some milliseconds."""
_ATOMIC, _NOTIFICATIONS = "atomic", "notifications"
_WRAPPED = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*"(?:atomic|notifications)"')
"""No request object has these members, so this is not the first line of NDJSON."""
_BLANKS = bytes(10 if byte == 10 else 32 for byte in range(256))
"""Turns everything but line breaks into blanks."""
MAX_ENVELOPE = 4096
"""Bytes of a batch that is an object, outside its array: they are read in one go."""


def unwrap(body: bytes) -> tuple[bytes, bool]:
    """The array or the lines of a body, and whether all or none of it is to be stored.

    What is outside the array becomes blanks, so that offsets stay the same. MalformedBody,
    UnknownMember or WrongShape for an object that is not as it should be.
    """
    head = body[:MAX_ENVELOPE]
    if not _WRAPPED.match(head):
        return body, False
    # There is no other bracket in the object, so what remains without the array is small.
    begin, end = head.find(b"["), body.rfind(b"]") + 1
    envelope = head[:begin] + b"[]" + body[end:] if 0 <= begin < end else body
    if len(envelope) > MAX_ENVELOPE:
        raise WrongShape(f"A batch may have {MAX_ENVELOPE} bytes outside its array")
    members = parse(envelope)
    if not isinstance(members, dict) or not isinstance(members.get(_NOTIFICATIONS), list):
        raise WrongShape('A batch that is an object needs "notifications", an array')
    if extra := sorted(members.keys() - {_ATOMIC, _NOTIFICATIONS}):
        raise UnknownMember(
            f'unknown field "{extra[0]}" in a batch; it has "atomic" and "notifications"',
            field=extra[0],
        )
    atomic = members.get(_ATOMIC, False)
    if not isinstance(atomic, bool):
        raise WrongShape('"atomic" must be true or false', field=_ATOMIC)
    return head[:begin].translate(_BLANKS) + body[begin:end], atomic


def elements(body: bytes, *, max_items: int) -> list[bytes] | None:
    """The elements of an array that is small and good; else None, and ``split`` says what is wrong.

    Taken apart by the parser, in one step: a hundred times faster, but bounded only by these sizes.
    """
    if len(body) > AT_ONCE or body.count(b",") > MAX_COMMAS or not is_array(body):
        return None
    try:
        found = _ELEMENTS.decode(body)
    except UNREADABLE:
        return None
    return list(map(bytes, found)) if 0 < len(found) <= max_items else None


def is_array(body: bytes) -> bool:
    """Whether the items are elements of one JSON text; else they are lines."""
    return body.lstrip()[:1] == b"["


def check_element(body: bytes, span: Span) -> None:
    """Raise MalformedBody if an element of an array is not JSON: then the array is not, either."""
    start, end = span
    text = body[start:end]
    try:
        _SYNTAX.decode(text)
    except UNREADABLE:
        # Explained with line and column of the whole body, but without parsing all before it.
        lines = body.count(b"\n", 0, start)
        columns = start - (body.rfind(b"\n", 0, start) + 1)
        parse(b"\n" * lines + b" " * columns + text)
        raise MalformedBody("JSON parsing failed: an element of the batch is not JSON") from None


def parse_items(texts: Sequence[bytes | RequestError]) -> list[Item]:
    """What some items ask for; those that are refused already stay so.

    Mostly all are good and none has a key: then they are read in one go.
    """
    try:
        requests = list(map(GOOD.decode, cast("Sequence[bytes]", texts)))
        for text in texts:
            refuse_excess(cast("bytes", text))
    except (RequestError, TypeError, *UNREADABLE):
        return [text if isinstance(text, RequestError) else parse_item(text) for text in texts]
    return [(request, None) for request in requests]


def parse_item(text: bytes) -> Item:
    """What an item asks for."""
    try:
        if b'"idempotency_key"' not in text:
            return parse_request(text), None
        members = _MEMBERS.decode(text)
        key = members.pop("idempotency_key", None)
        request = parse_request(msgspec.json.encode(members))
        return request, None if key is None else check_key(parse(bytes(key)))
    except RequestError as error:
        return error
    except UNREADABLE:
        try:
            return parse_request(text), None
        except RequestError as error:
            return error
