"""A Spark session on this machine, quiet and on loopback only."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from aviso_server.pipeline.spark import daemon


def hurry_java() -> None:
    """Let the Java that tests start be up sooner; it does not live to run faster."""
    # Without the optimising compiler and the threads of a collector it does half the work. Hadoop
    # starts a program for every file of a checkpoint, which is cheaper without a helper between.
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djdk.lang.Process.launchMechanism=VFORK"
    # Spark's classes are as they were built: a tenth of a start is the proof that they are sound.
    quick += " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    os.environ.setdefault("JDK_JAVA_OPTIONS", quick)


@contextmanager
def local_spark(folder: Path, *, master: str = "local[2]") -> Iterator[SparkSession]:
    """A session that leaves nothing behind outside ``folder``."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = (
        SparkSession.builder.master(master)
        .appName("aviso-tests")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.log.level", "ERROR")
        .config("spark.python.daemon.module", daemon.NAME)
        .getOrCreate()
    )
    try:
        yield session
    finally:
        session.stop()
