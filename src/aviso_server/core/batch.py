"""Several notifications in one body: a JSON array, or NDJSON with one request object per line.

The array may be in an object, ``{"atomic": true, "notifications": [...]}``: all or none.

Items are validated individually; only a body that cannot be split is refused as a whole. An item is
a request object with one more member allowed, ``idempotency_key``.

Splitting megabytes takes long, whatever they contain, so it is done in steps between which a caller
can do something else: ``split`` finds the items block by block, and counts them before any is
parsed; then each is checked and parsed individually.
"""

import re
from collections.abc import Iterator
from typing import NoReturn, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from aviso_server.core.errors import (
    InvalidRequest,
    MalformedBody,
    RequestError,
    UnknownMember,
    WrongShape,
)
from aviso_server.core.json import UNREADABLE, parse
from aviso_server.core.scan import STEPS, blocks_outside_strings
from aviso_server.core.wire import NotificationRequest, check_key, parse_request

Span: TypeAlias = tuple[int, int]
"""Where an item begins and ends in its body."""
Item: TypeAlias = tuple[NotificationRequest, str | None] | RequestError
"""A request and its key, or why there is none."""
_Spans: TypeAlias = tuple[NDArray[np.intp], NDArray[np.intp]]

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_SYNTAX = msgspec.json.Decoder(msgspec.Raw)
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
AT_ONCE, MAX_COMMAS = 512 * 1024, 32 * 1024
"""Bytes and commas of an array that is taken apart in one step: some milliseconds."""
BLOCK = 64 * 1024
"""Bytes scanned in one step."""
_COMMA, _NEWLINE = b",\n"
_SOLID = np.ones(256, np.bool_)
_SOLID[list(b" \t\r\n")] = False
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


def split(body: bytes, *, max_items: int, block_size: int = BLOCK) -> Iterator[list[Span]]:
    """Where the items are, in order; those of one block of the body at a time.

    MalformedBody or InvalidRequest for the body as a whole, as soon as that is known. The contents
    of the items are not inspected.
    """
    found = 0
    find = _elements if is_array(body) else _lines
    for starts, ends in find(body, block_size):
        found += len(starts)
        if found > max_items:
            raise InvalidRequest(f"The batch has more than {max_items} notifications, the limit")
        yield list(zip(starts.tolist(), ends.tolist(), strict=True))
    if not found:
        raise InvalidRequest("The batch is empty. Send a JSON array or one request object per line")


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


def _elements(body: bytes, size: int) -> Iterator[_Spans]:
    """The elements of an array: the texts between its brackets and its own commas."""
    depth, begin, known = 0, body.index(b"[") + 1, 0
    for at, block in blocks_outside_strings(body, size):
        steps = STEPS[block]
        depths = np.cumsum(steps, dtype=np.int32) + depth
        ends = np.flatnonzero((block == _COMMA) & (depths == 1))
        closed = np.flatnonzero((depths == 0) & (steps < 0))[:1]
        if closed.size:
            _refuse_ending(body, at + int(closed[0]))
            ends = np.append(ends[ends < closed[0]], closed)
        ends += at
        starts = np.append(begin, ends + 1)
        begin = int(starts[-1])
        known += len(ends)
        if closed.size and known == 1 and not body[starts[0] : ends[0]].strip():
            return  # an array without elements
        yield starts[:-1], ends
        if closed.size:
            return
        depth = int(depths[-1])
    _refuse(body, len(body), "unexpected end of input")


def _refuse_ending(body: bytes, closed: int) -> None:
    """Refuse an array that is closed by something else, or is not the end of the body."""
    if body[closed : closed + 1] != b"]":
        _refuse(body, closed, "expected ',' or ']'")
    rest = body[closed + 1 :].lstrip()
    if rest:
        _refuse(body, len(body) - len(rest), "trailing characters")


def _lines(body: bytes, size: int) -> Iterator[_Spans]:
    """The lines that are not blank."""
    begin, carried = 0, 0
    for at in range(0, len(body), size):
        block = np.frombuffer(body, np.uint8, min(size, len(body) - at), at)
        solid = np.cumsum(_SOLID[block], dtype=np.int64)
        ends = np.flatnonzero(block == _NEWLINE)
        if not ends.size:
            carried += int(solid[-1])
            yield ends, ends
            continue
        told = np.diff(solid[ends], prepend=-carried)
        carried = int(solid[-1] - solid[ends[-1]])
        ends += at
        starts = np.append(begin, ends + 1)
        begin = int(starts[-1])
        yield starts[:-1][told > 0], ends[told > 0]
    if carried:
        yield np.array([begin]), np.array([len(body)])


def _refuse(body: bytes, offset: int, what: str) -> NoReturn:
    line = body.count(b"\n", 0, offset) + 1
    column = offset - body.rfind(b"\n", 0, offset)
    raise MalformedBody(f"JSON parsing failed: {what} at line {line} column {column}")
