"""Reading a bounded part of the log as a DataFrame."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from aviso_server.pipeline.source import plan
from aviso_server.pipeline.source.bridge import ask, rows
from aviso_server.pipeline.source.columns import Columns
from aviso_server.pipeline.source.log import SourceLog
from aviso_server.pipeline.source.options import SourceOptions
from aviso_server.pipeline.source.pickling import Parcel
from aviso_server.pipeline.source.plan import Share
from aviso_server.pipeline.source.pushdown import Narrowing, narrow


class BatchReader(Parcel, DataSourceReader):
    """What the options ask for, as of the moment the query is planned."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._left = Narrowing()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take over what sequences and event types decide."""
        self._left, rest = narrow(filters)
        return rest

    def partitions(self) -> list[InputPartition]:
        """The ranges, cut into slices."""

        async def planned(log: SourceLog) -> list[Share]:
            wanted = await plan.ranges(log, self._options, self._left)
            return await plan.shares(log, self._options, wanted)

        return list(ask(self._options, planned))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a share; Spark invents an empty partition if there is none."""
        if isinstance(partition, Share):
            columns = Columns(self._schema, topics=self._options.access.transport == "nats")
            declared = {item.event_type: item.declaration for item in partition.slices}
            ranges = [item.range for item in partition.slices]
            yield from rows(self._options, ranges, declared, columns)
