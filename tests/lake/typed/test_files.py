"""Files of typed tables: ordered, with statistics of every column, readable as GeoParquet."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import shapely
from support.lake import filled, record, table_of
from support.typed import updated

from aviso_server.core.fields.number import IntField
from aviso_server.core.fields.place import PolygonField
from aviso_server.core.fields.text import StringField
from aviso_server.core.geometry import Area
from aviso_server.core.schema import Schema
from aviso_server.lake.layout import Place
from aviso_server.lake.typed.table import table_name

AREAS = Schema(
    "areas",
    (
        StringField(name="name", required=False),
        IntField(name="level", required=False, description="Of the warning"),
        PolygonField(name="polygon", required=True),
    ),
    base="areas",
    key_order=("level", "name"),
)


def _square(north: float) -> Area:
    corners = ((0.0, 0.0), (0.0, 1.0), (1.0, 1.0), (1.0, 0.0), (0.0, 0.0))
    return Area.of(tuple((lat + north, lon) for lat, lon in corners))


def test_rows_are_in_key_order_and_places_are_geoparquet(place: Place, tmp_path: Path) -> None:
    """By the fields of the topic, numbers as numbers; the file says where its places are."""
    levels = [10, 9, 2, 2]
    filled(
        place,
        [
            record(
                n, "areas", identifier={"level": str(v), "name": "ab"[n % 2]}, geometry=_square(n)
            )
            for n, v in enumerate(levels, 1)
        ],
    )
    updated(place, AREAS)
    (path,) = (tmp_path / "lake" / table_name("areas")).rglob("*.parquet")
    rows = pq.read_table(path, partitioning=None)
    assert list(zip(rows["level"].to_pylist(), rows["name"].to_pylist(), strict=True)) == [
        (2, "a"),
        (2, "b"),
        (9, "a"),
        (10, "b"),
    ]
    geo = json.loads(pq.ParquetFile(path).metadata.metadata[b"geo"])
    assert geo["columns"]["geometry"]["bbox"] == [0.0, 1.0, 1.0, 5.0]
    assert geo["primary_column"] == "geometry"
    shapes = shapely.from_wkb(rows["geometry"].to_pylist())
    assert {shape.bounds[1] for shape in shapes} == {1.0, 2.0, 3.0, 4.0}
    fields = {field.name: field for field in table_of(place, table_name("areas")).schema().fields}
    assert fields["level"].metadata["comment"] == "Of the warning"
    assert not fields["sequence"].nullable
