"""A real NATS server per module, and backends on it."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest
from backends.contract import CATALOGUE
from support.nats import NatsServer, nats_server

from aviso_server.backends.jetstream.agreement import MarkReader
from aviso_server.backends.jetstream.backend import JetStreamBackend
from aviso_server.backends.jetstream.options import JetStreamOptions, Pace
from aviso_server.core.json import Json
from aviso_server.core.schema import Catalogue

BRISK = Pace(
    ack_s=2,
    request_s=2,
    outage_s=20,
    watchdog_s=0.3,
    heartbeat_s=0.2,
    ping_s=1,
    check_s=0.5,
    recheck_s=0.2,
)
"""Waits short enough for tests and long enough for a busy machine."""

Opener = Callable[..., Awaitable[JetStreamBackend]]


ACCOUNTS = 100
_unused = itertools.count()


def accounts() -> dict[str, Json]:
    """Accounts of one user each: a test takes a fresh one.

    Deleting streams instead would not do: nats-server 2.15 may find the old messages again when
    a stream is made within milliseconds of its deletion.
    """
    return {
        "accounts": {
            f"a{n}": {"jetstream": "enabled", "users": [{"user": f"a{n}", "password": "p"}]}
            for n in range(ACCOUNTS)
        }
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """One server for the module."""
    with nats_server(tmp_path_factory.mktemp("nats"), accounts()) as running:
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


async def config_of(backend: JetStreamBackend, stream: str = "EV") -> dict[str, Json]:
    """The stream's configuration now."""
    config = (await backend._connection.call(f"STREAM.INFO.{stream}"))["config"]
    assert isinstance(config, dict)
    return config


async def eventually(holds: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait until something holds that nobody announces."""
    async with asyncio.timeout(30):
        while True:
            found = holds()
            if await found if isinstance(found, Awaitable) else found:
                return
            await asyncio.sleep(0.01)


@asynccontextmanager
async def backend_with(
    options: JetStreamOptions, catalogue: Catalogue = CATALOGUE, *, marks: MarkReader | None = None
) -> AsyncIterator[JetStreamBackend]:
    """A backend that is closed with the block."""
    backend = await JetStreamBackend.open(options, catalogue, marks=marks)
    try:
        yield backend
    finally:
        await backend.close()


@pytest.fixture
async def opened(server: NatsServer) -> AsyncIterator[Opener]:
    """Opens backends with changed options on an account of the test's own, and closes them."""
    account = f"a{next(_unused) % ACCOUNTS}"
    options = replace(brisk(server.url), username=account, password="p")
    async with AsyncExitStack() as stack:

        async def open_backend(
            catalogue: Catalogue = CATALOGUE, *, marks: MarkReader | None = None, **changes: object
        ) -> JetStreamBackend:
            changed = replace(options, **changes)  # type: ignore[arg-type]
            return await stack.enter_async_context(backend_with(changed, catalogue, marks=marks))

        yield open_backend
