"""Servers to compare: this one, others that understand it, and hubs that do something similar.

A peer is a port of this machine, the processes behind it, and how it is spoken to. All are loaded
by the same processes with the same notifications; one of a hub is the JSON that others get.
"""

import json
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import jwt
from bench.crew import HOST
from bench.figures import Skipped
from bench.served import START_S, Conditions, cpu_s, free_port, rss_bytes, served
from bench.tree import family, listening
from bench.wire import DISTINCT, Speech, aviso, fields, post_bytes

NCHAN = Path("/usr/lib/nginx/modules/ngx_nchan_module.so")
"""Where Debian has it."""
SECRET = "of-the-benchmark-and-of-nobody-else"  # noqa: S105 - of a server that lives for minutes
LOOK_S = 0.05
_NGINX = """\
daemon off;
worker_processes 1;
worker_rlimit_nofile 16384;
error_log stderr crit;
pid {folder}/pid;
load_module {module};
events {{ worker_connections 8192; }}
http {{
    access_log off;
    keepalive_requests 100000000;
    client_body_temp_path {folder}/1;
    proxy_temp_path {folder}/2;
    fastcgi_temp_path {folder}/3;
    uwsgi_temp_path {folder}/4;
    scgi_temp_path {folder}/5;
    server {{
        listen {host}:{port};
        location = /publish {{
            nchan_publisher;
            nchan_channel_id mars;
            nchan_message_buffer_length 1000;
        }}
        location = /watch {{
            nchan_subscriber eventsource;
            nchan_channel_id mars;
            nchan_subscriber_first_message newest;
        }}
    }}
}}
"""


@dataclass(frozen=True, slots=True)
class Peer:
    """A server under comparison."""

    name: str
    port: int
    processes: tuple[int, ...]
    speech: Speech

    def cpu_s(self) -> float:
        """CPU time used so far."""
        return sum(map(cpu_s, self.processes))

    def rss_bytes(self) -> int:
        """Resident memory now."""
        return sum(map(rss_bytes, self.processes))


@dataclass(frozen=True, slots=True)
class Rivals:
    """Who is to be compared with."""

    urls: tuple[str, ...]
    pid: int | None
    """The process behind the only URL, if it cannot be found."""
    nginx: str
    mercure: str


@contextmanager
def present(rivals: Rivals, conditions: Conditions) -> Iterator[tuple[list[Peer], list[Skipped]]]:
    """This server and those of its rivals that can be had, for the block; and the others."""
    if rivals.pid and len(rivals.urls) != 1:
        raise SystemExit("--against-pid names the process of one --against URL")
    # Of this comparison alone: a server that runs already may have stored others.
    expver = str(secrets.randbelow(9000) + 1000)
    absent = []
    with ExitStack() as stack:
        peers = [stack.enter_context(this(conditions, expver))]
        peers += [running(url, rivals.pid, expver) for url in rivals.urls]
        if shutil.which(rivals.nginx) and NCHAN.exists():
            peers.append(stack.enter_context(nchan(rivals.nginx)))
        else:
            why = "apt-get install nginx-light libnginx-mod-nchan, or name it: --nginx PATH"
            absent.append(Skipped("nchan", why))
        if shutil.which(rivals.mercure):
            peers.append(stack.enter_context(mercure(rivals.mercure)))
        else:
            absent.append(
                Skipped("Mercure", "build it (docs/benchmarks.md) and name it: --mercure PATH")
            )
        yield peers, absent


@contextmanager
def this(conditions: Conditions, expver: str) -> Iterator[Peer]:
    """This server, as the other parts measure it."""
    with served(conditions, "compare") as server:
        yield Peer("aviso-server", server.port, server.processes, aviso(expver=expver))


def running(url: str, pid: int | None, expver: str) -> Peer:
    """A server of this machine that was started by somebody else; a name may precede its URL."""
    name, _, url = url.rpartition("=")
    place = urlsplit(url)
    if place.scheme != "http" or place.hostname not in (HOST, "localhost") or not place.port:
        raise SystemExit(f"--against {url}: only http://{HOST}:PORT can be compared with")
    found = [pid] if pid else listening(place.port)
    if not found:
        raise SystemExit(f"--against {url}: no process listens there; name it: --against-pid PID")
    processes = dict.fromkeys(each for one in found for each in family(one))
    return Peer(name or place.netloc, place.port, tuple(processes), aviso(expver=expver))


@contextmanager
def nchan(nginx: str) -> Iterator[Peer]:
    """Nginx with nchan: one worker, messages in memory."""
    port = free_port()
    publish = (post_bytes("/publish", each) for each in _notifications())
    speech = Speech(
        publish=tuple(publish),
        accepted=rb"HTTP/1.1 20[12] ",
        watch=_get("/watch"),
        opened=b": hi\n",
        delivered=b"data: {",
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "nginx.conf"
        file.write_text(_NGINX.format(folder=folder, module=NCHAN, host=HOST, port=port))
        with _started([nginx, "-p", folder, "-c", str(file)], {}, port) as processes:
            yield Peer("nchan", port, processes, speech)


@contextmanager
def mercure(binary: str) -> Iterator[Peer]:
    """The Mercure hub of ``cmd/mercure``, with updates in memory."""
    port = free_port()
    token = jwt.encode({"mercure": {"publish": ["*"]}}, SECRET, "HS256")
    head = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    path = "/.well-known/mercure"
    bodies = (urlencode({"topic": "mars", "data": each}).encode() for each in _notifications())
    speech = Speech(
        publish=tuple(post_bytes(path, body, head) for body in bodies),
        accepted=rb"HTTP/1.1 200 ",
        watch=_get(f"{path}?topic=mars"),
        opened=b":\n",
        delivered=b"data: {",
    )
    settings = {
        "ADDR": f"{HOST}:{port}",
        "JWT_KEY": SECRET,
        "ALLOW_ANONYMOUS": "1",
        "TRANSPORT_URL": "local://local",
        "WRITE_TIMEOUT": "0s",
    }
    with _started([binary], settings, port) as processes:
        yield Peer("Mercure", port, processes, speech)


def _notifications() -> list[bytes]:
    """What is published: as JSON, the bytes that a notify has too."""
    return [json.dumps(each, separators=(",", ":")).encode() for each in islice(fields(), DISTINCT)]


def _get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\nAccept: text/event-stream\r\n\r\n".encode()


@contextmanager
def _started(
    command: Sequence[str], environ: Mapping[str, str], port: int
) -> Iterator[tuple[int, ...]]:
    """The processes of a server that listens, ended with the block."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **environ}
        )
        try:
            end = time.monotonic() + START_S
            while not _accepts(port):
                if ends(process, LOOK_S) or time.monotonic() > end:
                    log.seek(0)
                    raise SystemExit(f"{command[0]} did not start:\n{log.read()}")
            yield tuple(family(process.pid))
        finally:
            process.terminate()
            process.wait()


def ends(process: subprocess.Popen[bytes], within_s: float) -> bool:
    """Whether a process ends, waiting for it."""
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def _accepts(port: int) -> bool:
    with socket.socket() as trying:
        return trying.connect_ex((HOST, port)) == 0
