"""What the HTTP edge works with, put together once by the composition root."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from os import urandom
from pathlib import Path

from aiohttp import web
from structlog.typing import FilteringBoundLogger

from aviso_server.auth.gate import Gate
from aviso_server.backends.backend import Backend
from aviso_server.core.schema import Catalogue
from aviso_server.http.answers import ArchiveResponse
from aviso_server.http.cors import Cors
from aviso_server.http.limits import Limiter
from aviso_server.relay.admin import Administration
from aviso_server.relay.feed import Sources
from aviso_server.relay.overview import Overview


@dataclass(slots=True)
class Services:
    """Everything a handler may need.

    Replaced while the server runs, by a reload only: catalogue, administration and journal.
    """

    catalogue: Catalogue
    backend: Backend
    sources: Sources
    administration: Administration
    overview: Overview
    gate: Gate | None
    """Access control; None while it is switched off and every route is open."""
    now_ns: Callable[[], int]
    journal: FilteringBoundLogger
    """Bound once: asking structlog for a logger costs more than most of a request's work."""
    limits: Limiter
    cors: Cors
    max_body_bytes: int
    max_batch_bytes: int
    max_batch_items: int
    body_timeout_s: float
    """For the whole body of a request to arrive."""
    compress_streams: bool
    """Whether streams are compressed for clients that accept it."""
    static_dir: Path
    homepage_links: Mapping[str, str]
    version: str
    metrics_port: int | None = None
    """Where the metrics are, in this process or in its supervisor."""
    archive: Callable[[], ArchiveResponse | None] = lambda: None
    """How the archive job is doing, where this server looks after one."""


SERVICES: web.AppKey[Services] = web.AppKey("services", Services)


def _random_texts() -> Iterator[str]:
    """32 random digits each; the system is asked for many at a time.

    A process that forks would share them with its child. Workers are spawned.
    """
    while True:
        digits = urandom(16 * 256).hex()
        for begin in range(0, len(digits), 32):
            yield digits[begin : begin + 32]


_texts = _random_texts()


def new_request_id() -> str:
    """A random UUID (version 4), in a third of the time of the library's.

    It must be impossible to guess: it is also the idempotency key of a notification without one.
    """
    text = next(_texts)
    variant = "89ab"[int(text[16], 16) % 4]
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"


REQUEST_ID: web.RequestKey[str] = web.RequestKey("request_id", str)
