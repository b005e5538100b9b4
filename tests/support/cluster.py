"""Spark elsewhere, as far as loopback goes: a standalone cluster, and a Spark Connect server."""

import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from aviso_server.pipeline.spark.java import find_java

HOME = Path(pyspark.__file__).parent
START_S = 120
"""Far more than a start takes: it only bounds a failing test."""


class _Daemon:
    """A Java process of Spark's, up when its log says so."""

    def __init__(self, command: list[str], ready: str, environ: Mapping[str, str]) -> None:
        self._ready = re.compile(ready)
        self._ended_or_up = threading.Event()
        self.up: re.Match[str] | None = None
        self._said: list[str] = []
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environ,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._ended_or_up.wait(START_S) or self.up is None:
            self.end()
            raise AssertionError("".join(self._said))

    def end(self) -> None:
        """End it, and what it started."""
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(20)
        # Its children hold the other end of the pipe until they have noticed.
        self._reader.join(START_S)

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._said.append(line)
                if self.up is None and (found := self._ready.search(line)):
                    self.up = found
                    self._ended_or_up.set()
        self._ended_or_up.set()


@contextmanager
def _daemon(
    command: list[str], ready: str, environ: Mapping[str, str]
) -> Iterator[re.Match[str] | None]:
    """Run it; what its log said when it was up."""
    daemon = _Daemon(command, ready, environ)
    try:
        yield daemon.up
    finally:
        daemon.end()


def _environ(folder: Path) -> dict[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    logging = folder / "log4j2.properties"
    logging.write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.out.ref = out\n"
        "appender.out.type = Console\nappender.out.name = out\n"
        "appender.out.layout.type = PatternLayout\nappender.out.layout.pattern = %m%n\n"
    )
    return {
        **os.environ,
        "JAVA_HOME": str(find_java(os.environ).home),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(Path(__file__).parents[2]),  # for tools, which is not installed
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_LOG_DIR": str(folder),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"-Dlog4j2.configurationFile={logging.as_uri()}",
    }


def free_port() -> int:
    """A port nobody uses now; workers must know their master's before it starts."""
    with socket.socket() as item:
        item.bind(("127.0.0.1", 0))
        return int(item.getsockname()[1])


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """A master and a worker with room for two executors; the master's URL."""
    environ = _environ(folder)
    run = str(HOME / "bin" / "spark-class")
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    where = ["--host", "127.0.0.1", "--webui-port", "0"]
    with ExitStack() as stack:
        master = [run, f"{deploy}.master.Master", *where, "--port", str(port)]
        stack.enter_context(_daemon(master, "elected leader|New state: ALIVE", environ))
        worker = [run, f"{deploy}.worker.Worker", *where, "--cores", "2", "--memory", "1g", url]
        stack.enter_context(_daemon(worker, "registered with master", environ))
        yield url


@contextmanager
def connect_server(folder: Path, master: str) -> Iterator[str]:
    """A Spark Connect server with executors at the master's; its URL."""
    environ = {**_environ(folder), "SPARK_DAEMON_MEMORY": "1g"}
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": environ["SPARK_DAEMON_JAVA_OPTS"],
    }
    command = [
        *(str(HOME / "bin" / "spark-submit"), "--master", master),
        *(part for name, value in settings.items() for part in ("--conf", f"{name}={value}")),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"),
    ]
    with _daemon(command, r"Spark Connect server started at: .*?(\d+)$", environ) as started:
        assert started
        yield f"sc://127.0.0.1:{started[1]}"
