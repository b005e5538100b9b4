"""A server in this process on a real NATS server, and the ways to meddle with what it relies on."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
import nats
from backends.jetstream.conftest import BRISK, eventually
from nats.js import JetStreamContext
from support.config import on_jetstream, settings
from support.nats import NatsServer
from support.server import connected
from support.storm import SCHEMA, Weather, weather

from aviso_server.core.json import Json


@asynccontextmanager
async def stormy(
    store: NatsServer,
    jetstream: Mapping[str, Json] | None = None,
    *,
    watch: Mapping[str, Json] | None = None,
) -> AsyncIterator[Weather]:
    """A server with quick waits and a heartbeat every second, and a storm to send over it."""
    chosen = settings(
        {
            **on_jetstream(store.url, **(jetstream or {})),
            "watch_endpoint": {"sse_heartbeat_interval_sec": 1, **(watch or {})},
        },
        schemas={"storm": SCHEMA},
    )
    async with connected(chosen, pace=BRISK) as server, weather(server.running.url) as made:
        yield made


@asynccontextmanager
async def behind(
    store: NatsServer, account: Mapping[str, Json] | None = None
) -> AsyncIterator[JetStreamContext]:
    """The JetStream API, to do things behind the server's back."""
    credentials = account or {}
    client = await nats.connect(
        store.url,
        user=str(credentials.get("username", "")),
        password=str(credentials.get("password", "")),
    )
    try:
        yield client.jetstream()
    finally:
        async with asyncio.timeout(20):
            await client.close()


async def consumers(api: JetStreamContext, count: int) -> None:
    """Wait until the stream has so many consumers."""

    async def agrees() -> bool:
        return len(await api.consumers_info("STORM")) == count

    await eventually(agrees)


async def lose_consumers(api: JetStreamContext) -> int:
    """Delete every consumer of the stream; how many there were."""
    found = await api.consumers_info("STORM")
    for consumer in found:
        await api.delete_consumer("STORM", consumer.name)
    return len(found)


async def status(url: str) -> int:
    """The status of a GET on a connection of its own."""
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status


async def ready(url: str, *, expected: bool) -> None:
    """Wait until ``/ready`` says so; ``/health`` is 200 all the while."""

    async def agrees() -> bool:
        assert await status(f"{url}/health") == 200
        return await status(f"{url}/ready") == (200 if expected else 503)

    await eventually(agrees)
