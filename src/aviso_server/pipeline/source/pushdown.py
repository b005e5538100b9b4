"""Filters that Spark pushes down, as narrower ranges. Pure.

Comparisons of ``event_type`` and ``sequence`` are fully taken over; those of ``time`` narrow the
range and are left to Spark as well.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NS_PER_US = 1000


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What the filters of a query leave to be read; None where they leave everything."""

    event_types: frozenset[str] | None = None
    first: int | None = None
    last: int | None = None
    since_ns: int | None = None
    until_ns: int | None = None


def narrow(filters: Iterable[Filter]) -> tuple[Narrowing, list[Filter]]:
    """What all of the filters together leave, and those that Spark still has to evaluate."""
    left, rest = Narrowing(), []
    for item in filters:
        path = getattr(item, "attribute", None)
        found: Narrowing | None = None
        if path == ("event_type",):
            found = _by_event_type(left, item)
        elif path == ("sequence",):
            found = _by_sequence(left, item)
        elif path == ("time",):
            left = _by_time(left, item)
        if found is None:
            rest.append(item)
        else:
            left = found
    return left, rest


def _by_event_type(left: Narrowing, item: Filter) -> Narrowing | None:
    match item:
        case EqualTo(value=str(name)):
            names = frozenset({name})
        case In(value=values):
            names = frozenset(value for value in values if isinstance(value, str))
        case _:
            return None
    known = left.event_types
    return replace(left, event_types=names if known is None else known & names)


def _by_sequence(left: Narrowing, item: Filter) -> Narrowing | None:
    match item:
        case EqualTo(value=int(n)):
            return _within(left, n, n)
        case GreaterThan(value=int(n)):
            return _within(left, n + 1, None)
        case GreaterThanOrEqual(value=int(n)):
            return _within(left, n, None)
        case LessThan(value=int(n)):
            return _within(left, None, n - 1)
        case LessThanOrEqual(value=int(n)):
            return _within(left, None, n)
    return None


def _within(left: Narrowing, first: int | None, last: int | None) -> Narrowing:
    return replace(left, first=_higher(left.first, first), last=_lower(left.last, last))


def _by_time(left: Narrowing, item: Filter) -> Narrowing:
    """The column is cut to microseconds: each of its values covers a thousand instants."""
    value = getattr(item, "value", None)
    # Spark has two kinds of timestamp; one without a zone is not compared with ours.
    if not isinstance(value, datetime) or value.tzinfo is None:
        return left
    begin = (value - _EPOCH) // _MICROSECOND * _NS_PER_US
    end = begin + _NS_PER_US - 1
    since = until = None
    match item:
        case EqualTo():
            since, until = begin, end
        case GreaterThan() | GreaterThanOrEqual():
            since = begin
        case LessThan() | LessThanOrEqual():
            until = end
    return replace(
        left, since_ns=_higher(left.since_ns, since), until_ns=_lower(left.until_ns, until)
    )


def _higher(one: int | None, other: int | None) -> int | None:
    return max((n for n in (one, other) if n is not None), default=None)


def _lower(one: int | None, other: int | None) -> int | None:
    return min((n for n in (one, other) if n is not None), default=None)
