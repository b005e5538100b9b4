"""Records as Arrow rows and back, without losing a bit.

What a row cannot hold is not a reason to stop: a stored message whose text is not UTF-8 becomes
an ``Unreadable``, as one that cannot be decoded does.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice, pairwise, repeat

import pyarrow as pa

from aviso_server.core.geometry import Area, Geometry
from aviso_server.core.notification import Entry, Notification, Record, Unreadable
from aviso_server.core.topic import parse_subject, subject
from aviso_server.lake import wkb
from aviso_server.lake.layout import BOX, RECORD, TEXTS, TIME

NS_PER_US = 1000

SMALL_BYTES = 1024
"""Places up to some 60 points are remembered: at most some 20 MB in a process."""

_NOWHERE: tuple[object, ...] = (None,) * (2 + len(BOX))


def records_to_batch(records: Sequence[Record]) -> pa.RecordBatch:
    """Rows of RECORD, one for each record, in order; each must be ``storable``."""
    items = [record.notification for record in records]
    times = pa.array([record.stored_at_ns for record in records], pa.int64())
    places = _Places()
    geometry = [places.row(item.geometry) for item in items]
    topics = [item.topic for item in items]
    columns: list[pa.Array] = [
        pa.array([item.event_type for item in items], pa.string()),
        pa.array([record.sequence for record in records], pa.int64()),
        pa.array(
            [f"{r.notification.event_type}@{r.sequence}" for r in records],
            pa.string(),
        ),
        pa.array([record.stored_at_ns // NS_PER_US for record in records], pa.int64()).cast(TIME),
        times,
        pa.array(topics, pa.string()),
        pa.array([_ambiguous(item) for item in items], pa.string()),
        pa.array([list(item.identifier.items()) for item in items], TEXTS),
        pa.array([item.payload for item in items], pa.binary()).cast(pa.string()),
        pa.array([row[0] for row in geometry], pa.binary()),
        pa.array([row[1] for row in geometry], pa.string()),
    ]
    columns += [pa.array([row[2 + n] for row in geometry], pa.float64()) for n in range(len(BOX))]
    return pa.RecordBatch.from_arrays(columns, schema=RECORD)


def storable(entry: Entry) -> Entry:
    """The entry itself, or why its texts cannot be kept as UTF-8."""
    if isinstance(entry, Unreadable):
        return entry
    item = entry.notification
    try:
        item.payload.decode()
        "".join((*item.identifier, *item.identifier.values(), *item.tokens)).encode()
    except UnicodeError:
        shown = item.topic.encode(errors="replace").decode()
        reason = "its text is not valid UTF-8"
        return Unreadable(entry.sequence, entry.stored_at_ns, shown, reason)
    return entry


def batch_to_records(batch: pa.RecordBatch, *, event_type: str | None = None) -> list[Record]:
    """The records that became these rows; other columns are ignored.

    If the event type is given, its column is not needed.
    """
    places = _Geometries()
    if event_type is None:
        names: Iterable[str] = batch.column("event_type").to_pylist()
    else:
        names = repeat(event_type, batch.num_rows)
    rows = zip(
        names,
        batch.column("sequence").to_pylist(),
        batch.column("time_ns").to_pylist(),
        batch.column("topic").to_pylist(),
        batch.column("subject").to_pylist(),
        _maps(batch.column("identifier")),
        batch.column("payload").cast(pa.binary()).to_pylist(),
        batch.column("geometry").to_pylist(),
        batch.column("polygon").to_pylist(),
        strict=True,
    )
    return [
        Record(
            sequence,
            ns,
            Notification(
                name,
                tuple(topic.split(".")) if wire is None else parse_subject(wire),
                identifier,
                None if data is None else places.of(data, text),
                payload,
            ),
        )
        for name, sequence, ns, topic, wire, identifier, payload, data, text in rows
    ]


def _ambiguous(item: Notification) -> str | None:
    """The subject, if the topic's tokens are ambiguous."""
    return subject(item.tokens) if any("." in token for token in item.tokens) else None


def _maps(column: pa.MapArray) -> Iterable[dict[str, str]]:
    """Dictionaries of a map column; two flat lists are much faster than a list of pairs each."""
    offsets = column.offsets.to_pylist()
    begin, count = offsets[0], offsets[-1] - offsets[0]
    # The flat columns are those of the whole batch, even if this is a slice of it.
    keys = column.keys.slice(begin, count).to_pylist()
    values = column.items.slice(begin, count).to_pylist()
    pairs = zip(keys, values, strict=True)
    return (dict(islice(pairs, high - low)) for low, high in pairwise(offsets))


class _Places:
    """Rows of places: WKB, own spelling, box. Producers announce the same area again and again."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[object, ...]] = {}

    def row(self, geometry: Geometry | None) -> tuple[object, ...]:
        """The columns of one place."""
        if geometry is None:
            return _NOWHERE
        # By text, not by value: -0.0 and 0.0 are equal and are not written alike.
        row = self._seen.get(geometry.text)
        if row is None:
            row = self._seen[geometry.text] = self._row(geometry)
        return row

    def _row(self, geometry: Geometry) -> tuple[object, ...]:
        spelled = isinstance(geometry, Area) and geometry.text != Area.of(geometry.points).text
        box = geometry.box
        return (
            wkb.encode(geometry),
            geometry.text if spelled else None,
            *(getattr(box, name) for name in BOX),
        )


class _Geometries:
    """Places of rows, each distinct one decoded once."""

    def __init__(self) -> None:
        self._seen: dict[tuple[bytes, str | None], Geometry] = {}

    def of(self, data: bytes, text: str | None) -> Geometry:
        """The place of one row."""
        if len(data) <= SMALL_BYTES:
            return _small(data, text)
        found = self._seen.get((data, text))
        if found is None:
            found = self._seen[data, text] = wkb.decode(data, text)
        return found


@lru_cache(maxsize=2048)
def _small(data: bytes, text: str | None) -> Geometry:
    # Also across batches, which may have few rows each: decoding is most of reading a record.
    return wkb.decode(data, text)
