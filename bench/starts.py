"""The start of a server: ``aviso-server serve`` with everything in memory, until it is ready."""

import http.client
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import IO

import yaml
from bench.crew import HOST
from bench.figures import Value
from bench.peers import ends
from bench.served import CONFIG, START_S, Conditions, cpu_s, free_port, rss_bytes
from bench.worker import Watch, worker

WATCHERS = 1020
LOOK_S = 0.005
MEBIBYTE = 1024 * 1024
NO_BYTE_CODE = "PYTHONDONTWRITEBYTECODE"


def starts(runs: int, conditions: Conditions, progress: Callable[[str], None]) -> Iterator[Value]:
    """Time and memory until ``/ready`` says so, what was loaded, and memory with watchers."""
    walls, cpus, sizes, crowded = [], [], [], 0
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.json"
        given = yaml.safe_load(CONFIG.read_text())
        file.write_text(json.dumps(_merged(given, conditions.overrides(Path(folder) / "store"))))
        for run in range(runs + 1):  # the first may have to compile
            progress(f"start {run} of {runs}")
            port, began_at = free_port(), monotonic()
            with _serving(file, port) as process:
                walls.append(monotonic() - began_at)
                cpus.append(cpu_s(process.pid))
                sizes.append(rss_bytes(process.pid) / MEBIBYTE)
                if run == runs:
                    with worker() as readers:
                        readers.do(Watch(port, WATCHERS), START_S)
                        crowded = rss_bytes(process.pid)
        with tempfile.TemporaryFile() as told:
            with _serving(file, free_port(), "-X", "importtime", told=told):
                pass
            told.seek(0)
            modules = told.read().count(b"import time:")
    yield Value("start: until ready", "s", tuple(walls[1:]))
    yield Value("start: CPU until ready", "s", tuple(cpus[1:]))
    yield Value("start: memory", "MiB", tuple(sizes[1:]))
    yield Value(f"memory with {WATCHERS} watchers", "MiB", (crowded / MEBIBYTE,))
    yield Value("start: modules loaded", "", (modules,))


@contextmanager
def _serving(
    config: Path, port: int, *options: str, told: IO[bytes] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A server that is ready, ended with the block."""
    command = ["-m", "aviso_server", "serve", "--config", str(config), "--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, *options, *command],
        stdout=subprocess.DEVNULL,
        # An installed server has its byte code, whatever the environment says of writing it.
        env={name: value for name, value in os.environ.items() if name != NO_BYTE_CODE},
        stderr=subprocess.DEVNULL if told is None else told,
    )
    try:
        last = monotonic() + START_S
        while not _ready(port):
            if ends(process, LOOK_S) or monotonic() > last:
                raise SystemExit("the server did not start")
        yield process
    finally:
        process.terminate()
        process.wait()


def _ready(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=START_S)
    try:
        connection.request("GET", "/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _merged(given: dict[str, object], more: dict[str, object]) -> dict[str, object]:
    result = dict(given)
    for name, value in more.items():
        known = result.get(name)
        both = isinstance(known, dict) and isinstance(value, dict)
        result[name] = _merged(known, value) if both else value  # type: ignore[arg-type]
    return result
