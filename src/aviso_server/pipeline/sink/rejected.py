"""Dead letters of the sink: rows that the server did not take, one Parquet file for each task.

A file can be read and, once its rows are corrected, written again: its columns are those of a row,
with the reason beside them. It has its name only when it is whole: before that the name begins with
an underscore, which Spark and most other readers pass over.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from aviso_server.lake.layout import TEXTS, TIME
from aviso_server.pipeline.sink.request import RejectedRow, SinkRow

REJECTED = pa.schema(
    [
        pa.field("event_type", pa.string()),
        pa.field("identifier", TEXTS),  # what is not text is JSON text
        pa.field("payload", pa.string()),
        pa.field("geometry", pa.binary()),
        pa.field("polygon", pa.string()),
        pa.field("idempotency_key", pa.string()),
        pa.field("code", pa.string(), nullable=False),  # the server's, or INVALID_ROW
        pa.field("error", pa.string()),
        pa.field("message", pa.string(), nullable=False),
        pa.field("details", pa.string()),
        pa.field("field", pa.string()),  # if it concerns one
        pa.field("rejected_at", TIME, nullable=False),
    ]
)

FLUSH = 10_000
"""Rows kept in memory before they are written."""


class RejectedFile:
    """The dead-letter file of one task; it is made with the first rejected row."""

    def __init__(self, folder: str, name: str) -> None:
        self._files, self._folder = fs.FileSystem.from_uri(folder)
        self._name = name
        self._waiting: list[tuple[RejectedRow, datetime]] = []
        self._writer: pq.ParquetWriter | None = None

    def add(self, refusal: RejectedRow) -> None:
        """Keep a row and the reason."""
        self._waiting.append((refusal, datetime.now(UTC)))
        if len(self._waiting) >= FLUSH:
            self._flush()

    def close(self) -> str | None:
        """Finish the file; its path, if there is one."""
        self._flush()
        if self._writer is None:
            return None
        self._writer.close()
        path = f"{self._folder}/{self._name}"
        self._files.move(self._draft, path)
        return path

    @property
    def _draft(self) -> str:
        return f"{self._folder}/_{self._name}"

    def _flush(self) -> None:
        if not self._waiting:
            return
        if self._writer is None:
            self._files.create_dir(self._folder, recursive=True)
            self._writer = pq.ParquetWriter(self._draft, REJECTED, filesystem=self._files)
        self._writer.write_batch(rejected_rows(self._waiting))
        self._waiting.clear()


def rejected_rows(refusals: Sequence[tuple[RejectedRow, datetime]]) -> pa.RecordBatch:
    """Refusals as rows of REJECTED."""
    rows = [
        {
            "event_type": refusal.row.event_type,
            "identifier": _texts(refusal.row),
            "payload": refusal.row.payload,
            "geometry": refusal.row.geometry,
            "polygon": refusal.row.polygon,
            "idempotency_key": refusal.key,
            "code": refusal.code,
            "error": refusal.error,
            "message": refusal.message,
            "details": refusal.details,
            "field": refusal.field,
            "rejected_at": at,
        }
        for refusal, at in refusals
    ]
    return pa.RecordBatch.from_pylist(rows, schema=REJECTED)


def _texts(row: SinkRow) -> list[tuple[str, str | None]] | None:
    if row.identifier is None:
        return None
    return [(name, _text(value)) for name, value in row.identifier.items()]


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()
