"""The process that Python workers are forked from: loaded, and fit to be forked."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from aviso_server.pipeline.spark import daemon
from aviso_server.pipeline.spark.session import SparkOptions, settings

_LOOK = """
import os, sys
from aviso_server.pipeline.spark import daemon
before = dict(os.environ)
daemon.LOADED += ("aviso_server.absent",)
daemon.load()
assert dict(os.environ) == before
assert set(daemon.LOADED) - set(sys.modules) == {"aviso_server.absent"}
assert "numpy.random" not in sys.modules
print(*os.listdir("/proc/self/task"))
"""


def test_nothing_is_begun_before_the_fork() -> None:
    """No thread, no state of random numbers; what cannot be imported does no harm."""
    done = subprocess.run(
        [sys.executable, "-c", _LOOK], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 1, done.stdout


@pytest.mark.slow
def test_workers_come_from_it(spark: SparkSession) -> None:
    """Spark starts the module that the setting names."""

    def parents(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            command = Path(f"/proc/{os.getppid()}/cmdline").read_text().split("\0")
            yield pa.RecordBatch.from_pydict({"command": [" ".join(command)]})

    (row,) = spark.range(1).coalesce(1).mapInArrow(parents, "command string").collect()
    assert f"-m {daemon.NAME} pyspark.worker" in row["command"]


def test_only_where_the_package_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster, or another Python on this machine, may not have it."""
    name = "spark.python.daemon.module"
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert settings(SparkOptions(master="local[2]"), tmp_path)[name] == daemon.NAME
    assert name not in settings(SparkOptions(master="spark://head:7077"), tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", "/another/python")
    assert name not in settings(SparkOptions(master="local[2]"), tmp_path)
