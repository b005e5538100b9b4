"""Servers and connections for the HTTP tests."""

from collections.abc import AsyncIterator

import pytest
from support.config import settings
from support.raw import Wire, wired
from support.server import Client, connected


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A server of its own for a test that stores something."""
    async with connected(settings()) as started:
        yield started


@pytest.fixture(scope="module")
async def shared() -> AsyncIterator[Client]:
    """One server for all tests of a module that leave nothing behind."""
    async with connected(settings()) as started:
        yield started


@pytest.fixture
async def wire(shared: Client) -> AsyncIterator[Wire]:
    """A connection to the shared server."""
    async with wired(shared.running) as connection:
        yield connection
