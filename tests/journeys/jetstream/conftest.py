"""A NATS server per module, an account of it per test, and servers on it."""

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from backends.jetstream.conftest import ACCOUNTS, BRISK, accounts
from support.config import on_jetstream, settings
from support.nats import NatsServer, nats_server
from support.server import connected
from support.storm import SCHEMA, Weather, weather

from aviso_server.core.json import Json

_unused = itertools.count()

Stormy = Callable[..., AbstractAsyncContextManager[Weather]]


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """One NATS server for the module; a test that harms it takes ``own``."""
    with nats_server(tmp_path_factory.mktemp("nats"), accounts()) as running:
        yield running


@pytest.fixture
def account() -> dict[str, Json]:
    """Credentials of an account without streams."""
    return {"username": f"a{next(_unused) % ACCOUNTS}", "password": "p"}


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """A NATS server of the test's own, to be killed and paused."""
    with nats_server(tmp_path_factory.mktemp("nats")) as running:
        yield running


@asynccontextmanager
async def stormy(
    nats: NatsServer, *, watch: dict[str, Json] | None = None, **jetstream: Any
) -> AsyncIterator[Weather]:
    """A server in this process, with heartbeats every second, and a storm to send over it."""
    chosen = settings(
        {
            **on_jetstream(nats.url, **jetstream),
            "watch_endpoint": {"sse_heartbeat_interval_sec": 1, **(watch or {})},
        },
        schemas={"storm": SCHEMA},
    )
    async with connected(chosen, pace=BRISK) as server, weather(server.running.url) as made:
        yield made
