"""Filters over Arrow rows mean what filters mean."""

from hypothesis import given
from hypothesis import strategies as st
from support import draws

from aviso_server.core.filter import Filter
from aviso_server.core.geometry import Area, Box, Cloud
from aviso_server.core.notification import Notification, Record
from aviso_server.core.spatial import Contains, Intersects
from aviso_server.lake.predicate import mask, region
from aviso_server.lake.record import records_to_batch

_grid = st.integers(-3, 3).map(float)
_points = st.lists(st.tuples(_grid, _grid), min_size=1, max_size=5).map(tuple)
_odd = st.builds(
    Notification,
    event_type=st.just("mixed"),
    tokens=st.just(("mixed",)),
    identifier=st.dictionaries(
        st.sampled_from(["level", "region", "tag", "other"]),
        st.sampled_from(["1", "north", "NORTH", "01", "", "x"]),
    ),
    geometry=st.one_of(st.none(), _points.map(Cloud)),
    payload=st.just(b"null"),
)
"""Notifications of another schema: fields missing, texts of another kind, clouds or no place."""


def _numbered(items: list[Notification]) -> list[Record]:
    return [Record(n, 0, item) for n, item in enumerate(items, 1)]


@given(
    draws.filters(),
    st.lists(st.one_of(draws.notifications(), _odd), max_size=20),
    st.integers(0, 20),
    st.integers(0, 20),
)
def test_rows_are_decided_as_notifications_are(
    asked: Filter, drawn: list[Notification], start: int, count: int
) -> None:
    """Whole batches, parts of batches and empty ones."""
    part = records_to_batch(_numbered(drawn)).slice(start, count)
    found = mask(asked, part)
    assert found.null_count == 0
    assert found.to_pylist() == [asked.matches(item) for item in drawn[start : start + count]]


@given(draws.filters(), st.lists(st.one_of(draws.notifications(), _odd), max_size=5))
def test_what_matches_is_in_the_region(asked: Filter, drawn: list[Notification]) -> None:
    """Pruning by the region of a filter never hides a notification that is asked for."""
    box = region(asked)
    for item in filter(asked.matches, drawn):
        assert box is None or (item.geometry is not None and box.overlaps(item.geometry.box))


def test_the_region_is_what_a_filter_asks_about() -> None:
    """Its area's box, its point, or nothing."""
    area = Area.of(((0.0, 0.0), (0.0, 1.0), (2.0, 1.0), (0.0, 0.0)))
    assert region(Filter(spatial=Intersects(area))) == Box(0, 0, 2, 1)
    assert region(Filter(spatial=Contains(0.5, 1.5))) == Box(0.5, 1.5, 0.5, 1.5)
    assert region(Filter()) is None
    assert region(None) is None
