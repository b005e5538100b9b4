"""Reading the log as it grows: offsets for Spark's micro-batches.

Rules
- An offset is ``{event type: next sequence to read}``. Spark's checkpoint alone keeps it; nothing
  is remembered in NATS or on the server, so ``commit`` does nothing.
- A batch is the same whenever it is read again: its slices depend on its two offsets only.
- Event types that appear while the query runs are picked up and read from their first sequence.
"""

from collections.abc import Generator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from aviso_server.backends.backend import Bounds
from aviso_server.pipeline.source import plan
from aviso_server.pipeline.source.bridge import ask, rows
from aviso_server.pipeline.source.columns import Columns
from aviso_server.pipeline.source.failure import BadOption
from aviso_server.pipeline.source.options import SourceOptions
from aviso_server.pipeline.source.pickling import Parcel
from aviso_server.pipeline.source.plan import Share
from aviso_server.pipeline.source.ranges import Offset, advance, between


class StreamReader(Parcel, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Everything from the starting points on, batch by batch."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        if options.bounded:
            raise BadOption("endingSequence and endingTimestamp are for batch reads")
        self._options = options
        self._schema = schema
        self._target: dict[str, Bounds] | None = None
        """With AvailableNow: what was there when the query began."""

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Where a new query begins."""
        return ask(self._options, lambda log: plan.starts(log, self._options))

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """How far the next batch goes."""
        ends = self._look() if self._target is None else self._target
        plan.check_ahead(start, ends)
        match limit:
            case ReadMaxRows(max_rows):
                return advance(start, ends, max_rows)
            case ReadMinRows(min_rows) if self._target is None:
                end = advance(start, ends, None)
                return end if sum(map(len, between(start, end))) >= min_rows else start
            case _:
                return advance(start, ends, None)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """What ``maxRecordsPerTrigger`` says."""
        most = self._options.max_records
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def reportLatestOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """The end of every stream: a query's progress shows how far it lags behind."""
        return {name: end.last + 1 for name, end in self._look().items()}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Record the present ends: the query ends when it has read up to them."""
        self._target = self._look()

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """What lies between two offsets, cut into slices."""
        wanted = between(start, end)
        if not wanted:
            return []
        return list(ask(self._options, lambda log: plan.shares(log, self._options, wanted)))

    def read(self, partition: InputPartition) -> Generator[pa.RecordBatch, None, None]:
        """The rows of a share."""
        if isinstance(partition, Share):
            columns = Columns(self._schema, topics=self._options.access.transport == "nats")
            declared = {item.event_type: item.declaration for item in partition.slices}
            ranges = [item.range for item in partition.slices]
            yield from rows(self._options, ranges, declared, columns)

    def commit(self, end: Offset) -> None:
        """Nothing to do: the checkpoint is the only memory."""

    def _look(self) -> dict[str, Bounds]:
        return ask(self._options, lambda log: plan.bounds(log, self._options))
