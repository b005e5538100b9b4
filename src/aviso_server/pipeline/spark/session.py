"""Spark sessions: in this process's JVM, on a cluster, or through Spark Connect.

Spark talks a lot. All that its JVM says goes into a log file in a folder of the caller's, and
the terminal stays ours.
"""

import contextlib
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from aviso_server.core.errors import AvisoError
from aviso_server.pipeline.spark import daemon
from aviso_server.pipeline.spark.failure import failure_of
from aviso_server.pipeline.spark.java import find_java
from aviso_server.process import scratch_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Session: TypeAlias = "SparkSession"
"""For modules that may not import pyspark."""

CONNECT_PORT = 15_002
_REACH_S = 5.0
"""Longest wait for a master or a Connect server to take a connection."""

_SAID_LINES = 60

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

_DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.streaming.stopTimeout": "20s",  # else a task that hangs keeps us from ending
}
"""What may be set on a running session, so also through Connect."""

_START_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

_LOGGING = """\
status = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {path}
appender.file.filePattern = {path}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 1
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
"""
"""Two files of 10 MB at most: a job runs for months."""


class SparkFailed(AvisoError):
    """There is no session to be had; the message says why."""


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Which Spark, and how it is set up."""

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    """Wins over what is set here."""
    packages: tuple[str, ...] = ()
    """Maven coordinates of jars for driver and executors."""
    remote: str | None = None
    """Address of a Spark Connect server, ``sc://host:port``; then ``master`` is its business."""
    app_name: str = "aviso-server"
    java: tuple[str, ...] = ()
    """Options for the JVM; those of ``conf`` come after them and win."""

    @property
    def local(self) -> bool:
        """Whether driver and executors are on this machine only."""
        return self.master.startswith("local") or all(
            host in _LOOPBACK for host, _ in master_addresses(self.master) or (("", 0),)
        )


@contextlib.contextmanager
def spark_session(options: SparkOptions, folder: Path) -> Iterator["SparkSession"]:
    """A session, stopped with the block; ``folder`` is for Spark's log and temporary files.

    Raises SparkFailed.
    """
    try:
        import pyspark  # noqa: F401, PLC0415 - the server runs without it
    except ModuleNotFoundError as error:
        raise SparkFailed(
            "PySpark is not installed; install it with: pip install 'aviso-server[spark]'"
        ) from error
    spark = _connect(options) if options.remote else _start(options, folder)
    try:
        yield spark
    finally:
        # A JVM that was killed, or a server that is gone, cannot be stopped again.
        with contextlib.suppress(Exception):
            spark.stop()


@contextlib.contextmanager
def job_session(options: SparkOptions) -> Iterator["SparkSession"]:
    """A session; its log is removed with it, and added to an error that ends the block."""
    with scratch_folder("job") as folder:
        try:
            with spark_session(options, folder) as spark:
                yield spark
        except AvisoError as error:
            if told := last_words(folder):
                error.add_note(f"Spark said:\n{told}")
            raise


def log_file(folder: Path) -> Path:
    """Where Spark's log is."""
    return folder / "spark.log"


def last_words(folder: Path) -> str:
    """The end of what Spark wrote, to diagnose a failure."""
    told = []
    for path in (folder / "jvm.log", log_file(folder)):
        with contextlib.suppress(OSError):
            told += path.read_text(errors="replace").splitlines()[-_SAID_LINES:]
    return "\n".join(told)


def master_addresses(master: str) -> tuple[tuple[str, int], ...]:
    """Hosts and ports of a standalone master's URL; empty for other kinds of master."""
    if not master.startswith("spark://"):
        return ()
    parts = [urlsplit(f"spark://{item}") for item in master.removeprefix("spark://").split(",")]
    return tuple((part.hostname or "", part.port or 7077) for part in parts)


def settings(options: SparkOptions, folder: Path) -> dict[str, str]:
    """The configuration a classic session is started with."""
    chosen = {**_DEFAULTS, **_START_DEFAULTS}
    if options.local:
        chosen |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if options.packages:
        chosen["spark.jars.packages"] = ",".join(options.packages)
    if options.master.startswith("local"):
        # With our folder goes what a killed JVM leaves. Executors elsewhere may not have it.
        chosen["spark.local.dir"] = str(folder)
        chosen["spark.sql.shuffle.partitions"] = "4"  # of a cluster, Spark knows better
        if os.environ.get("PYSPARK_PYTHON", sys.executable) == sys.executable:
            # Another Python may not have our package.
            chosen["spark.python.daemon.module"] = daemon.NAME
    chosen |= options.conf
    said = chosen.get("spark.driver.extraJavaOptions", "")
    java = [*options.java, said]
    if "log4j2.configurationFile" not in said:
        java.append(f"-Dlog4j2.configurationFile={(folder / 'log4j2.properties').as_uri()}")
    if "java.io.tmpdir" not in said:
        java.append(f'"-Djava.io.tmpdir={folder}"')
    chosen["spark.driver.extraJavaOptions"] = " ".join(filter(None, java))
    return chosen


def _start(options: SparkOptions, folder: Path) -> "SparkSession":
    from py4j.protocol import Py4JError  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    java = find_java(os.environ)
    addresses = master_addresses(options.master)
    if addresses and not any(_reachable(host, port) for host, port in addresses):
        raise SparkFailed(f"the Spark master {options.master} cannot be reached; is it running?")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log4j2.properties").write_text(_LOGGING.format(path=log_file(folder)))
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ.pop("SPARK_REMOTE", None)  # would quietly win over the master
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if options.local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(options.master).appName(options.app_name)
    for name, value in settings(options, folder).items():
        builder = builder.config(name, value)
    try:
        with divert_output(folder / "jvm.log"):
            return builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        raise SparkFailed(f"Spark did not start on {options.master}: {_brief(error)}") from error


def _connect(options: SparkOptions) -> "SparkSession":
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    assert options.remote is not None  # noqa: S101
    address = urlsplit(options.remote)
    host, port = address.hostname or "", address.port or CONNECT_PORT
    if address.scheme != "sc" or not host:
        raise SparkFailed("the address of a Spark Connect server looks like sc://host:15002")
    if options.packages:
        raise SparkFailed(
            "packages are given to the Spark Connect server when it starts, not by its clients"
        )
    if not _reachable(host, port):
        raise SparkFailed(f"the Spark Connect server {host}:{port} cannot be reached")
    try:
        spark: SparkSession = SparkSession.builder.remote(options.remote).getOrCreate()
        for name, value in {**_DEFAULTS, **options.conf}.items():
            spark.conf.set(name, value)
    except PySparkException as error:
        raise SparkFailed(f"Spark Connect at {host}:{port}: {_brief(error)}") from error
    return spark


@contextlib.contextmanager
def divert_output(path: Path) -> Iterator[None]:
    """Processes started within write their output to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    try:
        with path.open("ab") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        yield
    finally:
        for number, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)


def _reachable(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=_REACH_S):
            return True
    except OSError:
        return False


def _brief(error: BaseException) -> str:
    return failure_of(error).text
