"""From rows to requests: what the source gives can be written back."""

import json
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import draws
from support.config import settings

from aviso_server.core.announcement import notification_of
from aviso_server.core.batch import parse_item
from aviso_server.core.geometry import Area
from aviso_server.core.notification import Notification, Record
from aviso_server.core.schema import Schema
from aviso_server.core.wire import NotificationRequest
from aviso_server.lake.record import records_to_batch
from aviso_server.pipeline.sink.request import (
    INVALID_ROW,
    RejectedRow,
    Request,
    SinkRow,
    request_of,
    rows_of,
)

_CLOUDS = settings().catalogue.schemas["observations"]
_points = st.lists(st.tuples(st.floats(-90, 90), st.floats(-180, 180)), min_size=1, max_size=5)
_payloads = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(-1e9, 1e9) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def _announced(schema: Schema, identifier: Any, payload: Any) -> Notification:
    return notification_of(
        schema,
        NotificationRequest(
            event_type=schema.event_type, identifier=identifier, payload=json.loads(payload)
        ),
    )


_texts = _payloads.map(lambda value: msgspec.json.encode(value).decode())
_mixed = st.builds(
    lambda item, payload, blank: Notification(
        item.event_type,
        item.tokens,
        item.identifier,
        # The producer's own spelling of an area is kept.
        Area(item.geometry.points, item.geometry.text.replace(",", ", "))
        if blank
        else item.geometry,
        _announced(_CLOUDS, {"date": "20250101", "point_cloud": [[0, 0]]}, payload).payload,
    ),
    draws.notifications(),
    _texts,
    st.booleans(),
)
_clouds = st.builds(
    lambda points, payload: _announced(
        _CLOUDS, {"date": "20250102", "point_cloud": [list(p) for p in points]}, payload
    ),
    _points,
    _texts,
)


@given(st.lists(st.one_of(_mixed, _clouds), max_size=4))
def test_a_record_written_back_is_the_same_notification(items: list[Notification]) -> None:
    """Source, row, request, server: identifier, place and payload arrive as they were."""
    batch = records_to_batch([Record(n, n, item) for n, item in enumerate(items, 1)])
    made = [request_of(row) for row in rows_of(batch)]
    bodies = [request.body for request in made if isinstance(request, Request)]
    assert len(bodies) == len(items)
    schemas = {schema.event_type: schema for schema in (draws.SCHEMA, _CLOUDS)}
    for body, item in zip(bodies, items, strict=True):
        parsed = parse_item(body)
        assert isinstance(parsed, tuple)
        arrived = notification_of(schemas[parsed[0].event_type], parsed[0])
        assert repr(arrived) == repr(item)


def row(**values: Any) -> SinkRow:
    """A row of the event type ``ev``."""
    return SinkRow(**{"event_type": "ev", "identifier": {"region": "n"}, "payload": None, **values})


def sent(one: SinkRow) -> dict[str, Any]:
    """The request object of a row."""
    made = request_of(one)
    assert isinstance(made, Request)
    body: dict[str, Any] = json.loads(made.body)
    return body


def test_a_missing_payload_is_not_a_null_one() -> None:
    """A null column leaves the payload out; the text ``null`` is a payload."""
    assert "payload" not in sent(row())
    assert sent(row(payload="null"))["payload"] is None


def test_keys_tell_contents_apart() -> None:
    """The same content has the same key however it is spelled; anything else has another."""
    one = sent(row(payload='{"a": 1, "b": [2]}'))["idempotency_key"]
    assert sent(row(payload='{"b":[2],"a":1}'))["idempotency_key"] == one
    others = [
        row(payload='{"a": 1, "b": [3]}'),
        row(),
        row(payload="null"),
        row(event_type="other", payload='{"a": 1, "b": [2]}'),
        row(identifier={"region": "s"}, payload='{"a": 1, "b": [2]}'),
        row(polygon="(0,0,0,1,1,1,0,0)", payload='{"a": 1, "b": [2]}'),
    ]
    keys = [sent(other)["idempotency_key"] for other in others]
    assert len({one, *keys}) == len(others) + 1
    assert sent(row(key="mine"))["idempotency_key"] == "mine"


def test_places_inside_the_identifier() -> None:
    """As in a request: a polygon as text or JSON text, a point cloud as JSON text."""
    polygon = "[[0,0],[0,1],[1,1],[0,0]]"
    made = sent(row(identifier={"polygon": polygon, "point_cloud": "[[1, 2]]"}))
    assert made["identifier"] == {"polygon": polygon, "point_cloud": [[1, 2]]}


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (row(payload='1,"identifier":{"region":"x"}'), "column 'payload' is not JSON"),
        (row(payload=""), "column 'payload' is not JSON"),
        (row(identifier={"point_cloud": "here"}), "column 'point_cloud' is not JSON"),
        (row(geometry=b"\x00\x01"), "not the WKB"),
        (row(polygon="(0,0)", identifier={"polygon": "(0,0)"}), "given twice"),
        (row(problem="its text is not valid UTF-8"), "could not be decoded: its text"),
    ],
)
def test_rows_that_are_no_requests(one: SinkRow, why: str) -> None:
    """What cannot be put into a request is refused here, with the reason."""
    refused = request_of(one)
    assert isinstance(refused, RejectedRow)
    assert refused.code == INVALID_ROW
    assert why in refused.message
    assert refused.row is one


def test_columns_of_a_batch() -> None:
    """Struct or map, event type by option, key by column, nulls left out."""
    batch = pa.RecordBatch.from_pylist(
        [{"identifier": {"step": 6, "name": None, "days": [1, 2]}, "payload": "1", "k": "a"}]
    )
    (only,) = rows_of(batch, event_type="mars", key_column="k")
    assert (only.event_type, only.key) == ("mars", "a")
    assert sent(only)["identifier"] == {"step": 6, "days": [1, 2]}
