"""CloudEvents back into records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support import draws
from support.config import settings

from aviso_server.core.cloudevent import Renderer
from aviso_server.core.geometry import Area, Cloud
from aviso_server.core.notification import Notification, Record, Unreadable
from aviso_server.core.schema import Schema
from aviso_server.pipeline.source.events import record_of

_SHOWN = Renderer("http://h")
_SPELLED = Renderer("http://h", polygon_text=True)
_ns = st.integers(0, 4_000_000_000 * 10**9)


@given(draws.notifications(), st.integers(1, 2**62), _ns)
def test_events_come_back_as_records(item: Notification, sequence: int, ns: int) -> None:
    """Identifier, place, payload and nanoseconds; only the topic is not part of an event."""
    assert isinstance(item.geometry, Area)
    record = Record(sequence, ns, replace(item, tokens=()))
    assert record_of(draws.SCHEMA, _SPELLED.render(record)) == record
    ours = Area.of(item.geometry.points)
    told = replace(record, notification=replace(record.notification, geometry=ours))
    assert repr(record_of(draws.SCHEMA, _SHOWN.render(record))) == repr(told)


def test_clouds_come_back() -> None:
    """Point by point, in the producer's order."""
    schema = settings().catalogue.schemas["observations"]
    cloud = Cloud(((1.5, -0.0), (90.0, 180.0)))
    record = Record(1, 2, Notification("observations", (), {"date": "20260101"}, cloud, b"null"))
    assert repr(record_of(schema, _SHOWN.render(record))) == repr(record)


@pytest.mark.parametrize("payload", [b'{"a":1.0,"b":[1e400]}', '"é\\u0000"'.encode(), b"null"])
def test_payloads_are_not_rewritten(payload: bytes) -> None:
    """Not even numbers that Python cannot hold."""
    schema = Schema(event_type="any", base="any", generic=True)
    record = Record(1, 2, Notification("any", (), {"polygon": "text"}, None, payload))
    assert record_of(schema, _SHOWN.render(record)) == record


def test_what_is_no_event_is_refused() -> None:
    """And a place that is none is a problem of that notification alone."""
    schema = settings().catalogue.schemas["area"]
    with pytest.raises(ValueError, match="not a notification"):
        record_of(schema, b"{}")
    bad = b'{"sequence":1,"time":"2026-01-01T00:00:00Z","data":{"identifier":{"polygon":[1]}}}'
    assert isinstance(record_of(schema, bad), Unreadable)
