"""Real NATS servers for tests: on free ports, with stores of their own, to be killed and paused."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aviso_server.backends.jetstream.embedded import find_binary
from aviso_server.core.json import Json


class NatsServer:
    """One nats-server. Restarts keep the port and the store."""

    def __init__(self, folder: Path, settings: dict[str, Json] | None = None) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = -1
        self._settings = settings or {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"nats://127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        """Whether there is a process."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start, and return when connections are accepted."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Start without waiting."""
        for stale in self.folder.glob("*.ports"):
            stale.unlink()
        settings: dict[str, Json] = {
            "host": "127.0.0.1",
            "port": self.port,
            "ports_file_dir": str(self.folder),
            "jetstream": {"store_dir": str(self.folder / "store")},
            **self._settings,
        }
        config = self.folder / "nats.conf"
        config.write_text(json.dumps(settings))
        with (self.folder / "nats.log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(find_binary()), "-c", str(config)], stdout=log, stderr=log
            )

    def wait(self) -> None:
        """Wait until connections are accepted."""
        pause = threading.Event()
        for _ in range(2000):
            assert self.running, (self.folder / "nats.log").read_text()
            for file in self.folder.glob("*.ports"):
                with contextlib.suppress(ValueError, LookupError):
                    self.port = int(json.loads(file.read_text())["nats"][0].rpartition(":")[2])
                    return
            pause.wait(0.01)
        raise AssertionError("nats-server did not start")

    def kill(self) -> None:
        """End it without notice."""
        self._signal(signal.SIGKILL)
        self._gone()

    def stop(self) -> None:
        """End it in order."""
        if self.running:
            self._signal(signal.SIGCONT)
            self._signal(signal.SIGTERM)
            self._gone()

    def restart(self) -> None:
        """Kill it and start it again, same port, same store."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """Stop it from running: connections stay open and nothing answers."""
        assert self._process is not None
        self._signal(signal.SIGSTOP)
        # The signal is sent before it is obeyed: without this, an answer or two may still come.
        os.waitpid(self._process.pid, os.WUNTRACED)

    def resume(self) -> None:
        """Let it run again."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _gone(self) -> None:
        assert self._process is not None
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)


@contextmanager
def nats_server(folder: Path, settings: dict[str, Json] | None = None) -> Iterator[NatsServer]:
    """Run a server with its store in a folder; it is ended with the block."""
    server = NatsServer(folder, settings)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def nats_cluster(folder: Path, size: int = 3) -> Iterator[list[NatsServer]]:
    """Run a JetStream cluster on loopback; its servers are ended with the block."""
    routes = _free_ports(size)
    clients = _free_ports(size)
    servers = []
    for number, (route, client) in enumerate(zip(routes, clients, strict=True)):
        settings: dict[str, Json] = {
            "server_name": f"n{number}",
            "port": client,
            "cluster": {
                "name": "test",
                "host": "127.0.0.1",
                "port": route,
                "routes": [f"nats://127.0.0.1:{other}" for other in routes],
            },
        }
        servers.append(NatsServer(folder / f"n{number}", settings))
    try:
        for server in servers:
            server.launch()
        for server in servers:
            server.wait()
        yield servers
    finally:
        for server in servers:
            server.stop()


def _free_ports(count: int) -> list[int]:
    """Ports nobody uses now. A cluster's members must know each other's before they start."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for item in sockets:
            item.bind(("127.0.0.1", 0))
        return [int(item.getsockname()[1]) for item in sockets]
