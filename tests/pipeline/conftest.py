"""What tests of the pipeline share: one Spark session for all of a process."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from support.spark import local_spark


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share the session run in one process: a second one would start a second JVM."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on this machine; starting one takes seconds."""
    with local_spark(tmp_path_factory.mktemp("spark")) as session:
        yield session
