"""Files of a table as a DataFrame, without Spark looking for them.

Spark would be handed the names one by one, and would then ask the file system for each of them:
minutes for 100 000 files on a disk, and longer in an object store. It does neither where its own
file sink has been: there it reads names and sizes from a log, in the folder ``_spark_metadata``.
Names and sizes are known from the log of the table, so they are written down like that, in a folder
of this machine that Spark reads while it plans and never again.

A Spark Connect server cannot see such a folder. It is sent the names, and asks for the files.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from aviso_server.lake.layout import Place
from aviso_server.lake.ranges import Ints
from aviso_server.pipeline.history.files import address, folder_address
from aviso_server.pipeline.spark.hadoop import hadoop_options

_IGNORED = "spark.sql.streaming.fileStreamSink.ignoreMetadata"
"""A session with this would find an empty folder, and say nothing."""


def read_files(
    spark: SparkSession,
    place: Place,
    name: str,
    paths: pa.StringArray,
    sizes: Ints,
    *,
    schema: StructType,
    partitioned: bool = False,
) -> DataFrame:
    """The rows of some files of a table; paths are as its log spells them.

    ``partitioned`` takes columns from the names of the folders that the files are in.
    """
    folder = folder_address(place, name)
    reader = spark.read.schema(schema).options(**hadoop_options(place.options))
    # Without it Spark passes over files that are not below the folder which it reads.
    reader = reader.option("recursiveFileLookup", not partitioned)
    if not hasattr(spark, "sparkContext"):  # through Connect
        names = (address(place, unquote(path), name) for path in paths.to_pylist())
        if partitioned:
            reader = reader.option("basePath", folder)
        return reader.parquet(*names)
    spark.conf.set(_IGNORED, value=False)
    with tempfile.TemporaryDirectory(prefix="aviso-list-") as temporary:
        log = Path(temporary, "_spark_metadata", "0")
        log.parent.mkdir()
        with log.open("w", encoding="utf-8") as file:
            file.writelines(_log(folder, paths, sizes))
        return reader.parquet(Path(temporary).as_uri())


def _log(folder: str, paths: pa.StringArray, sizes: Ints) -> Iterator[str]:
    """A version, then a line for each file."""
    scheme, _, rest = folder.partition("://")
    base = f"{scheme}://{quote(rest, safe='/:@')}"
    yield "v1"
    for path, size in zip(paths.to_pylist(), sizes.tolist(), strict=True):
        told = {
            "path": f"{base}/{quote(unquote(path), safe='/=')}",
            "size": size,
            "isDir": False,
            "modificationTime": 0,
            "blockReplication": 1,
            "blockSize": max(size, 1),
            "action": "add",
        }
        yield f"\n{json.dumps(told)}"
