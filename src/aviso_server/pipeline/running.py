"""A Spark session for one job, which leaves nothing behind."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from aviso_server.core.errors import AvisoError
from aviso_server.pipeline.session import SparkOptions, said, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Session: TypeAlias = "SparkSession"
"""For those who may not name pyspark."""


@contextmanager
def job_session(options: SparkOptions) -> Iterator["SparkSession"]:
    """A session; its log is removed with it, and told with an error that ends the block."""
    folder = Path(tempfile.mkdtemp(prefix="aviso-job-"))
    try:
        with spark_session(options, folder) as spark:
            yield spark
    except AvisoError as error:
        if told := said(folder):
            error.add_note(f"Spark said:\n{told}")
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
