"""What tests of the pipeline share: one Spark session for all of a process."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from support.spark import local_spark


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on this machine; starting one takes seconds."""
    with local_spark(tmp_path_factory.mktemp("spark")) as session:
        yield session
