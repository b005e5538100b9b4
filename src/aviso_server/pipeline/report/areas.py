"""How often each cell of the globe was announced. The cells of a place are exact, not its box's."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import shapely
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.pandas.types import from_arrow_schema

from aviso_server.pipeline.report.expect import Ints

CELL = 2
"""Degrees: fine enough for a storm, and some 16 000 cells at most."""

COLUMNS, ROWS = 360 // CELL, 180 // CELL

_CELLS = pa.schema(
    [("event_type", pa.string()), ("cell", pa.int32()), ("notifications", pa.int64())]
)


def count_cells(places: DataFrame) -> DataFrame:
    """Rows (event_type, lat, lon, notifications) from rows (event_type, geometry, n)."""
    cells = places.mapInArrow(_tally, from_arrow_schema(_CELLS))
    return (
        cells.groupBy("event_type", "cell")
        .agg(F.sum("notifications").alias("notifications"))
        .select(
            "event_type",
            (F.expr(f"cell div {COLUMNS}") * CELL - 90).cast("int").alias("lat"),
            (F.expr(f"cell % {COLUMNS}") * CELL - 180).cast("int").alias("lon"),
            "notifications",
        )
    )


def tally(geometries: Sequence[bytes], counts: Ints) -> Ints:
    """Notifications for each cell, from the south-western one, row by row."""
    totals = np.zeros(ROWS * COLUMNS, np.int64)
    if not len(geometries):
        return totals
    shapes = shapely.from_wkb(list(geometries))
    # A bow-tie is as good as any area, but the tree wants it taken apart.
    broken = ~shapely.is_valid(shapes)
    if broken.any():
        shapes[broken] = shapely.make_valid(shapes[broken])
    place, cell = _TREE.query(shapes, predicate="intersects")
    np.add.at(totals, cell, counts[place])
    return totals


def _tally(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    totals: defaultdict[str, Ints] = defaultdict(lambda: np.zeros(ROWS * COLUMNS, np.int64))
    for batch in batches:
        names = np.asarray(batch.column("event_type").to_pylist(), object)
        places = np.asarray(batch.column("geometry").to_pylist(), object)
        counts = np.asarray(batch.column("n"), np.int64)
        for name in dict.fromkeys(names.tolist()):
            mine = names == name
            totals[name] += tally(places[mine].tolist(), counts[mine])
    for name, total in totals.items():
        cells = np.flatnonzero(total)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([name] * len(cells), pa.string()),
                pa.array(cells.astype(np.int32)),
                pa.array(total[cells]),
            ],
            schema=_CELLS,
        )


def _grid() -> shapely.STRtree:
    row, column = np.divmod(np.arange(ROWS * COLUMNS), COLUMNS)
    south, west = row * CELL - 90.0, column * CELL - 180.0
    # A hair smaller, so that a place on a border counts in no more cells than it has to.
    hair = 1e-9
    return shapely.STRtree(
        shapely.box(west + hair, south + hair, west + CELL - hair, south + CELL - hair)
    )


_TREE = _grid()
