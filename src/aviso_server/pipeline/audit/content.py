"""A hash of the content of a row, the same whichever tier the row is from. Pure.

Every byte has a weight that depends on its position, so a change anywhere changes the number, but
for one chance in some 2**60. All rows of a batch are done together: two passes of numpy over the
bytes, no loop over rows.

It finds accidents, not forgeries: two rows with chosen bytes can be made equal.
"""

from typing import TypeAlias

import numpy as np
import pyarrow as pa

Hashes: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.uint64]]"
_Ints: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"

PLACES = ("topic", "subject")
"""Where a notification was announced; a log that is read over HTTP does not have it."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ABSENT = np.uint64(0xD6E8FEB86659FD93)
"""Represents null, which is not the same as empty."""
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def content_hash(batch: pa.RecordBatch, event_type: str, *, places: bool = True) -> Hashes:
    """A number for each row of RECORD's columns; ``places`` takes topic and subject into it."""
    name = np.frombuffer(event_type.encode(), np.uint8)
    seed = np.uint64(int(_bytes(name, np.array([0, len(name)], np.int64))[0]))
    total: Hashes = np.full(batch.num_rows, seed, np.uint64)
    texts = (*(PLACES if places else ()), "payload", "geometry", "polygon")
    columns = [_numbers(batch.column(name)) for name in ("sequence", "time_ns")]
    columns += [_texts(batch.column(name)) for name in texts]
    columns.append(_maps(batch.column("identifier")))
    for values in columns:
        # The order of the columns counts: what moves from one to another is noticed.
        total = _mixed(total * _FACTORS[0] + values)
    return total


def _mixed(values: Hashes) -> Hashes:
    """Every bit of a number into every bit of the result (the finish of SplitMix64)."""
    values = (values ^ (values >> _SHIFTS[0])) * _FACTORS[0]
    values = (values ^ (values >> _SHIFTS[1])) * _FACTORS[1]
    mixed: Hashes = values ^ (values >> _SHIFTS[2])
    return mixed


def _weights(count: int) -> Hashes:
    """The weight of every place in a text; odd, so that no change is multiplied away."""
    places = np.arange(1, count + 1, dtype=np.uint64)
    weights: Hashes = _mixed(places * _GOLDEN) | np.uint64(1)
    return weights


def _sums(values: Hashes, offsets: _Ints) -> Hashes:
    """The weighted sum of each row's part of ``values``, and how long it is."""
    lengths = np.diff(offsets)
    where = np.arange(len(values), dtype=np.int64) - np.repeat(offsets[:-1], lengths)
    weighted = (values + np.uint64(1)) * _weights(int(lengths.max(initial=0)))[where]
    reached = np.concatenate((np.zeros(1, np.uint64), np.cumsum(weighted, dtype=np.uint64)))
    return _mixed(reached[offsets[1:]] - reached[offsets[:-1]] + lengths.astype(np.uint64))


def _bytes(data: "np.ndarray[tuple[int], np.dtype[np.uint8]]", offsets: _Ints) -> Hashes:
    return _sums(data.astype(np.uint64), offsets)


def _numbers(column: pa.Array) -> Hashes:
    values = np.asarray(column.fill_null(0), np.int64).view(np.uint64)
    return _without(_mixed(values + _GOLDEN), column)


def _texts(column: pa.Array) -> Hashes:
    """Of strings or binaries."""
    found = column.cast(pa.large_binary())
    if len(found) == 0:
        return np.zeros(0, np.uint64)
    _, ends, data = found.buffers()
    offsets = np.frombuffer(ends, np.int64)[found.offset : found.offset + len(found) + 1]
    begin, end = int(offsets[0]), int(offsets[-1])
    raw = np.frombuffer(data, np.uint8)[begin:end] if data is not None else np.zeros(0, np.uint8)
    return _without(_bytes(raw, offsets - begin), column)


def _maps(column: pa.MapArray) -> Hashes:
    if len(column) == 0:
        return np.zeros(0, np.uint64)
    offsets = np.asarray(column.offsets, np.int64)
    begin, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    # The flat columns are those of the whole batch, even if this is a slice of it.
    keys = _texts(column.keys.slice(begin, count))
    values = _texts(column.items.slice(begin, count))
    return _without(_sums(_mixed(keys * _FACTORS[1] + values), offsets - begin), column)


def _without(values: Hashes, column: pa.Array) -> Hashes:
    if not column.null_count:
        return values
    made: Hashes = np.where(np.asarray(column.is_null()), _ABSENT, values)
    return made
