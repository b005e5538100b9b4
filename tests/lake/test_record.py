"""Records survive the way into rows and back."""

import pyarrow as pa
import shapely
from hypothesis import given
from hypothesis import strategies as st
from support import draws

from aviso_server.core.geometry import Area, Cloud
from aviso_server.core.notification import Notification, Record, Unreadable
from aviso_server.lake import wkb
from aviso_server.lake.layout import RECORD
from aviso_server.lake.record import batch_to_records, records_to_batch, storable

_degrees = st.floats(-90, 90)
_points = st.lists(st.tuples(_degrees, _degrees), min_size=1, max_size=6).map(tuple)
_places = st.one_of(
    st.none(),
    _points.map(Cloud),
    _points.map(lambda p: Area.of((*p, *p, *p, p[0]))),
    _points.map(lambda p: Area((*p, *p, *p, p[0]), f" {Area.of((*p, *p, *p, p[0])).text}")),
)
_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_made = st.builds(
    Notification,
    event_type=st.sampled_from(["mars", "été"]),
    tokens=st.lists(_texts, min_size=1, max_size=4).map(tuple),
    identifier=st.dictionaries(_texts, _texts, max_size=4),
    geometry=_places,
    payload=st.sampled_from([b"null", b'{"a":1.0}', '"é\\u0000"'.encode()]),
)
_records = st.lists(
    st.builds(
        Record,
        sequence=st.integers(1, 2**63 - 1),
        stored_at_ns=st.integers(-(2**62), 2**62),
        notification=st.one_of(_made, draws.notifications()),
    ),
    max_size=5,
)


@given(_records)
def test_records_come_back_bit_by_bit(records: list[Record]) -> None:
    """Rows hold everything: key order, nanoseconds, tokens with dots, signs of zeros."""
    batch = records_to_batch(records)
    assert batch.schema == RECORD
    assert list(map(repr, batch_to_records(batch))) == list(map(repr, records))


@given(_records, st.integers(0, 5))
def test_slices_of_rows_are_read_as_rows(records: list[Record], start: int) -> None:
    """A part of a batch gives that part of the records."""
    part = records_to_batch(records).slice(start)
    assert batch_to_records(part) == records[start:]


@given(_places.filter(lambda place: place is not None))
def test_places_are_read_by_a_geometry_library(place: Area | Cloud) -> None:
    """The binary is what other tools expect, with x for longitude."""
    shape = shapely.from_wkb(wkb.encode(place))
    found = shapely.get_coordinates(shape).tolist()
    assert found == [[lon, lat] for lat, lon in place.points]


def test_text_that_is_not_unicode_is_distinguished() -> None:
    """One broken message does not spoil the rows of others."""
    broken = Record(7, 9, Notification("mars", ("mars",), {"a": "\ud800"}, None, b"null"))
    assert storable(broken) == Unreadable(7, 9, "mars", "its text is not valid UTF-8")
    torn = Record(7, 9, Notification("mars", ("mars",), {}, None, b'"\xff"'))
    assert isinstance(storable(torn), Unreadable)
    sound = Record(7, 9, Notification("mars", ("mars",), {}, None, b"1"))
    assert storable(sound) is sound
    assert isinstance(records_to_batch([sound]), pa.RecordBatch)
