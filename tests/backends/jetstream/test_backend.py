"""The JetStream backend against a real nats-server."""

import time
from collections.abc import AsyncIterator, Iterator

import pytest
from backends.contract import CATALOGUE, BackendContract
from support.nats import NatsServer, nats_server

from aviso_server.backends.jetstream.backend import JetStreamBackend
from aviso_server.backends.jetstream.connection import Connection
from aviso_server.backends.jetstream.options import JetStreamOptions


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """One server for the module."""
    with nats_server(tmp_path_factory.mktemp("nats")) as running:
        yield running


class TestContract(BackendContract):
    """The shared contract."""

    @pytest.fixture
    async def backend(self, server: NatsServer) -> AsyncIterator[JetStreamBackend]:
        """A backend on an account without streams."""
        options = JetStreamOptions(servers=(server.url,))
        backend = await JetStreamBackend.open(options, CATALOGUE, now_ns=time.time_ns)
        yield backend
        async for config in backend._streams.configurations():
            await backend._connection.call(f"STREAM.DELETE.{config['name']}")
        await backend.close()
