"""Offsets and ranges of sequences: how far to go, and who reads what. Pure.

Rules
- An offset is a dict: the next sequence to read by event type. It lives in Spark's checkpoint only.
- An event type that an offset does not name has not been read at all: it begins at 1.
- Slices cover a range exactly and once, in order; a limit is shared fairly between event types.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from aviso_server.backends.backend import Bounds

Offset: TypeAlias = dict[str, int]

FIRST = 1
"""The first sequence of every stream."""

SLICE = 25_000
"""Sequences per task: a second's work or so, so that a lost task costs little."""

MAX_SLICES = 1_000
"""Tasks that are made without being asked for; beyond, slices get longer instead."""


@dataclass(frozen=True, slots=True)
class Range:
    """Sequences of one event type, both ends included; empty if ``last < first``."""

    event_type: str
    first: int
    last: int

    def __len__(self) -> int:
        """How many sequences, holes included."""
        return max(0, self.last - self.first + 1)


def between(start: Mapping[str, int], end: Mapping[str, int]) -> list[Range]:
    """What lies between two offsets, in name order."""
    ranges = (Range(name, start.get(name, FIRST), end[name] - 1) for name in sorted(end))
    return [item for item in ranges if item]


def advance(start: Mapping[str, int], ends: Mapping[str, Bounds], limit: int | None) -> Offset:
    """The offset to read up to: everything there is, or ``limit`` sequences shared fairly.

    Event types of ``start`` that are not among the ends stay where they are. What retention removed
    counts for nothing: it has no rows.
    """
    begin = {name: max(start.get(name, FIRST), end.first) for name, end in ends.items()}
    waiting = {name: max(0, ends[name].last - begin[name] + 1) for name in ends}
    granted = waiting if limit is None else share(waiting, limit)
    reached = {
        name: begin[name] + granted[name] if granted[name] or not waiting[name] else None
        for name in ends
    }
    moved = {
        name: max(position, start.get(name, FIRST))
        for name, position in reached.items()
        if position is not None
    }
    return {**start, **moved}


def share(waiting: Mapping[str, int], limit: int) -> dict[str, int]:
    """How many each may have of ``limit``: equal parts, and what one does not need the others get.

    The smallest are served first, so that what they leave is known when the larger ones come.
    """
    granted = {}
    left, takers = limit, len(waiting)
    for name in sorted(waiting, key=lambda name: (waiting[name], name)):
        granted[name] = min(waiting[name], left // takers)
        left -= granted[name]
        takers -= 1
    return granted


def split(ranges: Iterable[Range], minimum: int = 1) -> list[Range]:
    """The ranges cut into slices: at least ``minimum`` if there are that many sequences."""
    whole = [item for item in ranges if item]
    total = sum(map(len, whole))
    wished = max(minimum, min(MAX_SLICES, sum(-(-len(item) // SLICE) for item in whole)))
    slices = [
        piece
        for item, parts in zip(whole, _parts(whole, min(wished, total)), strict=True)
        for piece in _cut(item, parts)
    ]
    return sorted(slices, key=lambda item: (item.event_type, item.first))


def gather(slices: Sequence[Range], enough: int, minimum: int = 1) -> list[list[Range]]:
    """Neighbours put together while they are fewer sequences than enough; at least ``minimum``
    groups if there are that many slices."""
    groups: list[list[Range]] = []
    size = 0
    for left, item in zip(range(len(slices), 0, -1), slices, strict=True):
        if not groups or size + len(item) > enough or len(groups) + left <= minimum:
            groups.append([])
            size = 0
        groups[-1].append(item)
        size += len(item)
    return groups


def _parts(ranges: Sequence[Range], wished: int) -> list[int]:
    """How many slices each range becomes: the one with the longest slices is cut again."""
    parts = [1] * len(ranges)
    longest = [(-len(item), number) for number, item in enumerate(ranges)]
    heapq.heapify(longest)
    for _ in range(wished - len(ranges)):
        _, number = longest[0]
        parts[number] += 1
        heapq.heapreplace(longest, (-len(ranges[number]) // parts[number], number))
    return parts


def _cut(item: Range, parts: int) -> list[Range]:
    """Slices of equal length, give or take one."""
    size, rest = divmod(len(item), parts)
    slices, first = [], item.first
    for number in range(parts):
        last = first + size - 1 + (number < rest)
        slices.append(Range(item.event_type, first, last))
        first = last + 1
    return slices
