"""The archive job through Spark Connect; test_jobs_elsewhere.py has it on a cluster."""

import asyncio
from pathlib import Path

import pytest
from support.archive import archive_process
from support.archived import assert_same
from support.log import fill, log_at
from support.nats import nats_server

from aviso_server.lake.layout import Place

TYPES = ("storm", "flood")


async def _fill(url: str, begin: int, end: int) -> None:
    async with log_at(url) as log:
        for name in TYPES:
            await fill(log, name, range(begin, end))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_through_spark_connect(connect: str, tmp_path: Path) -> None:
    """Once, then continuously until it is told to stop; progress is told as anywhere."""
    place = Place(str(tmp_path / "job" / "lake"))
    remote = ("--remote", connect)
    with nats_server(tmp_path / "nats") as server:
        asyncio.run(_fill(server.url, 0, 100))
        with archive_process(server.url, tmp_path / "job", "--once", *remote) as job:
            assert job.wait() == 0, job.errors
            assert (job.lines[-1]["state"], job.lines[-1]["archived"]) == ("stopped", 200)
        with archive_process(server.url, tmp_path / "job", *remote, "--interval", "1s") as job:
            job.until(lambda line: line["state"] == "running")
            asyncio.run(_fill(server.url, 100, 110))
            job.until(lambda line: line["archived"] == 20)
            assert job.stop() == 0, job.errors
        assert asyncio.run(assert_same(server.url, place, *TYPES)) == 220
