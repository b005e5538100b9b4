"""From the log to the lake as plain Python: exactly once, wherever it dies and whatever is lost."""

import asyncio
import json
import random
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
import pytest
from backends.jetstream.conftest import accounts
from nats.js import JetStreamContext
from support.archived import archived, assert_same
from support.lake import table_of
from support.log import everything, fill, log_at
from support.microbatch import MOMENTS, Checkpoint, Died, archive
from support.nats import NatsServer, nats_server

from aviso_server.backends.backend import Bounds
from aviso_server.backends.jetstream.messages import IDENTIFIER
from aviso_server.core.notification import Entry, Record, Unreadable
from aviso_server.lake.layout import DEAD_LETTERS, NOTIFICATIONS, TOMBSTONES, Place
from aviso_server.pipeline.archive.source import LakeBehind
from aviso_server.pipeline.history.plan import make_plan, question
from aviso_server.pipeline.source.agreement import LogReplaced
from aviso_server.pipeline.source.failure import DataLost

TYPES = ("storm", "flood")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """One NATS server, with an account for every test."""
    with nats_server(tmp_path_factory.mktemp("nats"), accounts()) as running:
        yield running


@pytest.fixture
def url(server: NatsServer, request: pytest.FixtureRequest) -> str:
    """An empty log."""
    taken: set[int] = server.__dict__.setdefault("taken", set())
    account = len(taken)
    taken.add(account)
    return f"nats://a{account}:p@127.0.0.1:{server.port}"


async def test_everything_arrives_in_micro_batches(url: str, place: Place) -> None:
    """Several event types, places and odd characters; a limit makes several commits."""
    checkpoint = Checkpoint()
    async with log_at(url) as log:
        await fill(log, "storm", range(60))
        await fill(log, "flood", range(25))
    await archive(place, {"servers": url}, checkpoint, most=30)
    assert checkpoint.commits >= 3
    await assert_same(url, place, *TYPES)


@pytest.mark.parametrize("seed", range(4))
async def test_it_may_die_anywhere(url: str, place: Place, seed: int) -> None:
    """Killed at random places, checkpoint damaged or lost in between: each sequence once."""
    draw = random.Random(seed)
    checkpoint = Checkpoint()
    written = 0
    for moment in draw.sample(MOMENTS * 2, 12):
        async with log_at(url) as log:
            more = draw.randrange(1, 25)
            for name in TYPES:
                await fill(log, name, range(written, written + more))
            written += more
        skipped = draw.randrange(3)

        def die(here: str, moment: str = moment) -> None:
            nonlocal skipped
            if here == moment:
                skipped -= 1
                if skipped < 0:
                    raise Died

        try:
            await archive(place, {"servers": url}, checkpoint, most=draw.choice([7, 40]), die=die)
        except Died:
            fate = draw.randrange(4)
            if fate == 0:
                checkpoint.forget_commit()
            elif fate == 1:
                checkpoint = Checkpoint()
    await archive(place, {"servers": url}, checkpoint)
    await assert_same(url, place, *TYPES)


async def test_what_is_no_notification_becomes_a_dead_letter(url: str, place: Place) -> None:
    """With the reason and the stored message; the rest is archived."""
    async with log_at(url) as log:
        await fill(log, "storm", range(3))
        async with _jetstream(url) as intruder:
            await intruder.publish("storm.north.7", b'"odd"', headers={IDENTIFIER: "[1]"})
        await fill(log, "storm", range(3, 5))
        found = await everything(log, "storm")
    await archive(place, {"servers": url}, Checkpoint())
    assert archived(place, "storm") == [entry for entry in found if isinstance(entry, Record)]
    (odd,) = [entry for entry in found if isinstance(entry, Unreadable)]
    (row,) = table_of(place, DEAD_LETTERS).to_pyarrow_table().to_pylist()
    kept = Unreadable(row["sequence"], row["time_ns"], odd.topic, row["problem"])
    assert (row["event_type"], kept) == ("storm", odd)
    assert json.loads(row["raw"])["subject"] == "storm.north.7"


async def test_what_was_trimmed_before_it_was_archived(url: str, place: Place) -> None:
    """It stops the job; or it is passed over and told by a tombstone."""
    checkpoint = Checkpoint()
    async with log_at(url) as log:
        await fill(log, "storm", range(10))
        await archive(place, {"servers": url}, checkpoint)
        await fill(log, "storm", range(10, 30))
        await _trim(url, keep=5)
        rest: list[Entry] = await everything(log, "storm")
    assert len(rest) == 5
    for known in (checkpoint, Checkpoint()):
        with pytest.raises(DataLost, match="11 to 25"):
            await archive(place, {"servers": url}, known)
    await archive(place, {"servers": url, "failOnDataLoss": "false"}, checkpoint)
    assert [item.sequence for item in archived(place, "storm")] == [*range(1, 11), *range(26, 31)]
    (row,) = table_of(place, TOMBSTONES).to_pyarrow_table().to_pylist()
    assert (row["first"], row["last"], row["kind"]) == (11, 25, "lost")


async def test_what_the_lake_has_already_is_not_missed(url: str, place: Place) -> None:
    """A checkpoint behind the lake, and a log trimmed up to there: nothing is lost."""
    checkpoint = Checkpoint()
    async with log_at(url) as log:
        await fill(log, "storm", range(10))
        await archive(place, {"servers": url}, checkpoint)
        behind = Checkpoint(list(checkpoint.offsets), checkpoint.commits)
        await fill(log, "storm", range(10, 20))
        await archive(place, {"servers": url}, checkpoint)
        await _trim(url, keep=2)
        await fill(log, "storm", range(20, 25))
    await archive(place, {"servers": url}, behind)
    assert [item.sequence for item in archived(place, "storm")] == list(range(1, 26))


async def test_a_log_that_began_before_us_is_archived_from_where_it_begins(
    url: str, place: Place
) -> None:
    """What was trimmed before there was an archive is nobody's loss."""
    async with log_at(url) as log:
        await fill(log, "storm", range(10))
        await _trim(url, keep=4)
    await archive(place, {"servers": url}, Checkpoint())
    assert [item.sequence for item in archived(place, "storm")] == [7, 8, 9, 10]


async def test_a_lake_behind_its_checkpoint_is_refused(url: str, tmp_path: Path) -> None:
    """The message says what to do, and doing it works."""
    place, checkpoint = Place(str(tmp_path)), Checkpoint()
    await _fill(url, range(10))
    await archive(place, {"servers": url}, checkpoint)
    shutil.rmtree(tmp_path / NOTIFICATIONS)
    with pytest.raises(LakeBehind, match=r"archived up to 10.*has it up to 0.*remove the checkp"):
        await archive(place, {"servers": url}, checkpoint)
    await archive(place, {"servers": url}, Checkpoint())
    assert len(archived(place, "storm")) == 10


async def test_a_table_removed_while_the_job_runs_is_noticed(url: str, tmp_path: Path) -> None:
    """The next micro-batch does not begin a new table with a hole before it."""
    place, checkpoint = Place(str(tmp_path)), Checkpoint()
    await _fill(url, range(10))

    def remove(here: str) -> None:
        if here == "noted" and checkpoint.commits == 1:
            shutil.rmtree(tmp_path / NOTIFICATIONS)

    with pytest.raises(LakeBehind, match=r"archived up to 5.*has it up to 0"):
        await archive(place, {"servers": url}, checkpoint, most=5, die=remove)


async def test_a_stream_made_anew_is_refused(url: str, place: Place) -> None:
    """Its sequences mean something else now; they are not mixed with the old ones."""
    checkpoint = Checkpoint()
    await _fill(url, range(10))
    await archive(place, {"servers": url}, checkpoint)
    await _remove_stream(url)
    await _fill(url, range(100, 104))
    for known in (checkpoint, Checkpoint()):
        with pytest.raises(LogReplaced, match=r"ends at sequence 4.*has it up to 10"):
            await archive(place, {"servers": url}, known)
    with pytest.raises(LogReplaced, match="ends at sequence 4"):
        await asyncio.to_thread(make_plan, question("storm", lake=place, log=url))
    await _fill(url, range(104, 120))
    for known in (checkpoint, Checkpoint()):
        with pytest.raises(LogReplaced, match=r"ends at sequence 20, stored sequence 10 at"):
            await archive(place, {"servers": url}, known)
    with pytest.raises(LogReplaced, match="ends at sequence 20, stored sequence 10 at"):
        await asyncio.to_thread(make_plan, question("storm", lake=place, log=url))


async def test_a_stream_replaced_between_two_micro_batches_is_refused(
    url: str, place: Place
) -> None:
    """A running job compares before every batch, not only when it starts."""
    checkpoint = Checkpoint()
    await _fill(url, range(10))

    def replace(here: str) -> None:
        if here == "noted" and checkpoint.commits == 1:
            asyncio.run(remade())

    async def remade() -> None:
        await _remove_stream(url)
        await _fill(url, range(100, 120))

    with pytest.raises(LogReplaced, match="stored sequence 5 at"):
        await archive(place, {"servers": url}, checkpoint, most=5, die=replace)


async def test_a_lost_log_is_waited_for(url: str, place: Place) -> None:
    """An empty stream contradicts nothing: the job goes on when the server does, above the mark."""
    checkpoint = Checkpoint()
    await _fill(url, range(10))
    await archive(place, {"servers": url}, checkpoint)
    await _remove_stream(url)
    async with log_at(url) as log:
        assert await log.bounds("storm") == Bounds(1, 0)
    for known in (checkpoint, Checkpoint()):
        await archive(place, {"servers": url}, known)
    async with _jetstream(url) as emptied:
        await emptied.purge_stream("STORM", seq=11)
    await _fill(url, range(10, 14))
    await archive(place, {"servers": url}, checkpoint)
    assert [item.sequence for item in archived(place, "storm")] == list(range(1, 15))


async def test_an_event_type_that_appears_later_is_picked_up(url: str, place: Place) -> None:
    """Without a restart, and with the old checkpoint."""
    checkpoint = Checkpoint()
    async with log_at(url) as log:
        await fill(log, "storm", range(3))
        await archive(place, {"servers": url}, checkpoint)
        await fill(log, "flood", range(4))
    await archive(place, {"servers": url}, checkpoint)
    await assert_same(url, place, *TYPES)


@asynccontextmanager
async def _jetstream(url: str) -> AsyncIterator[JetStreamContext]:
    """The log, past our own backend."""
    async with await nats.connect(url) as client:
        yield client.jetstream()


async def _fill(url: str, numbers: range) -> None:
    async with log_at(url) as log:
        await fill(log, "storm", numbers)


async def _remove_stream(url: str) -> None:
    """Lose the log, as far as NATS is concerned."""
    async with _jetstream(url) as log:
        await log.delete_stream("STORM")


async def _trim(url: str, *, keep: int) -> None:
    """Let retention remove all but the newest."""
    async with _jetstream(url) as log:
        config = (await log.stream_info("STORM")).config
        for most in (keep, 1_000_000):
            config.max_msgs = most
            await log.update_stream(config)
