"""The real client, `pyaviso`, without credentials, and never waiting for ever."""

import asyncio
from collections.abc import Awaitable, Iterator
from itertools import islice
from typing import Protocol, TypeVar

import pyaviso

PATIENCE_S = 20
"""Far more than anything here needs: it only bounds a failing test."""

_Item = TypeVar("_Item")
_Item_co = TypeVar("_Item_co", covariant=True)


class Listening(Protocol[_Item_co]):
    """An open listener of the asynchronous client."""

    def __anext__(self) -> Awaitable[_Item_co]:
        """The next notification."""


def anonymous(url: str, *, state: pyaviso.JsonFileStore | None = None) -> pyaviso.AsyncAvisoClient:
    """The asynchronous client."""
    return pyaviso.AsyncAvisoClient(base_url=url, auth=pyaviso.Anonymous(), state_store=state)


def blocking(url: str, *, state: pyaviso.JsonFileStore | None = None) -> pyaviso.AvisoClient:
    """The synchronous client; call it from a thread when the server is in this process."""
    return pyaviso.AvisoClient(base_url=url, auth=pyaviso.Anonymous(), state_store=state)


async def take(listener: Listening[_Item], count: int) -> list[_Item]:
    """The next notifications of an asynchronous listener."""
    async with asyncio.timeout(PATIENCE_S):
        return [await listener.__anext__() for _ in range(count)]


async def take_blocking(listener: Iterator[_Item], count: int) -> list[_Item]:
    """The next notifications of a synchronous listener, read in a thread."""
    async with asyncio.timeout(PATIENCE_S):
        return await asyncio.to_thread(lambda: list(islice(listener, count)))


async def published(
    client: pyaviso.AsyncAvisoClient, count: int, *, event_type: str = "ev", region: str = "n"
) -> None:
    """Publish with payloads 0, 1, 2 and so on."""
    for value in range(count):
        await client.notify(event_type=event_type, identifier={"region": region}, payload=value)
