"""The order of rows in a file: by sequence, or by place inside blocks of sequences. Pure.

Replays read by sequence and hold what overlaps in memory, so rows are never ordered by place over a
whole file. Inside a block of a few row groups they may be: each group of the block then covers a
small part of the map, and a question about an area skips most of them, while a replay holds one
block instead of one group.

Places are ordered along a Hilbert curve by the middle of their boxes. Unlike the z-order it makes
no jumps, so neighbours on the curve are neighbours on the map, and the boxes of groups are small.
"""

from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aviso_server.lake.files import ROWS_PER_GROUP
from aviso_server.lake.layout import BOX
from aviso_server.lake.ranges import Ints

Sort = Literal["sequence", "box"]

GROUPS_PER_BLOCK = 8
BLOCK = GROUPS_PER_BLOCK * ROWS_PER_GROUP
"""Rows that are ordered by place together, some 50 MB as a reader holds them."""

_BITS = 16
"""Of each coordinate: cells of some 600 m in latitude."""
_NOWHERE = 2**63 - 1
"""Rows without a place come last."""

_Doubles: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.float64]]"


def by_sequence(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows in sequence order."""
    there = np.asarray(batch.column("sequence"), np.int64)
    if (there[1:] >= there[:-1]).all():
        return batch
    return batch.take(pa.array(np.argsort(there, kind="stable")))


def by_place(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows along the curve; those at the same place, and those without, in sequence order."""
    if batch.column("min_lat").null_count == batch.num_rows:
        return batch
    low_lat, low_lon, high_lat, high_lon = (
        np.asarray(pc.fill_null(batch.column(name), np.nan), np.float64) for name in BOX
    )
    key = curve((low_lat + high_lat) / 2, (low_lon + high_lon) / 2)
    return batch.take(pa.array(np.argsort(key, kind="stable")))


def curve(lat: _Doubles, lon: _Doubles) -> Ints:
    """Where points are on a Hilbert curve over the map; NaN is after all of them."""
    nowhere = np.isnan(lat) | np.isnan(lon)
    side = 1 << _BITS
    # Longitudes may lie outside of -180..180 (an area over the date line): folded onto the map.
    across = (np.where(nowhere, 0.0, lon) + 180.0) % 360.0 / 360.0
    up = (np.where(nowhere, 0.0, lat).clip(-90.0, 90.0) + 90.0) / 180.0
    x = np.minimum((across * side).astype(np.int64), side - 1)
    y = np.minimum((up * side).astype(np.int64), side - 1)
    found = np.zeros(len(x), np.int64)
    step = side >> 1
    while step:
        right, upper = (x & step) > 0, (y & step) > 0
        found += step * step * ((3 * right) ^ upper)
        # Quadrants are turned so that each begins where the one before it ended.
        flip = ~upper & right
        x, y = np.where(flip, side - 1 - x, x), np.where(flip, side - 1 - y, y)
        x, y = np.where(upper, x, y), np.where(upper, y, x)
        step >>= 1
    key: Ints = np.where(nowhere, _NOWHERE, found)
    return key
