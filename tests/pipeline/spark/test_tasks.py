"""Work dealt out by bytes."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from aviso_server.pipeline.spark.tasks import OPEN_BYTES, TASK_BYTES, by_bytes, deal


@given(st.lists(st.integers(0, 3 * TASK_BYTES), max_size=60))
def test_tasks_have_about_the_same_to_read(sizes: list[int]) -> None:
    """Numbered without a hole, of neighbours, and none beyond its share by more than a piece."""
    tasks = by_bytes(np.array(sizes, np.int64)).tolist()
    assert tasks == sorted(tasks)
    assert sorted(set(tasks)) == list(range(len(set(tasks))))
    for task in set(tasks):
        ours = [
            size + OPEN_BYTES for size, other in zip(sizes, tasks, strict=True) if other == task
        ]
        assert sum(ours[:-1]) <= TASK_BYTES


def test_there_are_as_many_tasks_as_the_bytes_make() -> None:
    """No fixed number bounds them: a large cluster has something to do."""
    assert by_bytes(np.full(10_000, TASK_BYTES, np.int64)).max() == 9_999
    assert by_bytes(np.zeros(10_000, np.int64)).max() == 10_000 * OPEN_BYTES // TASK_BYTES


def test_each_task_gets_its_pieces_together(spark: SparkSession) -> None:
    """Once each; tasks without pieces do nothing, and no pieces make no rows."""

    def work(ours: pa.Table) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"numbers": [sorted(ours["n"].to_pylist())]})

    pieces = pa.table({"n": list(range(7))})
    tasks = np.array([0, 0, 0, 2, 2, 5, 5])
    found = deal(spark, pieces, tasks, work=work, schema="numbers array<bigint>")
    assert sorted(row[0] for row in found.collect()) == [[0, 1, 2], [3, 4], [5, 6]]
    nothing = deal(spark, pieces[:0], tasks[:0], work=work, schema="numbers array<bigint>")
    assert nothing.collect() == []
