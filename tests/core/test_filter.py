"""The filter: scalar and vectorised agree, and mean what docs/schema.md says."""

from hypothesis import given
from hypothesis import strategies as st
from support.draws import SCHEMA, filters, notifications

from aviso_server.core.filter import Filter
from aviso_server.core.identifier import compile_filter
from aviso_server.core.notification import Entry, Notification, Record, Unreadable
from aviso_server.core.operation import Operation


def stored(notifications_: list[Notification]) -> list[Entry]:
    """Records of notifications, numbered from 1."""
    return [Record(number, 0, item) for number, item in enumerate(notifications_, 1)]


def item(**identifier: str) -> Notification:
    """A notification with these texts."""
    return Notification("ev", ("ev",), identifier, None, b"null")


@given(filters(), st.lists(notifications(), max_size=20))
def test_scalar_is_vectorised(asked: Filter, drawn: list[Notification]) -> None:
    """Deciding one by one and as a batch gives the same answer."""
    entries = stored(drawn)
    one_by_one = [n for n, notification in enumerate(drawn, 1) if asked.matches(notification)]
    assert [entry.sequence for entry in asked.select(entries)] == one_by_one


@given(filters())
def test_unreadable_entries_are_kept(asked: Filter) -> None:
    """They are reported in place, whatever the filter."""
    spoiled = Unreadable(1, 0, "ev.?", "broken")
    assert asked.select([spoiled]) == [spoiled]


def test_an_empty_filter_is_everything() -> None:
    """``{}`` matches every notification."""
    assert Filter().matches(item())


def test_a_missing_field_never_matches() -> None:
    """A scalar or a constraint on a field that is absent is false, never an error."""
    assert not Filter((("a", "1"),)).matches(item(b="1"))
    above = compile_filter(SCHEMA, {"level": {"gte": -5}}, Operation.WATCH)
    assert above.matches(item(level="3"))
    assert not above.matches(item(b="1"))
    assert not above.matches(item(level="not a number"))


def test_all_parts_are_anded() -> None:
    """Every named field must hold."""
    both = Filter((("a", "1"), ("b", "2")))
    assert both.matches(item(a="1", b="2", c="3"))
    assert not both.matches(item(a="1", b="3"))


@given(filters(), filters())
def test_equal_requests_are_equal_filters(one: Filter, other: Filter) -> None:
    """Filters are values: equal ones hash alike, so that subscribers can share."""
    again = Filter(one.exact, one.constraints, one.spatial)
    assert again == one
    assert hash(again) == hash(one)
    assert (one == other) == (
        (one.exact, one.constraints, one.spatial) == (other.exact, other.constraints, other.spatial)
    )
