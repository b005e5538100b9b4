"""Work over Spark's tasks: dealt out by bytes, sent as columns, answered as rows.

Pieces and answers are plain values, so the same work runs in this process, on a cluster and
through Spark Connect. Spark's workers need this package and nothing else of the driver's.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from aviso_server.lake.ranges import Ints

TASK_BYTES = 64 * 1024 * 1024
"""What a task reads, or little more: seconds of work, and what is done again if it fails. There are
as many tasks as that makes."""

OPEN_BYTES = 1024 * 1024
"""What could be read while a file is opened: many small files are work, too."""

_TASK = "task"

_Piece = TypeVar("_Piece")


def by_bytes(sizes: Ints) -> Ints:
    """The task of each piece: neighbours together, about as many bytes in each task."""
    cost = sizes + OPEN_BYTES
    begins = np.cumsum(cost) - cost
    tasks: Ints = np.unique(begins // TASK_BYTES, return_inverse=True)[1].astype(np.int64)
    return tasks


def deal(
    spark: SparkSession,
    pieces: pa.Table,
    tasks: Ints,
    *,
    work: Callable[[pa.Table], Iterator[pa.RecordBatch]],
    schema: str | StructType,
) -> DataFrame:
    """The rows that ``work`` makes of the pieces of each task; lazy, as DataFrames are.

    ``tasks`` has a number for each row of ``pieces``. A task gets its own together, in any order.
    """
    if not pieces.num_rows:
        return spark.createDataFrame([], schema)
    rows = spark.createDataFrame(pieces.append_column(_TASK, pa.array(tasks, pa.int32())))

    def answers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if ours := list(batches):
            yield from work(pa.Table.from_batches(ours).drop_columns([_TASK]))

    return rows.repartitionById(int(tasks.max()) + 1, _TASK).mapInArrow(answers, schema)


def spread(
    spark: SparkSession,
    pieces: Sequence[_Piece],
    kind: type[_Piece],
    *,
    sizes: Sequence[int],
    work: Callable[[_Piece], Iterator[pa.RecordBatch]],
    schema: str | StructType,
) -> DataFrame:
    """The rows that ``work`` makes of each piece; for pieces that are no columns."""
    told = pa.array(map(msgspec.msgpack.encode, pieces), pa.binary())

    def answers(ours: pa.Table) -> Iterator[pa.RecordBatch]:
        for piece in ours["piece"].to_pylist():
            yield from work(msgspec.msgpack.decode(piece, type=kind))

    tasks = by_bytes(np.array(sizes, np.int64))
    return deal(spark, pa.table({"piece": told}), tasks, work=answers, schema=schema)
