"""A replay to another server: in order, each once, whatever happens to it on the way."""

import json
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs
from pyspark.sql import SparkSession
from support.config import document
from support.lake import filled, record
from support.process import ServerProcess, server_process
from support.source import read_batch

from aviso_server.core.notification import Record
from aviso_server.lake.layout import Place
from aviso_server.pipeline.delivery.ledger import LEDGER, REJECTED
from aviso_server.pipeline.delivery.target import Target
from aviso_server.pipeline.history.plan import question
from aviso_server.pipeline.replay.job import run
from aviso_server.pipeline.replay.options import (
    Progress,
    ReplayFailed,
    ReplayOptions,
    ReplayOutcome,
    ReplayServer,
    chunks,
)

pytestmark = pytest.mark.slow

COUNT = 60


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """The other server."""
    with server_process(document(), tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A lake with two files; every third notification is equal to the one before."""
    place = Place(str(tmp_path_factory.mktemp("lake")))
    for begin in (1, 31):
        filled(place, [_record(n) for n in range(begin, begin + 30)])
    return place


def _record(n: int) -> Record:
    same = n - (n % 3 == 0)
    made = record(n, "ev", identifier={"region": str(same % 5)})
    return structs.replace(
        made, notification=structs.replace(made.notification, payload=b'{"n":%d}' % same)
    )


def expected(*sequences: int) -> list[str]:
    """Payloads of notifications of the lake."""
    return [f'{{"n":{n - (n % 3 == 0)}}}' for n in sequences]


def published(server: ServerProcess, event_type: str = "ev") -> list[str | None]:
    """The payloads at the server, in its order."""
    found: list[str | None] = read_batch(url=server.url, eventType=event_type)[
        "payload"
    ].to_pylist()
    return found


def options(place: Place, server: ServerProcess, state: Path, **rest: object) -> ReplayOptions:
    """A replay of the whole lake, in small requests."""
    return ReplayOptions(
        question=question("ev", lake=place),
        target=ReplayServer(target=Target(url=server.url, batch_size=7), state=state, **rest),  # type: ignore[arg-type]
        chunk=40,
    )


def test_in_order_and_once(
    spark: SparkSession, place: Place, server: ServerProcess, tmp_path: Path
) -> None:
    """Another run adds nothing; nor does one without the ledger, while keys are remembered."""
    reported: list[Progress] = []
    every = expected(*range(1, COUNT + 1))
    outcome = run(spark, options(place, server, tmp_path / "state"), report=reported.append)
    assert outcome == ReplayOutcome(COUNT, 1, COUNT)
    assert published(server) == every
    assert (reported[-1], reported == sorted(reported, key=lambda p: p.done)) == (
        Progress(COUNT, COUNT, COUNT),
        True,
    )
    again = run(spark, options(place, server, tmp_path / "state"))
    assert again == ReplayOutcome(COUNT, 1, COUNT, resumed=COUNT)
    assert run(spark, options(place, server, tmp_path / "new")).rows == COUNT
    assert published(server) == every


def test_what_the_server_rejects(
    spark: SparkSession, server: ServerProcess, tmp_path: Path
) -> None:
    """Is an error; or it is written down, once, and the rest is published."""
    place = Place(str(tmp_path / "lake"))
    rows = [record(n, "extreme", identifier={"severity": str(n)}) for n in range(5, 10)]
    filled(place, rows)
    asked = replace(
        options(place, server, tmp_path / "state"), question=question("extreme", lake=place)
    )
    with pytest.raises(ReplayFailed, match=r"does not take extreme@5: .*Required field"):
        run(spark, asked)
    assert isinstance(asked.target, ReplayServer)
    outcome = run(spark, replace(asked, target=replace(asked.target, skip_rejected=True)))
    assert (outcome.rows, outcome.rejected) == (0, 5)
    written = (tmp_path / "state" / REJECTED).read_text().splitlines()
    assert [json.loads(line)["id"] for line in written] == [f"extreme@{n}" for n in range(5, 10)]


@pytest.mark.timeout(400)
def test_killed_at_any_moment(connect: str, server: ServerProcess, tmp_path: Path) -> None:
    """kill -9, twice, and the command again: everything is there, in order, once."""
    place = Place(str(tmp_path / "lake"))
    count = 2000
    filled(place, [_record(n) for n in range(1, count + 1)])
    seeded = random.Random(6)
    state = tmp_path / "state"
    command = [
        *(sys.executable, "-m", "aviso_server", "pipeline", "replay", "ev"),
        *("--lake", place.path, "--to-server", server.url, "--state", str(state)),
        *("--batch-size", "50", "--rate", "800", "--remote", connect),
    ]

    def done() -> int:
        ledger = state / LEDGER
        lines = ledger.read_bytes().splitlines()[1:] if ledger.exists() else []
        return int(json.loads(lines[-1])["published"]) if lines else 0

    for kill in (True, True, False):
        goal = done() + seeded.randint(1, 500)
        with (tmp_path / "output").open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output)
            try:
                while process.poll() is None and (not kill or done() < goal):
                    threading.Event().wait(seeded.uniform(0.001, 0.01))
            finally:
                if kill or sys.exc_info()[0] is not None:
                    process.kill()
                code = process.wait(60)
        assert code == (-signal.SIGKILL if kill else 0), (tmp_path / "output").read_text()
    assert b"2,000 notifications of ev" in (tmp_path / "output").read_bytes()
    assert published(server) == expected(*range(1, count + 1))


def test_chunks() -> None:
    """They cover a range exactly and once."""
    assert list(chunks(3, 10, 4)) == [(3, 6), (7, 10)]
    assert list(chunks(5, 5, 4)) == [(5, 5)]
    assert list(chunks(5, 4, 4)) == []
