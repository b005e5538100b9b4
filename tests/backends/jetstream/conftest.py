"""A real NATS server per module, and backends on it."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from backends.contract import CATALOGUE
from support.nats import NatsServer, nats_server

from aviso_server.backends.jetstream.backend import JetStreamBackend
from aviso_server.backends.jetstream.options import JetStreamOptions, Pace
from aviso_server.core.schema import Catalogue

BRISK = Pace(ack_s=2, request_s=2, outage_s=20, watchdog_s=0.3, heartbeat_s=0.2, ping_s=1)
"""Waits short enough for tests and long enough for a busy machine."""

Opener = Callable[..., Awaitable[JetStreamBackend]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """One server for the module."""
    with nats_server(tmp_path_factory.mktemp("nats")) as running:
        yield running


def brisk(*servers: str) -> JetStreamOptions:
    """Options for these servers, with short waits."""
    return JetStreamOptions(
        servers=servers,
        timeout_s=10,
        retry_attempts=1,
        reconnect_delay_s=0.1,
        publish_retry_attempts=3,
        publish_retry_base_delay_s=0.02,
        pace=BRISK,
    )


async def clear(backend: JetStreamBackend) -> None:
    """Remove every stream of the account."""
    async for config in backend._streams.configurations():
        await backend._connection.call(f"STREAM.DELETE.{config['name']}")


@pytest.fixture
async def opened(server: NatsServer) -> AsyncIterator[Opener]:
    """Opens backends with changed options on the module's server, and closes them."""
    async with AsyncExitStack() as stack:
        cleaner = await JetStreamBackend.open(brisk(server.url), CATALOGUE, now_ns=time.time_ns)
        stack.push_async_callback(cleaner.close)
        await clear(cleaner)

        async def open_backend(
            catalogue: Catalogue = CATALOGUE, **changes: object
        ) -> JetStreamBackend:
            options = replace(brisk(server.url), **changes)  # type: ignore[arg-type]
            backend = await JetStreamBackend.open(options, catalogue, now_ns=time.time_ns)
            stack.push_async_callback(backend.close)
            return backend

        yield open_backend
