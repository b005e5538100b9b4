"""JetStream as a cluster of three: replicated, and not stopped by the loss of a member."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import replace

import pytest
from backends.contract import CATALOGUE, notification, read_all
from backends.jetstream.conftest import brisk, eventually
from support.nats import NatsServer, nats_cluster

from aviso_server.backends.jetstream.backend import JetStreamBackend
from aviso_server.backends.jetstream.options import StreamDefaults
from aviso_server.core.errors import StorageFailed

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[NatsServer]]:
    """Three servers."""
    with nats_cluster(tmp_path_factory.mktemp("cluster")) as servers:
        yield servers


@pytest.fixture
async def backend(cluster: list[NatsServer]) -> AsyncIterator[JetStreamBackend]:
    """A backend that keeps three copies of everything."""
    options = replace(
        brisk(*(server.url for server in cluster)),
        # A cluster that just started elects a leader first.
        retry_attempts=100,
        publish_retry_attempts=10,
        streams=StreamDefaults(replicas=3),
    )
    backend = await JetStreamBackend.open(options, CATALOGUE)
    yield backend
    await backend.close()


async def publish(backend: JetStreamBackend, count: int, prefix: str) -> list[int]:
    """Publish until each is stored; the sequences."""

    async def one(number: int) -> int:
        while True:
            try:
                item = notification(payload=number)
                return (await backend.append(item, key=f"{prefix}{number}")).sequence
            except StorageFailed:
                continue

    return await asyncio.gather(*(one(number) for number in range(count)))


async def test_nothing_is_lost_with_a_member(
    cluster: list[NatsServer], backend: JetStreamBackend
) -> None:
    """Kill the stream's leader while publishing and following; no gap, no double."""
    got: list[int] = []
    async with asyncio.timeout(100), aclosing(backend.tail("ev", 0)) as tail:

        async def follow() -> None:
            async for entries in tail:
                got.extend(entry.sequence for entry in entries)
                if got[-1] >= 600:
                    return

        following = asyncio.ensure_future(follow())
        await publish(backend, 200, "a")
        info = await backend._connection.call("STREAM.INFO.EV")
        leader = info["cluster"]
        assert isinstance(leader, dict)
        member = cluster[int(str(leader["leader"]).removeprefix("n"))]
        publishing = asyncio.ensure_future(publish(backend, 200, "b"))
        await eventually(lambda: len(got) > 200)
        member.kill()
        await publishing
        await asyncio.to_thread(member.start)
        await publish(backend, 200, "c")
        await following
    assert got == list(range(1, 601))
    # Reads may be answered by the member that was away: they wait for it rather than end early.
    for limit in (50, 500):
        entries = await read_all(backend, 1, 600, limit=limit)
        assert [entry.sequence for entry in entries] == list(range(1, 601))
