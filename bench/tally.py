"""Counting SSE frames in a byte stream, as cheaply as Python can.

A frame is recognised by its ``event: <name>`` line, newline included. JSON holds no raw newline,
so the mark cannot occur inside data. The server begins every chunk of the chunked encoding at a
frame, so a chunk header cannot fall inside a mark; if that ever changes, counts come out short
and the benchmark fails instead of reporting a wrong figure.
"""

LIVE = b"event: live-notification\n"
REPLAY = b"event: replay\n"
CLOSING = b"event: connection-closing\n"


class Tally:
    """How often a mark occurred so far, also where it straddles two pieces."""

    __slots__ = ("_edge", "_mark", "_tail", "count")

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self._edge = len(mark) - 1
        self._tail = b""
        self.count = 0

    def feed(self, piece: bytes) -> None:
        """Count the mark in the next piece of the stream.

        No proper prefix of a mark is also its suffix, so occurrences never overlap and one that
        straddles lies within the last and first ``len(mark) - 1`` bytes of the two pieces.
        """
        edge = self._edge
        self.count += piece.count(self._mark) + (self._tail + piece[:edge]).count(self._mark)
        self._tail = piece[-edge:] if len(piece) >= edge else (self._tail + piece)[-edge:]
