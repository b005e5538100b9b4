"""Rows as requests for another server, made in Spark tasks and handed over in sequence order."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from aviso_server.pipeline.delivery.client import Rejected
from aviso_server.pipeline.delivery.delivery import Item
from aviso_server.pipeline.replay.order import in_pieces
from aviso_server.pipeline.replay.parts import as_records
from aviso_server.pipeline.sink.request import (
    INVALID_ROW,
    RejectedRow,
    Request,
    request_of,
    rows_of,
)

PIECE = 20_000
"""Sequences that come to the driver together; it holds at most two pieces at a time."""

_ITEM = StructType(
    [
        StructField("sequence", LongType()),
        StructField("body", BinaryType()),
        StructField("problem", StringType()),
    ]
)
_ROWS = pa.schema([("sequence", pa.int64()), ("body", pa.binary()), ("problem", pa.string())])


def key_of(origin: str, event_type: str, sequence: int) -> str:
    """The idempotency key of a notification: the same in every run that sends it."""
    text = f"{origin}\n{event_type}@{sequence}".encode()
    return f"replay-{hashlib.blake2b(text, digest_size=20).hexdigest()}"


def items(
    rows: DataFrame, event_type: str, origin: str, *, first: int, last: int
) -> Iterator[Item]:
    """The rows of a range as requests, in order, a piece of the range at a time."""
    ordered = in_pieces(rows, first, last, size=PIECE)
    requests = ordered.mapInArrow(_maker(event_type, origin), _ITEM)
    for row in requests.toLocalIterator(prefetchPartitions=True):
        problem = None if row.problem is None else Rejected(INVALID_ROW, message=row.problem)
        about = {"id": f"{event_type}@{row.sequence}"}
        yield Item(row.sequence, bytes(row.body or b""), problem, about)


def _maker(
    event_type: str, origin: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            sequences = batch.column("sequence").to_pylist()
            bodies, problems = [], []
            for row, sequence in zip(rows_of(as_records(batch)), sequences, strict=True):
                request = request_of(replace(row, key=key_of(origin, event_type, sequence)))
                bodies.append(request.body if isinstance(request, Request) else None)
                problems.append(request.message if isinstance(request, RejectedRow) else None)
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array(sequences, pa.int64()),
                    pa.array(bodies, pa.binary()),
                    pa.array(problems, pa.string()),
                ],
                schema=_ROWS,
            )

    return make
