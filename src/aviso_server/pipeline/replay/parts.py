"""Writing one partition as a file, in a Spark task: it is reported, and nothing is visible yet.

A task that Spark runs twice leaves an unreported file; only reported files become part of the
output.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
from deltalake.fs import DeltaStorageHandler
from pyspark.sql.types import LongType, StringType, StructField, StructType

from aviso_server.core.cloudevent import Renderer
from aviso_server.lake.files import ROWS_PER_GROUP
from aviso_server.lake.layout import RECORD
from aviso_server.lake.record import batch_to_records
from aviso_server.lake.table import STATISTICS

WRITTEN = StructType(
    [
        StructField("path", StringType()),
        StructField("size", LongType()),
        StructField("rows", LongType()),
        StructField("statistics", StringType()),
    ]
)
"""What a task reports of its file."""

_WRITTEN_ARROW = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("rows", pa.int64()),
        ("statistics", pa.string()),
    ]
)

BUFFER = 1_048_576

_STATISTICS = tuple(name for name in STATISTICS if name != "time")
"""Numbers only: Parquet's own statistics of times need translating, and time_ns has the same."""


@dataclass(frozen=True, slots=True)
class Folder:
    """Where files are written."""

    path: str
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def remote(self) -> bool:
        """Whether it is an object store, where nothing can be renamed."""
        return "://" in self.path and not self.path.startswith("file://")

    @property
    def local(self) -> Path:
        """The folder on this machine's disks."""
        return Path(self.path.removeprefix("file://"))

    def open(self) -> pa_fs.FileSystem:
        """The folder as a separate file system."""
        if self.remote:
            return pa_fs.PyFileSystem(DeltaStorageHandler(self.path, dict(self.storage)))
        self.local.mkdir(parents=True, exist_ok=True)
        return pa_fs.SubTreeFileSystem(str(self.local), pa_fs.LocalFileSystem())


Writer = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""For mapInArrow."""


def parquet_writer(folder: Folder, run: str, schema: pa.Schema) -> Writer:
    """Writes the rows of a partition as Parquet."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (pa.Table.from_batches([batch]).cast(schema) for batch in batches if batch.num_rows)
        head = next(rows, None)
        if head is None:
            return
        path = _name(head["sequence"][0].as_py(), run, "parquet")
        footers: list[pq.FileMetaData] = []
        with folder.open().open_output_stream(path) as stream:
            with pq.ParquetWriter(
                stream, schema, compression="zstd", metadata_collector=footers
            ) as file:
                waiting, count = [head], head.num_rows
                for more in rows:
                    waiting.append(more)
                    count += more.num_rows
                    if count >= ROWS_PER_GROUP:
                        file.write_table(pa.concat_tables(waiting))
                        waiting, count = [], 0
                if waiting:
                    file.write_table(pa.concat_tables(waiting))
            size = stream.tell()
        yield _report(path, size, footers[0].num_rows, statistics(footers[0]))

    return write


def event_writer(folder: Folder, run: str, base_url: str, *, polygon_text: bool) -> Writer:
    """Writes the rows of a partition as CloudEvents, one a line, as a server renders them."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (batch for batch in batches if batch.num_rows)
        head = next(rows, None)
        if head is None:
            return
        renderer = Renderer(base_url, polygon_text=polygon_text)
        path = _name(head.column("sequence")[0].as_py(), run, "ndjson")
        count = 0
        # With a buffer, for delta-rs's own streams take bytes, and pyarrow hands them its buffers.
        with folder.open().open_output_stream(path, buffer_size=BUFFER) as stream:
            for batch in (head, *rows):
                lines = [renderer.render(record) for record in batch_to_records(as_records(batch))]
                stream.write(b"\n".join([*lines, b""]))
                count += len(lines)
            size = stream.tell()
        yield _report(path, size, count, "")

    return write


def as_records(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of RECORD; Spark's own types differ in names and in what may be null."""
    columns = [batch.column(item.name).cast(item.type) for item in RECORD]
    return pa.RecordBatch.from_arrays(columns, schema=RECORD)


def statistics(footer: pq.FileMetaData) -> str:
    """Delta's statistics of a file, from its footer."""
    low: dict[str, float] = {}
    high: dict[str, float] = {}
    nulls = dict.fromkeys(_STATISTICS, 0)
    places = {footer.schema.column(n).path: n for n in range(footer.num_columns)}
    for group in range(footer.num_row_groups):
        for name in _STATISTICS:
            column = footer.row_group(group).column(places[name]).statistics
            nulls[name] += column.null_count
            if column.has_min_max:
                low[name] = min(low.get(name, column.min), column.min)
                high[name] = max(high.get(name, column.max), column.max)
    bounds = {"minValues": low, "maxValues": high}
    return json.dumps({"numRecords": footer.num_rows, **bounds, "nullCount": nulls})


def _name(first: int, run: str, ending: str) -> str:
    """Names sort as sequences do; ``run`` shows whose they are, the rest which attempt's."""
    return f"part-{first:019d}-{run}-{uuid4().hex[:8]}.{ending}"


def _report(path: str, size: int, rows: int, stats: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"path": path, "size": size, "rows": rows, "statistics": stats}], schema=_WRITTEN_ARROW
    )
