"""Three NATS servers, three replicas, two server processes: leaders are killed."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nats as nats_client
import pytest
from nats.js.errors import APIError
from support.config import document, on_jetstream
from support.jetstream import ready
from support.nats import NatsServer, nats_cluster
from support.process import ServerProcess, server_process
from support.storm import FILTERS, LAST, SCHEMA, weather

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster")]


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[NatsServer]]:
    """Three servers."""
    with nats_cluster(tmp_path_factory.mktemp("cluster")) as servers:
        yield servers


@pytest.fixture
async def cluster(members: list[NatsServer]) -> list[NatsServer]:
    """All of them up, and nothing stored."""
    for member in members:
        if not member.running:
            await asyncio.to_thread(member.start)
    await assembled(members)
    return members


@contextmanager
def servers(cluster: list[NatsServer], folder: Path) -> Iterator[tuple[ServerProcess, ...]]:
    """Two server processes on the cluster, with the waits of production."""
    urls = ",".join(node.url for node in cluster)
    chosen = document(
        {
            **on_jetstream(urls, replicas=3, reconnect_delay_ms=500),
            "watch_endpoint": {"sse_heartbeat_interval_sec": 1},
        },
        schemas={"storm": SCHEMA},
    )
    (folder / "one").mkdir()
    (folder / "two").mkdir()
    with (
        server_process(chosen, folder / "one") as one,
        server_process(chosen, folder / "two") as two,
    ):
        yield one, two


async def assembled(cluster: list[NatsServer]) -> None:
    """Wait until the cluster can hold three replicas; what it holds is removed."""
    client = await nats_client.connect([node.url for node in cluster])
    try:
        api = client.jetstream()
        async with asyncio.timeout(60):
            while True:
                try:
                    await api.add_stream(name="PROBE", subjects=["probe"], num_replicas=3)
                    for stream in await api.streams_info():
                        await api.delete_stream(str(stream.config.name))
                except (APIError, nats_client.errors.Error):
                    await asyncio.sleep(0.1)
                else:
                    return
    finally:
        await client.close()


async def leader(cluster: list[NatsServer]) -> NatsServer:
    """The server that leads the stream."""
    client = await nats_client.connect([node.url for node in cluster if node.running])
    try:
        answer = await client.request("$JS.API.STREAM.INFO.STORM", timeout=10)
        info: dict[str, Any] = json.loads(answer.data)
    finally:
        await client.close()
    return cluster[int(info["cluster"]["leader"].removeprefix("n"))]


async def test_leader_killed_in_a_storm(cluster: list[NatsServer], tmp_path: Path) -> None:
    """Every acknowledged notification reaches every watcher on both servers, exactly once.

    The leader of the stream is killed, and comes back; then the next leader is.
    """
    with servers(cluster, tmp_path) as (one, two):
        async with weather(one.url) as storm:
            await storm.publisher().publish(LAST)
            for url in (one.url, two.url):
                for wanted in FILTERS:
                    await storm.watch(wanted, url=url)
                    await storm.watch(wanted, 1, url=url)
            async with asyncio.TaskGroup() as group:
                group.create_task(storm.blow(250, publishers=6, urls=(one.url, two.url)))
                for moment in (300, 900):
                    await storm.book.until(moment)
                    victim = await leader(cluster)
                    victim.kill()
                    await storm.book.until(moment + 200)
                    await asyncio.to_thread(victim.start)
            await storm.settle()
            everything = storm.watchers[1]
            assert everything.received == sorted(storm.book.sent)
            assert len(set(everything.payloads)) == len(everything.payloads)
            for watcher in storm.watchers:
                watcher.check_frames()
                assert watcher.connections == 1
            late = await storm.watch(start=1, url=two.url, operation="replay")
            await late.until_kind("end_of_stream")
            assert late.received == everything.received


async def test_ready_means_a_quorum(cluster: list[NatsServer], tmp_path: Path) -> None:
    """With two of three nodes down nothing can be stored; ready again when one is back."""
    with servers(cluster, tmp_path) as (one, _):
        await ready(one.url, expected=True)
        for node in cluster[1:]:
            node.kill()
        await ready(one.url, expected=False)
        await asyncio.to_thread(cluster[1].start)
        await ready(one.url, expected=True)
        async with weather(one.url) as storm:
            assert await storm.publisher().publish(LAST) == 1
