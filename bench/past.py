"""A past to measure on: rows of the lake made in bulk, the same for the same arguments.

Forecast fields as the example configuration announces them, four cycles a day, and patches of
area; one notification every 80 ms, so a million of them are a day.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aviso_server.core.geometry import Area
from aviso_server.lake import wkb
from aviso_server.lake.commit import commit
from aviso_server.lake.files import FileWriter
from aviso_server.lake.layout import BOX, RECORD, TEXTS, TIME, Place

BEGIN_NS = 1_767_225_600_000_000_000
"""2026-01-01T00:00:00Z."""
EVERY_NS = 80_000_000
CHUNK = 20_000


def past(first: int, count: int, *, places: bool = False) -> Iterator[pa.RecordBatch]:
    """Rows of ``mars``, or of ``test_polygon`` with ``places``, from a sequence on."""
    for begin in range(first, first + count, CHUNK):
        yield _rows(np.arange(begin, min(begin + CHUNK, first + count)), places=places)


def lake(place: Place, count: int, *, per_commit: int, places: bool = False) -> None:
    """Fill a lake as the archive job would, one commit after the other."""
    for begin in range(1, count + 1, per_commit):
        many = min(per_commit, count + 1 - begin)
        writer = FileWriter(place)
        for batch in past(begin, many, places=places):
            writer.write(batch)
        name = "test_polygon" if places else "mars"
        commit(place, writer.close(), {name: begin + many - 1})


def _rows(
    sequence: "np.ndarray[tuple[int], np.dtype[np.int64]]", *, places: bool
) -> pa.RecordBatch:
    count = len(sequence)
    name = "test_polygon" if places else "mars"
    ns = BEGIN_NS + sequence * EVERY_NS
    days = pa.array(ns // 1000).cast(TIME)
    dates = pc.strftime(days, "%Y%m%d")
    times = _texts(np.array(["0000", "0600", "1200", "1800"])[sequence // 500 % 4])
    steps = pa.array(sequence % 500).cast(pa.string())
    identifier = _map(
        {"date": dates, "time": times}
        if places
        else {
            "class": _texts(np.full(count, "od")),
            "date": dates,
            "domain": _texts(np.full(count, "g")),
            "expver": _texts(np.full(count, "0001")),
            "step": steps,
            "stream": _texts(np.array(["oper", "enfo"])[sequence % 2]),
            "time": times,
        }
    )
    numbers = pa.array(sequence)
    identity = pc.binary_join_element_wise(name, numbers.cast(pa.string()), "@")
    topic = pc.binary_join_element_wise(name, dates, times, steps, ".")
    nothing = pa.nulls(count, pa.string())
    where = (
        _squares(sequence) if places else [pa.nulls(count, pa.binary()), nothing, *_no_box(count)]
    )
    payload = pc.binary_join_element_wise('{"location":"s3://bucket/', steps, '.grib2"}', "")
    return pa.RecordBatch.from_arrays(
        [
            _texts(np.full(count, name)),
            numbers,
            identity,
            days,
            pa.array(ns),
            topic,
            nothing,
            identifier,
            payload,
            *where,
        ],
        schema=RECORD,
    )


def _no_box(count: int) -> list[pa.Array]:
    return [pa.nulls(count, pa.float64()) for _ in BOX]


def _texts(values: "np.ndarray[tuple[int], np.dtype[np.str_]]") -> pa.Array:
    return pa.array(values.astype(object), pa.string())


def _map(columns: dict[str, pa.Array]) -> pa.MapArray:
    """A map column whose rows all have the same keys, in name order."""
    count = len(next(iter(columns.values())))
    width = len(columns)
    keys = pa.array(list(columns) * count, pa.string())
    stacked = pa.concat_arrays(list(columns.values()))
    order = np.arange(width * count).reshape(width, count).T.ravel()
    offsets = pa.array(np.arange(0, width * count + 1, width, dtype=np.int32))
    return pa.MapArray.from_arrays(offsets, keys, stacked.take(pa.array(order)), type=TEXTS)


def _squares(sequence: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> list[pa.Array]:
    """One of 1000 squares of two degrees, as producers announce the same areas again and again."""
    made = []
    for n in range(1000):
        lat, lon = -60.0 + 3 * (n // 40), -180.0 + 9 * (n % 40)
        ring = ((0.0, 0.0), (0.0, 2.0), (2.0, 2.0), (2.0, 0.0), (0.0, 0.0))
        made.append(Area.of(tuple((lat + north, lon + east) for north, east in ring)))
    which = pa.array((sequence * 37 % 1000).astype(np.int64))
    boxes = [pa.array([getattr(a.box, name) for a in made]).take(which) for name in BOX]
    shapes = pa.array([wkb.encode(area) for area in made], pa.binary()).take(which)
    return [shapes, pa.nulls(len(sequence), pa.string()), *boxes]
