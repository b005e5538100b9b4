"""The archive job killed at a random moment while producers publish: each sequence exactly once."""

import asyncio
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.archive import archive_process
from support.archived import assert_same
from support.fuzz import LONG_FAULTS
from support.log import fill, log_at
from support.nats import nats_server

from aviso_server.lake.layout import Place

TYPES = ("storm", "flood")
KILLS = 6 if LONG_FAULTS else 1
"""Of the job alone, then of all its processes, and so on; tests of the source die at every step."""


async def _produce(url: str, enough: threading.Event) -> None:
    """Publish until told that it is enough, at a measured pace: all of it is compared later."""
    async with log_at(url) as log:
        number = 0
        while not enough.is_set():
            await asyncio.gather(
                *(fill(log, name, range(number, number + 10)) for name in TYPES),
                asyncio.sleep(0.2),
            )
            number += 10


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed(tmp_path: Path) -> None:
    """With kill -9, while producers go on; then run to the end, without a word on stderr."""
    draw = random.Random(20_261_115)
    brisk = ("--master", "local[2]", "--interval", "1s", "--max-records", "150")
    enough = threading.Event()
    with nats_server(tmp_path / "nats") as server, ThreadPoolExecutor(1) as beside:
        producing = beside.submit(asyncio.run, _produce(server.url, enough))
        try:
            for attempt in range(KILLS):
                with archive_process(server.url, tmp_path / "job", *brisk) as job:
                    batches = draw.randrange(3)
                    job.until(lambda line, n=batches: line["archived"] > 60 * n)  # type: ignore[misc]
                    assert not job.ended_within(draw.uniform(0, 3))
                    job.kill(group=attempt % 2 == 1)
        finally:
            enough.set()
        producing.result()
        place = Place(str(tmp_path / "job" / "lake"))
        with archive_process(server.url, tmp_path / "job", "--once", *brisk[:2]) as job:
            assert job.wait() == 0, job.errors
            assert job.errors == ""  # Spark's own noise least of all
            states = [line["state"] for line in job.lines]
            assert states == ["starting", *["running"] * (len(states) - 2), "stopped"]
            assert job.lines[0]["lag"] >= job.lines[-1]["archived"] > 0
        assert asyncio.run(assert_same(server.url, place, *TYPES)) > 200
