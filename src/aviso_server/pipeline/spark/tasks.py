"""Work in pieces over Spark's tasks: sent as bytes, answered as rows.

Pieces and answers are plain values, so the same work runs in this process, on a cluster and
through Spark Connect. Spark's workers need this package and nothing else of the driver's.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

TASKS = 256
"""Tasks at most: starting one takes as long as reading a small file."""

_Piece = TypeVar("_Piece")


def spread(
    spark: SparkSession,
    pieces: Sequence[_Piece],
    kind: type[_Piece],
    *,
    work: Callable[[_Piece], Iterator[pa.RecordBatch]],
    schema: str | StructType,
) -> DataFrame:
    """The rows that ``work`` makes of each piece; lazy, as DataFrames are."""
    told = [(msgspec.msgpack.encode(piece),) for piece in pieces]
    rows = spark.createDataFrame(told, "piece binary")

    def answers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for piece in batch.column("piece").to_pylist():
                yield from work(msgspec.msgpack.decode(piece, type=kind))

    # Dealt out from one partition, like cards: every task gets as many as the others.
    tasks = max(1, min(len(told), TASKS))
    return rows.coalesce(1).repartition(tasks).mapInArrow(answers, schema)
