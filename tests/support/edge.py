"""The HTTP edge over parts a test chooses: a clock, a backend, rules and time limits."""

import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import aiohttp
import jwt
from aiohttp import web
from support.server import Client

from aviso_server.backends.backend import Backend
from aviso_server.backends.memory.backend import MemoryBackend, MemoryLimits
from aviso_server.core.cloudevent import Renderer
from aviso_server.http.app import build_app
from aviso_server.http.connection import ConnectionRules
from aviso_server.http.site import Site
from aviso_server.relay.feed import Sources
from aviso_server.relay.history import Tiers
from aviso_server.relay.hub import Hub, Recovery
from aviso_server.relay.pulse import Stop
from aviso_server.relay.query import StreamRules
from aviso_server.server.build import build_services
from aviso_server.server.serve import Running
from aviso_server.settings import Settings

NOON_NS = 1_772_618_400_123_456_789
"""2026-03-04T10:00:00.123456789Z, the instant of the protocol's examples."""


@dataclass(frozen=True)
class Parts:
    """What an edge is made of; the defaults are those of a server."""

    backend: Backend | None = None
    now_ns: Callable[[], int] = time.time_ns
    renderer: Renderer | None = None
    rules: StreamRules = field(default_factory=StreamRules)
    connections: ConnectionRules = field(default_factory=ConnectionRules)


@dataclass(frozen=True)
class Edge(Client):
    """A client of an edge, with the parts tests look at."""

    hub: Hub
    backend: Backend


@asynccontextmanager
async def edge(settings: Settings, parts: Parts | None = None) -> AsyncIterator[Edge]:
    """Serve on a real socket."""
    parts = parts or Parts()
    backend = parts.backend or MemoryBackend(MemoryLimits(), now_ns=parts.now_ns)
    renderer = parts.renderer or Renderer(settings.application.base_url)
    stop = Stop()
    async with Hub(backend, renderer, Recovery(attempts=1, delay_s=0)) as hub:
        history = Tiers(backend, hub.recent)
        sources = Sources(hub, history, renderer, parts.rules, stop, parts.now_ns)
        services = replace(build_services(settings, backend, sources), now_ns=parts.now_ns)
        app = build_app(services)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
        await runner.setup()
        listener = socket.create_server(("127.0.0.1", 0))
        await Site(runner, listener, rules=parts.connections).start()
        try:
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
                running = Running("127.0.0.1", listener.getsockname()[1], stop, "nowhere")
                yield Edge(running, session, hub, backend)
        finally:
            stop.request()
            await runner.cleanup()


def ending(token: str, *, in_s: float) -> Callable[[], int]:
    """A clock that stands still so long before a token's end."""
    end_s: int = jwt.decode(token, options={"verify_signature": False})["exp"]
    return lambda: int((end_s - in_s) * 1e9)
