"""Filters of a query as narrower ranges."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from aviso_server.pipeline.source.pushdown import Narrowing, narrow

_TESTS: dict[type[Any], Callable[[int, int], bool]] = {
    EqualTo: lambda a, b: a == b,
    GreaterThan: lambda a, b: a > b,
    GreaterThanOrEqual: lambda a, b: a >= b,
    LessThan: lambda a, b: a < b,
    LessThanOrEqual: lambda a, b: a <= b,
}
_kinds = st.sampled_from(list(_TESTS))


@given(st.lists(st.tuples(_kinds, st.integers(-2, 12)), max_size=4))
def test_sequences_are_decided_by_ranges(drawn: list[tuple[type[Any], int]]) -> None:
    """The range holds exactly what the comparisons let through; Spark need not look again."""
    left, rest = narrow([kind(("sequence",), value) for kind, value in drawn])
    assert rest == []
    for n in range(11):
        inside = (left.first is None or n >= left.first) and (left.last is None or n <= left.last)
        assert inside == all(_TESTS[kind](n, value) for kind, value in drawn)


@given(st.lists(st.tuples(_kinds, st.integers(-3, 3)), max_size=4), st.integers(-3999, 3999))
def test_times_are_narrowed_and_left_to_spark(drawn: list[tuple[type[Any], int]], ns: int) -> None:
    """The column is cut to microseconds, so nothing that Spark would keep is left out."""
    filters = [kind(("time",), datetime.fromtimestamp(v / 1_000_000, UTC)) for kind, v in drawn]
    left, rest = narrow(filters)
    assert rest == filters
    if all(_TESTS[kind](ns // 1000, value) for kind, value in drawn):
        assert left.since_ns is None or left.since_ns <= ns
        assert left.until_ns is None or ns <= left.until_ns


def test_event_types() -> None:
    """Several conditions leave what all of them name."""
    left, rest = narrow(
        [In(("event_type",), ("a", "b")), EqualTo(("event_type",), "b"), IsNotNull(("id",))]
    )
    assert left == Narrowing(event_types=frozenset({"b"}))
    assert rest == [IsNotNull(("id",))]


def test_the_rest_is_left_to_spark() -> None:
    """What ranges cannot say is returned as it came."""
    filters: list[Filter] = [
        Not(EqualTo(("sequence",), 5)),
        EqualTo(("payload",), "1"),
        EqualTo(("identifier", "sequence"), "1"),
        In(("sequence",), (1, 2)),
        GreaterThan(("event_type",), "a"),
        EqualTo(("time",), datetime(2026, 1, 1)),  # noqa: DTZ001 - a timestamp without zone
    ]
    assert narrow(filters) == (Narrowing(), filters)
