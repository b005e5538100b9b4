"""Row groups of Parquet files as Arrow batches, with a cache that all readers share.

Files never change, so what was decoded once is good for ever; the cache is bounded in bytes and
forgets what was not used for longest. Columns are decoded in parts: to see that a filter matches
nothing, payloads need not be read.
"""

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from cachetools import LRUCache

from aviso_server.lake.layout import BOX, NOTIFICATIONS, RECORD, Place
from aviso_server.lake.ranges import EVERYWHERE, MOST, Floats, Ints, Ranges
from aviso_server.lake.storage import LakeFailed, opener

ORDER: Final = ("sequence", "time_ns")
TEST: Final = ("identifier", "geometry", *BOX)
REST: Final = ("topic", "subject", "payload", "polygon")
"""Parts of a row: what orders it, what filters compare, and what is only shown."""

Columns = tuple[str, ...]
_T = TypeVar("_T")


class FileGone(LakeFailed):
    """A file of the table is not there: the table may have moved on."""


@dataclass(frozen=True, slots=True)
class Footer:
    """What a file says of its row groups."""

    metadata: pq.FileMetaData
    numbers: tuple[int, ...]
    """Row groups by first sequence; ``ranges`` is in this order."""
    ranges: Ranges


_Key: TypeAlias = tuple[str, int, Columns]
_Decoded: TypeAlias = Footer | pa.RecordBatch


class RowGroups:
    """Row groups by file and number."""

    def __init__(self, place: Place, *, cache_bytes: int) -> None:
        self._source = cache(lambda: opener(place, NOTIFICATIONS))
        # Columns of a group are then fetched together, not one after the other.
        self._ahead = place.remote
        self._cache: LRUCache[_Key, _Decoded] = LRUCache(cache_bytes, getsizeof=_size)
        self._lock = threading.Lock()

    def footer(self, path: str, *, size: int | None = None) -> Footer:
        """The row groups of a file; its size, if known, spares the store a question."""
        known = self._recall((path, -1, ()))
        if isinstance(known, Footer):
            return known
        metadata = self._guard(path, lambda: self._metadata(path, size))
        footer = _footer(metadata)
        self._keep((path, -1, ()), footer)
        return footer

    def parts(
        self, path: str, number: int, wanted: Iterable[Columns], *, size: int | None = None
    ) -> list[pa.RecordBatch]:
        """Parts of a row group; those that are not in the cache are decoded together."""
        wanted = tuple(wanted)
        found: dict[Columns, pa.RecordBatch] = {
            part: self._recall((path, number, part)) for part in wanted
        }
        missing = [part for part, batch in found.items() if batch is None]
        if missing:
            columns = [name for part in missing for name in part]
            batch = self._guard(path, lambda: self._decode((path, size), number, columns))
            for part in missing:
                found[part] = batch.select(list(part))
                self._keep((path, number, part), found[part])
        return [found[part] for part in wanted]

    def _recall(self, key: _Key) -> _Decoded | None:
        with self._lock:
            return self._cache.get(key)

    def _keep(self, key: _Key, decoded: _Decoded) -> None:
        # What is larger than the whole cache is refused by it.
        with self._lock, suppress(ValueError):
            self._cache[key] = decoded

    def _decode(
        self, file_: tuple[str, int | None], number: int, columns: list[str]
    ) -> pa.RecordBatch:
        path, size = file_
        with self._open(path, size, self.footer(path, size=size).metadata) as file:
            table = file.read_row_group(number, columns=columns)
        arrays = []
        for name in columns:
            kind = RECORD.field(name).type
            if name not in table.column_names:  # a column that came after this file
                arrays.append(pa.nulls(table.num_rows, kind))
                continue
            column = table[name].combine_chunks()
            if isinstance(column, pa.ChunkedArray):
                column = pa.concat_arrays(column.chunks) if column.num_chunks else column
            arrays.append(column if column.type == kind else column.cast(kind))
        return pa.RecordBatch.from_arrays(arrays, names=columns)

    def _metadata(self, path: str, size: int | None) -> pq.FileMetaData:
        with self._open(path, size, None) as file:
            return file.metadata

    def _open(
        self, path: str, size: int | None, metadata: pq.FileMetaData | None
    ) -> pq.ParquetFile:
        return pq.ParquetFile(self._source()(path, size), metadata=metadata, pre_buffer=self._ahead)

    @staticmethod
    def _guard(path: str, read: Callable[[], _T]) -> _T:
        """Name the file that cannot be read."""
        try:
            return read()
        except FileNotFoundError as error:
            raise FileGone(f"file {path} is missing: {error}") from error
        except (OSError, ValueError, pa.ArrowException) as error:
            raise LakeFailed(f"file {path} cannot be read: {error}") from error


def _size(decoded: _Decoded) -> int:
    size: int = decoded.metadata.serialized_size if isinstance(decoded, Footer) else decoded.nbytes
    return size


def _footer(metadata: pq.FileMetaData) -> Footer:
    places = {metadata.schema.column(n).path: n for n in range(metadata.num_columns)}
    count = metadata.num_row_groups
    first, last = _span(metadata, places["sequence"], 0)
    since, until = _span(metadata, places["time_ns"], -MOST)
    boxes: Floats = np.empty((count, len(BOX)), np.float64)
    for place, name in enumerate(BOX):
        for group in range(count):
            boxes[group, place] = _edge(metadata, group, places.get(name), place)
    order = np.argsort(first, kind="stable")
    ranges = Ranges(first[order], last[order], since[order], until[order], boxes[order])
    return Footer(metadata, tuple(order.tolist()), ranges)


def _span(metadata: pq.FileMetaData, column: int, low: int) -> tuple[Ints, Ints]:
    """Lowest and highest value per row group; one without statistics can hold anything."""
    spans = []
    for group in range(metadata.num_row_groups):
        told = metadata.row_group(group).column(column).statistics
        known = told is not None and told.has_min_max
        spans.append((told.min, told.max) if known else (low, MOST))
    both = np.array(spans, np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _edge(metadata: pq.FileMetaData, group: int, column: int | None, place: int) -> float:
    if column is None:
        return float("nan")
    rows = metadata.row_group(group)
    told = rows.column(column).statistics
    if told is None:
        return float(EVERYWHERE[place])
    if told.has_min_max:
        return float(told.min if place < 2 else told.max)
    nowhere = told.has_null_count and told.null_count == rows.num_rows
    return float("nan") if nowhere else float(EVERYWHERE[place])
