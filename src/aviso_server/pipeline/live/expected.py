"""Which parts of which cycles are expected, and until when. Pure.

A cycle is an event type, a base time and a group, such as stream=oper; it comes back every day. Its
parts, such as forecast steps, are due some time after the base time. What is expected was learned
from the past (learn) or is written in a file.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import cast

from aviso_server.core.errors import AvisoError
from aviso_server.core.json import Json

US = 1_000_000
DAY_S = 86_400

GROUP_FIELD, PART_FIELD = "stream", "step"
"""The field that distinguishes the cycles of a base time, and the one for parts of a cycle."""

MAX_DUE_S = 2 * DAY_S
"""A part that comes later than that after its base time is not waited for."""

MAX_PARTS = 20_000
"""Parts of all cycles of a day; they travel with every micro-batch."""

_CYCLE = re.compile(r"([01]\d|2[0-3]):?([0-5]\d)")


class BadExpectation(AvisoError):
    """What is expected cannot be read; the message says which item and why."""


@dataclass(frozen=True, slots=True, order=True)
class CyclePart:
    """A part of a cycle that comes every day."""

    event_type: str
    cycle: str
    """Base time, HHMM."""
    group: str
    """As ``group_text`` spells it; empty without the field."""
    part: str
    """Empty where a cycle has one part only."""
    due_s: int
    """After the base time."""

    @property
    def base_s(self) -> int:
        """The base time, in seconds since midnight."""
        return int(self.cycle[:2]) * 3600 + int(self.cycle[2:]) * 60


@dataclass(frozen=True, slots=True)
class Due:
    """A part of the cycle of one day."""

    what: CyclePart
    base_us: int
    due_us: int


def due_between(parts: Iterable[CyclePart], after_us: int, until_us: int) -> Iterator[Due]:
    """What falls due after one time and not after another, both since the epoch."""
    for part in parts:
        offset_us = (part.base_s + part.due_s) * US
        day_us = DAY_S * US
        for day in range(
            (after_us - offset_us) // day_us + 1, (until_us - offset_us) // day_us + 1
        ):
            yield Due(part, day * day_us + part.base_s * US, day * day_us + offset_us)


def group_text(value: object) -> str:
    """How the group of a value of GROUP_FIELD is spelled."""
    return f"{GROUP_FIELD}={value}"


def encode_parts(parts: Sequence[CyclePart]) -> str:
    """As an option of the source."""
    return json.dumps([[p.event_type, p.cycle, p.group, p.part, p.due_s] for p in parts])


def decode_parts(text: str) -> tuple[CyclePart, ...]:
    """What ``encode_parts`` made."""
    return tuple(CyclePart(*item) for item in json.loads(text))


def check_parts(parts: Iterable[CyclePart]) -> tuple[CyclePart, ...]:
    """Each part once, or BadExpectation if there are more than can be watched."""
    known: dict[tuple[str, str, str, str], CyclePart] = {}
    for part in sorted(parts):
        known[part.event_type, part.cycle, part.group, part.part] = part
    if len(known) > MAX_PARTS:
        raise BadExpectation(
            f"{len(known):,} parts are expected each day, and at most {MAX_PARTS:,} can be watched"
        )
    return tuple(known.values())


def parse_expected(document: Json, seconds: Callable[[str], int]) -> tuple[CyclePart, ...]:
    """What a file says: a list of event_type, time, group, part and due; BadExpectation."""
    if not isinstance(document, list) or not document:
        raise BadExpectation("what is expected is a list of items, at least one")
    found: list[CyclePart] = []
    for number, item in enumerate(document, 1):
        try:
            found += _item(item, seconds)
        except ValueError as error:
            raise BadExpectation(f"item {number} of what is expected: {error}") from None
    return check_parts(found)


def _item(item: Json, seconds: Callable[[str], int]) -> Iterator[CyclePart]:
    if not isinstance(item, dict):
        raise ValueError("must have event_type, time and due, and may have group and part")  # noqa: TRY004 - reported like the others
    if unknown := sorted(item.keys() - {"event_type", "time", "group", "part", "due"}):
        raise ValueError(f"unknown: {', '.join(unknown)}")
    event_type, due = item.get("event_type"), item.get("due")
    if not isinstance(event_type, str) or not event_type:
        raise ValueError("event_type is missing")
    if not isinstance(due, str):
        raise ValueError("due is missing: a time after the base time, such as 6h")  # noqa: TRY004 - as above
    due_s = seconds(due)
    if due_s > MAX_DUE_S:
        raise ValueError("due may be 2d at most")
    group = item.get("group") or {}
    if not isinstance(group, dict) or set(group) - {GROUP_FIELD}:
        raise ValueError(f"group holds a value of {GROUP_FIELD} only")
    text = group_text(group[GROUP_FIELD]) if group else ""
    for cycle, part in product(_list(item.get("time")), _list(item.get("part", ""))):
        matched = _CYCLE.fullmatch(cycle)
        if matched is None:
            raise ValueError("time is one base time or a list of them, each in quotes: '0600'")
        yield CyclePart(event_type, f"{matched[1]}{matched[2]}", text, part, due_s)


def _list(value: Json) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [str(item) for item in cast("list[object]", values)]
