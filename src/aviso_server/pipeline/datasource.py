"""The data source ``aviso`` of Spark: reads and writes notifications (docs/source.md)."""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from aviso_server.pipeline.source.batch import BatchReader
from aviso_server.pipeline.source.columns import SPARK
from aviso_server.pipeline.source.options import read_options
from aviso_server.pipeline.source.pickling import Parcel
from aviso_server.pipeline.source.stream import StreamReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
"""Spark refuses sources that take filters over unless this is set."""


def register(spark: "SparkSession") -> None:
    """Make ``format("aviso")`` known to a session, classic or Spark Connect."""
    spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(AvisoDataSource)


class AvisoDataSource(Parcel, DataSource):
    """The meaning of ``format("aviso")``."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "aviso"

    def schema(self) -> StructType:
        """The columns; options are checked on the way, so that mistakes show at once."""
        read_options(self.options)
        return SPARK

    def reader(self, schema: StructType) -> DataSourceReader:
        """For ``spark.read``."""
        return BatchReader(read_options(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """For ``spark.readStream``."""
        return StreamReader(read_options(self.options), schema)

    # The sink is loaded when it is used: a job that only reads needs none of it.

    def writer(self, schema: StructType, overwrite: bool) -> "DataSourceArrowWriter":  # noqa: FBT001
        """For ``df.write``."""
        from aviso_server.pipeline.sink.writer import sink_writer  # noqa: PLC0415

        return sink_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(  # noqa: N802
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001
    ) -> "DataSourceStreamArrowWriter":
        """For ``df.writeStream``."""
        from aviso_server.pipeline.sink.writer import sink_writer  # noqa: PLC0415

        return sink_writer(self.options, schema, overwrite=overwrite)
