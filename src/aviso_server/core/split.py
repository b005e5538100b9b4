"""Where the items of a large batch are: an array of megabytes, or lines.

It takes long, whatever they contain, so it is done in steps between which a caller can do something
else: the items are found block by block, and counted before any is parsed.
"""

from collections.abc import Iterator
from typing import NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aviso_server.core.batch import Span, is_array
from aviso_server.core.errors import InvalidRequest, MalformedBody
from aviso_server.core.scan import STEPS, blocks_outside_strings

_Spans: TypeAlias = tuple[NDArray[np.intp], NDArray[np.intp]]

BLOCK = 64 * 1024
"""Bytes scanned in one step."""
_COMMA, _NEWLINE = b",\n"
_SOLID = np.ones(256, np.bool_)
_SOLID[list(b" \t\r\n")] = False


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
