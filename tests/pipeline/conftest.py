"""What tests of the pipeline share: one Spark session, one Spark Connect server, logs."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.cluster import connect_server, standalone
from support.nats import NatsServer, nats_server
from support.spark import hurry_java, local_spark

SHARED = ("spark", "connect")
"""Fixtures that are a JVM."""

hurry_java()


@pytest.hookimpl(tryfirst=True)  # xdist looks at groups in this very hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share a JVM run in one process; what takes long begins early, in random order."""
    for item in items:
        for name in SHARED:
            if name in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.xdist_group(name))
                item.add_marker(pytest.mark.spark)
    # Otherwise the last of them would run alone, with the other processors idle.
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on this machine; starting one takes seconds."""
    with local_spark(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture(scope="session")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Spark Connect server on a cluster with two executors.

    Commands that use it start no JVM of their own, and nothing of theirs runs in their process.
    """
    folder = tmp_path_factory.mktemp("connect")
    with standalone(folder) as master, connect_server(folder, master) as remote:
        yield remote
        # The worker leaves the folder of each executor that it ran.
        assert len(list((folder / "work").glob("app-*/*"))) == 2


@pytest.fixture
def store(tmp_path: Path) -> Iterator[NatsServer]:
    """A NATS server of the test's own."""
    with nats_server(tmp_path / "nats") as running:
        yield running
