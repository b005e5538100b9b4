"""Rows of a typed table as Parquet files, which only a commit makes part of it.

A file has rows of one day, ordered by the fields of the topic, so that row groups and pages of a
value lie together. It carries statistics of every column, and GeoParquet metadata if it has places.
"""

import json
import uuid
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from aviso_server.core.fields.place import PointCloudField
from aviso_server.core.schema import Schema
from aviso_server.lake.files import BYTES_PER_GROUP, Written
from aviso_server.lake.layout import BOX, Place
from aviso_server.lake.statistics import statistics_json
from aviso_server.lake.storage import LakeFailed, files
from aviso_server.lake.typed.columns import DAY
from aviso_server.lake.typed.table import table_name

ROWS_PER_GROUP = 65_536
"""Rows that are read together. Ordered rows need fewer groups to be skipped than unordered ones."""

LONGEST = 32
"""Characters of a text that statistics keep; a longer one is rounded outwards."""

_LAST = "\U0010ffff"
_NOT_RANGED = frozenset({"payload", "geometry"})
"""Columns whose lowest and highest values help nobody."""


def write_files(
    place: Place, schema: Schema, rows: pa.Table, order: Sequence[tuple[str, str]], last_ns: int
) -> list[Written]:
    """The rows in a file for each day; ``last_ns`` is the storage time of the last of them."""
    try:
        return [
            _write(place, schema, day, part.sort_by(list(order)), last_ns)
            for day, part in _days(rows)
        ]
    except OSError as error:
        where = place.table(table_name(schema.event_type))
        raise LakeFailed(f"cannot write to {where}: {error}") from error


def _days(rows: pa.Table) -> Iterator[tuple[date, pa.Table]]:
    days = pc.unique(rows[DAY])
    for day in days:
        part = rows if len(days) == 1 else rows.filter(pc.equal(rows[DAY], day))
        yield day.as_py(), part.drop_columns([DAY])


def _write(place: Place, schema: Schema, day: date, rows: pa.Table, last_ns: int) -> Written:
    target = files(place, table_name(schema.event_type))
    folder = f"{DAY}={day.isoformat()}"
    target.create_dir(folder, recursive=True)
    path = f"{folder}/{uuid.uuid4().hex}.parquet"
    fit = rows.num_rows * BYTES_PER_GROUP // max(1, rows.nbytes)
    with target.open_output_stream(path) as stream:
        writer = pq.ParquetWriter(
            stream,
            rows.schema,
            compression="zstd",
            write_page_index=True,
            write_page_checksum=True,
            store_schema=False,
        )
        with writer:
            writer.write_table(rows, row_group_size=max(1, min(ROWS_PER_GROUP, fit)))
            if "geometry" in rows.column_names:
                writer.add_key_value_metadata({"geo": _geo(schema, rows)})
        size = stream.tell()
    spread = pc.min_max(rows["sequence"])
    return Written(
        path,
        size,
        schema.event_type,
        day,
        rows.num_rows,
        spread["min"].as_py(),
        spread["max"].as_py(),
        last_ns,
        _statistics(rows),
    )


def _geo(schema: Schema, rows: pa.Table) -> str:
    """GeoParquet 1.1: longitude and latitude of CRS84, edges on the plane."""
    kind = "MultiPoint" if isinstance(schema.spatial, PointCloudField) else "Polygon"
    about: dict[str, Any] = {"encoding": "WKB", "geometry_types": [kind], "edges": "planar"}
    low_lat, low_lon, high_lat, high_lon = (pc.min_max(rows[name]) for name in BOX)
    box = [low_lon["min"], low_lat["min"], high_lon["max"], high_lat["max"]]
    if all(edge.is_valid for edge in box):
        about["bbox"] = [edge.as_py() for edge in box]
    whole = {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": about}}
    return json.dumps(whole)


def _statistics(rows: pa.Table) -> str:
    ranges = {}
    for name in rows.column_names:
        column = rows[name]
        if name in _NOT_RANGED or column.null_count == len(column):
            continue
        found = pc.min_max(column)
        low, high = found["min"].as_py(), found["max"].as_py()
        if isinstance(low, str):
            low = low[:LONGEST]
            high = high if len(high) <= LONGEST else high[:LONGEST] + _LAST
        ranges[name] = (low, high)
    nulls = {name: rows[name].null_count for name in rows.column_names}
    return statistics_json(rows.num_rows, ranges, nulls)
