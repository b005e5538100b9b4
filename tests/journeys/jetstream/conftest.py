"""A NATS server per module with an account of it per test, or a server of the test's own."""

import itertools
from collections.abc import Iterator

import pytest
from backends.jetstream.conftest import ACCOUNTS, accounts
from support.nats import NatsServer, nats_server

from aviso_server.core.json import Json

_unused = itertools.count()


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """One NATS server for the module; a test that harms it takes ``own``."""
    with nats_server(tmp_path_factory.mktemp("nats"), accounts()) as running:
        yield running


@pytest.fixture
def account() -> dict[str, Json]:
    """Credentials of an account without streams."""
    return {"username": f"a{next(_unused) % ACCOUNTS}", "password": "p"}
