"""The number that stands for a row's content."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.lake import record

from aviso_server.core.geometry import Area
from aviso_server.core.notification import Record
from aviso_server.lake.record import records_to_batch
from aviso_server.pipeline.audit.content import content_hash

RING = ((0.0, 0.0), (0.0, 2.0), (2.0, 2.0), (0.0, 0.0))


def _hash(item: Record, *, places: bool = True) -> int:
    name = item.notification.event_type
    return int(content_hash(records_to_batch([item]), name, places=places)[0])


def _with(item: Record, **changes: object) -> Record:
    return replace(item, notification=replace(item.notification, **changes))


BASE = record(7, identifier={"a": "1", "b": "23"}, geometry=Area.of(RING))


def test_every_part_of_a_notification_counts() -> None:
    """A change of anything that is kept changes the number."""
    far = tuple((lat, lon + 1e-13) for lat, lon in RING)
    changed = [
        BASE,
        replace(BASE, sequence=8),
        replace(BASE, stored_at_ns=BASE.stored_at_ns + 1),
        _with(BASE, event_type="marz"),
        _with(BASE, tokens=("mars", "x")),
        _with(BASE, tokens=("mars.x",)),
        _with(BASE, identifier={"a": "12", "b": "3"}),
        _with(BASE, identifier={"b": "23", "a": "1"}),
        _with(BASE, identifier={"a": "1"}),
        _with(BASE, identifier={}),
        _with(BASE, payload=b'{"n":8}'),
        _with(BASE, payload=b"null"),
        _with(BASE, geometry=None),
        _with(BASE, geometry=Area.of(far)),
        _with(BASE, geometry=Area(RING, "0,0,0,2,2,2,0,0")),
    ]
    assert len({_hash(item) for item in changed}) == len(changed)
    assert _hash(BASE, places=False) == _hash(_with(BASE, tokens=("other",)), places=False)


@given(st.lists(st.text(max_size=20), min_size=1, max_size=20), st.data())
def test_a_row_has_its_number_wherever_it_is(texts: list[str], data: st.DataObject) -> None:
    """Batches may be cut anywhere; equal rows have equal numbers, others do not."""
    rows = [_with(record(1), payload=text.encode(), identifier={"t": text}) for text in texts]
    batch = records_to_batch(rows)
    whole = content_hash(batch, "mars")
    begin = data.draw(st.integers(0, len(texts)))
    assert np.array_equal(content_hash(batch.slice(begin), "mars"), whole[begin:])
    assert len(set(whole.tolist())) == len(set(texts))


@given(st.binary(min_size=1, max_size=200), st.data())
def test_one_flipped_bit_is_seen(payload: bytes, data: st.DataObject) -> None:
    """Wherever it is."""
    place = data.draw(st.integers(0, len(payload) * 8 - 1))
    other = bytearray(payload)
    other[place // 8] ^= 1 << place % 8
    batch = records_to_batch([record(1), record(1)])
    geometry = pa.array([payload, bytes(other)], pa.binary())
    columns = [
        geometry if item.name == "geometry" else column
        for item, column in zip(batch.schema, batch.columns, strict=True)
    ]
    one, two = content_hash(pa.RecordBatch.from_arrays(columns, schema=batch.schema), "mars")
    assert one != two
