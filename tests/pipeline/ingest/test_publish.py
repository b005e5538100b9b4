"""Publishing judged rows against a real server, with a ledger that survives."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.config import settings
from support.server import Client, connected
from support.source import SAMPLES

from aviso_server.core.json import compact
from aviso_server.pipeline.ingest.claim import Claim
from aviso_server.pipeline.ingest.judge import Judge
from aviso_server.pipeline.ingest.publish import Publisher, PublishFailed, TooManyRefused, chunks
from aviso_server.pipeline.ingest.rows import judged
from aviso_server.pipeline.ingest.state import Ledger, State, StateFailed, locked
from aviso_server.pipeline.sink.client import Client as Sender
from aviso_server.pipeline.sink.client import NotSent
from aviso_server.pipeline.sink.options import Options as Server
from aviso_server.pipeline.sink.options import parse_options
from aviso_server.pipeline.source import http

CATALOGUE = settings().catalogue


def rows(count: int, event_type: str = "ev", first: int = 0, *, key: str = "k") -> pa.RecordBatch:
    """Judged rows with the payloads 0, 1, ... and keys."""
    identifier = compact(SAMPLES[event_type][0])
    found = [
        (n, Claim(b'"%b"' % event_type.encode(), identifier, b"%d" % n), b"")
        for n in range(first, first + count)
    ]
    (batch,) = judged("here", found, Judge(CATALOGUE))
    keys = pa.array([f"{key}-{n}" for n in range(first, first + count)])
    return batch.append_column("key", keys)


def server(client: Client) -> Server:
    """How it is reached."""
    return parse_options({"url": client.running.url, "onReject": "fail", "retries": "0"})


async def published(client: Client) -> list[Any]:
    """The payloads that the server has, in order."""
    async with client.replay("ev", {}, from_id="1") as stream:
        return [e.data["data"]["payload"] for e in await stream.rest() if e.kind == "replay"]


async def run(publisher: Publisher, *batches: pa.RecordBatch) -> list[str]:
    """Run a task in a thread: it blocks, and the server is in this process."""
    return await asyncio.to_thread(lambda: list(publisher.publish(iter(batches))))


async def test_rows_are_published_in_their_order_and_once(tmp_path: Path) -> None:
    """Whatever the batches; a second task finds everything done."""
    async with connected(settings()) as client:
        publisher = Publisher(State(tmp_path), server(client), chunk=7)
        assert await run(publisher, rows(10), rows(10, first=10)) == ["ev"]
        assert await published(client) == list(range(20))
        assert State(tmp_path).ledger("ev") == Ledger(3, 20, 0, 0, 20)
        await run(publisher, rows(20))
        assert await published(client) == list(range(20))


async def test_a_chunk_under_way_is_sent_again_with_its_keys(tmp_path: Path) -> None:
    """Ended between the server's answer and the ledger: the server knows the keys."""
    async with connected(settings()) as client:
        state = State(tmp_path)
        publisher = Publisher(state, server(client), chunk=5)
        await run(publisher, rows(10))
        before = state.ledger("ev")
        state.write_ledger("ev", replace(before, chunks=1, published=5, last=5))
        await run(publisher, rows(12))
        assert await published(client) == list(range(12))


async def test_a_chunk_under_way_long_ago_is_looked_up(tmp_path: Path) -> None:
    """When the keys are forgotten, what the server has decides; equal rows are counted."""
    async with connected(settings()) as client:
        state = State(tmp_path)
        publisher = Publisher(state, server(client), chunk=5)
        await run(publisher, rows(3))
        state.write_ledger("ev", Ledger(0, 0, 0, 0, 0, trying_since=1.0))
        await run(publisher, rows(5, key="new"))
        assert await published(client) == list(range(5))
        assert state.ledger("ev").published == 2
        assert state.ledger("ev").repeated == 3


@pytest.mark.parametrize("event_type", ["diss2", "test_polygon", "observations"])
async def test_what_must_be_named_in_a_replay_is_named(tmp_path: Path, event_type: str) -> None:
    """An interrupted chunk is looked up although fields, an area or a cloud are required."""
    async with connected(settings()) as client:
        state = State(tmp_path)
        await run(Publisher(state, server(client), chunk=5), rows(3, event_type))
        state.write_ledger(event_type, Ledger(trying_since=1.0))
        await run(Publisher(state, server(client), chunk=5), rows(5, event_type, key="new"))
        assert state.ledger(event_type) == Ledger(1, 2, 3, 0, 5)


async def test_what_was_there_before_is_not_taken_for_ours(tmp_path: Path) -> None:
    """Equal notifications of somebody else, from before the first chunk, stand for nothing."""
    async with connected(settings()) as client:
        theirs = State(tmp_path / "theirs")
        theirs.folder.mkdir()
        await run(Publisher(theirs, server(client)), rows(3))
        state = State(tmp_path)
        begun: list[Ledger] = []

        def stop(_self: object, _requests: object) -> None:
            begun.append(state.ledger("ev"))
            raise NotSent("the connection broke")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Sender, "post", stop)
            with pytest.raises(PublishFailed):
                await run(Publisher(state, server(client)), rows(3, key="ours"))
        assert begun[0].last == 3
        state.write_ledger("ev", replace(begun[0], trying_since=1.0))
        await run(Publisher(state, server(client)), rows(3, key="ours"))
        assert await published(client) == [0, 1, 2] * 2


async def test_rows_the_server_refuses_are_kept(tmp_path: Path) -> None:
    """With their source and line, before the ledger moves; too many end the job."""
    async with connected(settings()) as client:
        batch = rows(4)
        wrong = batch.set_column(0, "event_type", pa.array(["nothing"] * 4))
        state = State(tmp_path)
        await run(Publisher(state, server(client), chunk=3), wrong)
        assert state.ledger("nothing") == Ledger(2, 0, 0, 4, 0)
        found = pq.read_table(state.refused)
        assert found["line"].to_pylist() == [0, 1, 2, 3]
        assert set(found["source"].to_pylist()) == {"here"}
        other = State(tmp_path / "other")
        other.folder.mkdir()
        with pytest.raises(TooManyRefused):
            await run(Publisher(other, server(client), 2, chunk=3), wrong)
        assert other.ledger("nothing").chunks == 0


def test_a_server_that_is_away_ends_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says so, and the ledger says that the chunk is undecided."""
    monkeypatch.setattr(http, "ATTEMPTS", 1)
    away = parse_options({"url": "http://127.0.0.1:1", "onReject": "fail", "retries": "0"})
    with pytest.raises(PublishFailed, match="no answer"):
        list(Publisher(State(tmp_path), away).publish(iter([rows(3)])))
    ledger = State(tmp_path).ledger("ev")
    assert ledger.chunks == 0
    assert ledger.trying_since is not None


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), max_size=6), st.integers(1, 5))
def test_chunks_do_not_depend_on_batches(cuts: list[tuple[str, int]], size: int) -> None:
    """Rows of an event type are cut every ``size`` rows, wherever batches end."""
    ordered = sorted(cuts)
    batches = [
        pa.RecordBatch.from_pydict({"event_type": [name] * n, "n": list(range(n))})
        for name, n in ordered
        if n
    ]
    found = list(chunks(iter(batches), size))
    for name in "ab":
        total = sum(n for other, n in ordered if other == name)
        sizes = [table.num_rows for other, table in found if other == name]
        assert sizes == [size] * (total // size) + ([total % size] if total % size else [])
    flat = [n for _, table in found for n in table["n"].to_pylist()]
    assert flat == [n for batch in batches for n in batch.column("n").to_pylist()]


def test_one_ingest_at_a_time(tmp_path: Path) -> None:
    """A second one in the same folder is refused, and so is a folder that is a file."""
    folder = tmp_path / "state"
    with locked(folder), pytest.raises(StateFailed, match="another ingest"), locked(folder):
        pass
    (tmp_path / "file").write_text("x")
    with pytest.raises(StateFailed, match="cannot use"), locked(tmp_path / "file"):
        pass


def test_an_unfinished_run_is_not_forgotten(tmp_path: Path) -> None:
    """Other sources have to wait for it; a finished one makes room."""
    state = State(tmp_path)
    begun = state.begin("one")
    state.note(replace(begun, stage="publishing"))
    assert state.begun("one") == replace(begun, stage="publishing")
    with pytest.raises(StateFailed, match="was not finished"):
        state.begun("two")
    state.note(replace(begun, stage="done"))
    assert state.begun("two") is None
