"""Publishing staged rows against a real server, with ledgers that survive."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.config import settings
from support.server import Client, connected
from support.source import SAMPLES

from aviso_server.core.json import compact
from aviso_server.pipeline.delivery.delivery import TooManyRejected
from aviso_server.pipeline.delivery.ledger import REJECTED
from aviso_server.pipeline.delivery.target import Target
from aviso_server.pipeline.ingest.claim import Claim
from aviso_server.pipeline.ingest.publish import IngestPublisher
from aviso_server.pipeline.ingest.rows import validate_rows
from aviso_server.pipeline.ingest.state import IngestState, StateFailed
from aviso_server.pipeline.ingest.validate import Validator

CATALOGUE = settings().catalogue


def rows(count: int, event_type: str = "ev", first: int = 0, *, key: str = "k") -> pa.RecordBatch:
    """Validated rows with the payloads 0, 1, ... and keys."""
    identifier = compact(SAMPLES[event_type][0])
    found = [
        (n, Claim(b'"%b"' % event_type.encode(), identifier, b"%d" % n), b"")
        for n in range(first, first + count)
    ]
    (batch,) = validate_rows("here", found, Validator(CATALOGUE))
    keys = pa.array([f"{key}-{n}" for n in range(first, first + count)])
    return batch.append_column("key", keys)


def publisher(client: Client, folder: Path, most_rejected: int | None = None) -> IngestPublisher:
    """One that sends five rows at a time."""
    target = Target(url=client.running.url, retries=0, batch_size=5)
    return IngestPublisher(IngestState(folder), "run", target, most_rejected)


async def run(publisher: IngestPublisher, *batches: pa.RecordBatch) -> list[dict[str, Any]]:
    """Run a task in a thread: it blocks, and the server is in this process."""
    done = await asyncio.to_thread(lambda: list(publisher.publish(iter(batches))))
    return [line for batch in done for line in batch.to_pylist()]


async def test_rows_are_published_in_their_order_and_once(tmp_path: Path) -> None:
    """Wherever batches end, by event type; a second task finds everything done."""
    async with connected(settings()) as client:
        task = publisher(client, tmp_path)
        areas = {"event_type": "test_polygon", "added": 3, "rejected": 0}
        events = {"event_type": "ev", "added": 17, "rejected": 0}
        for _ in range(2):
            batches = (rows(8), rows(9, first=8), rows(3, "test_polygon"))
            assert await run(task, *batches) == [events, areas]
            assert await client.payloads() == list(range(17))


async def test_rows_the_server_refuses_are_kept(tmp_path: Path) -> None:
    """With their source and line, before the ledger moves; too many end the job."""
    async with connected(settings()) as client:
        wrong = rows(4).set_column(0, "event_type", pa.array(["nothing"] * 4))
        task = publisher(client, tmp_path / "one")
        assert await run(task, wrong) == [{"event_type": "nothing", "added": 0, "rejected": 4}]
        lines = (task.state.ledger("nothing") / REJECTED).read_bytes().splitlines()
        kept = [json.loads(line) for line in lines]
        assert [line["line"] for line in kept] == [0, 1, 2, 3]
        assert {line["source"] for line in kept} == {"here"}
        with pytest.raises(TooManyRejected):
            await run(publisher(client, tmp_path / "two", 2), wrong)
        assert (tmp_path / "two").exists()


def test_an_unfinished_run_is_not_forgotten(tmp_path: Path) -> None:
    """Other sources have to wait for it; a finished one makes room."""
    state = IngestState(tmp_path)
    begun = state.begin("one")
    state.note(replace(begun, stage="publishing"))
    assert state.run("one") == replace(begun, stage="publishing")
    with pytest.raises(StateFailed, match="was not finished"):
        state.run("two")
    state.note(replace(begun, stage="done"))
    assert state.run("two") is None


def test_an_unfinished_run_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    """Its ledgers are others, and the error says what to do; what it finished is still known."""
    state = IngestState(tmp_path)
    begun = state.begin("one")
    (tmp_path / "ledger").mkdir()
    assert state.run("one") == begun
    state.note(replace(begun, stage="publishing"))
    with pytest.raises(StateFailed, match="finish it with that version, or look at what"):
        state.run("one")
