"""Scanning JSON text that need not be valid: brackets and strings, in linear time. Pure."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

_QUOTE, _BLANK = b'" '
STEPS = np.zeros(256, np.int8)
"""What each byte does to the depth."""
STEPS[list(b"[{")] = 1
STEPS[list(b"]}")] = -1


def first_deeper(body: bytes, most: int, size: int) -> int | None:
    """Offset of the first bracket that opens a level beyond ``most``; scanned in blocks."""
    depth = 0
    for start, block in blocks_outside_strings(body, size):
        depths = np.cumsum(STEPS[block], dtype=np.int32) + depth
        if depths.max() > most:
            return start + int(np.argmax(depths > most))
        depth = int(depths[-1])
    return None


def blocks_outside_strings(body: bytes, size: int) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """The text in blocks, each with its offset, strings blanked out; linear for any bytes."""
    in_string = escaped = False
    for start in range(0, len(body), size):
        text = body[start : start + size]
        if escaped:  # the block before ended in a backslash
            text = b" " + text[1:]
        # Pairs of backslashes first, from the left as a parser takes them: a quote that still has
        # one before it is escaped, and any other begins or ends a string.
        text = text.replace(rb"\\", b"  ").replace(rb"\"", b"  ")
        escaped = text.endswith(b"\\")
        block = np.frombuffer(text, np.uint8)
        inside = np.logical_xor.accumulate(block == _QUOTE) ^ in_string
        in_string = bool(inside[-1])
        yield start, np.where(inside, np.uint8(_BLANK), block)
