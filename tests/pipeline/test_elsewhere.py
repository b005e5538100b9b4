"""The same job on a cluster and through Spark Connect."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.archive import archive_process
from support.archived import assert_same
from support.cluster import connect_server, standalone
from support.log import fill, log_at
from support.nats import NatsServer, nats_server

from aviso_server.lake.layout import Place

TYPES = ("storm", "flood")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    """A NATS server with something to archive."""
    with nats_server(tmp_path / "nats") as running:
        asyncio.run(_fill(running.url, 0, 100))
        yield running


async def _fill(url: str, begin: int, end: int) -> None:
    async with log_at(url) as log:
        for name in TYPES:
            await fill(log, name, range(begin, end))


def test_on_a_cluster_with_two_workers(server: NatsServer, tmp_path: Path) -> None:
    """Tasks run in executors on the workers; ``--conf`` reaches Spark."""
    with standalone(tmp_path / "spark") as master:
        arguments = ("--once", "--master", master, "--conf", "spark.executor.memory=512m")
        with archive_process(server.url, tmp_path / "job", *arguments) as job:
            assert job.wait() == 0, job.errors
    place = Place(str(tmp_path / "job" / "lake"))
    assert asyncio.run(assert_same(server.url, place, *TYPES)) == 200
    # Each worker leaves the folder of an executor that it ran for this application.
    assert len(list((tmp_path / "spark" / "work").glob("app-*/*"))) == 2


def test_through_spark_connect(server: NatsServer, tmp_path: Path) -> None:
    """Once, then continuously until it is told to stop; progress is told as anywhere."""
    place = Place(str(tmp_path / "job" / "lake"))
    with connect_server(tmp_path / "spark") as remote:
        with archive_process(server.url, tmp_path / "job", "--once", "--remote", remote) as job:
            assert job.wait() == 0, job.errors
            assert (job.lines[-1]["state"], job.lines[-1]["archived"]) == ("stopped", 200)
        arguments = ("--remote", remote, "--interval", "1s")
        with archive_process(server.url, tmp_path / "job", *arguments) as job:
            job.until(lambda line: line["state"] == "running")
            asyncio.run(_fill(server.url, 100, 110))
            job.until(lambda line: line["archived"] == 20)
            assert job.stop() == 0, job.errors
        assert asyncio.run(assert_same(server.url, place, *TYPES)) == 220
