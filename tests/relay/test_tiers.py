"""Memory, log and archive as one past, as a property.

Hypothesis draws an interleaving of publishing, which trims the log, of an archive job that reads
and commits at its own pace, of deletions and wipes by another process, and of readers that take one
batch at a time. Whatever the interleaving, a reader gets each notification that a tier has and
nobody removed exactly once, in order, and is told where no tier has what it asked for.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

import pytest
from backends.contract import OPEN
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fuzz import examples
from support.lake import filled
from support.metrics import shown
from support.plainlake import PlainLake, PlainTable
from support.relay import NOW_NS, Reader, Relay, asked, relay

from aviso_server.backends.backend import Batch
from aviso_server.backends.memory.backend import MemoryBackend, MemoryLimits
from aviso_server.core.errors import NotFound
from aviso_server.core.filter import Filter
from aviso_server.core.notification import Record
from aviso_server.core.operation import Operation
from aviso_server.lake.lake import Lake
from aviso_server.lake.layout import LOST, Place
from aviso_server.lake.tombstones import append_tombstones
from aviso_server.relay.admin import Administration
from aviso_server.relay.hub import Keep
from aviso_server.relay.lake import LakeTier
from aviso_server.telemetry.cells import Cells
from aviso_server.telemetry.metrics import Metrics

REGIONS = "ns"
KEPT = 6
"""Notifications the log keeps."""

_numbers = st.integers(0, 200)

steps = st.one_of(
    st.tuples(st.just("publish"), st.integers(1, 4)),
    st.tuples(st.just("publish"), st.integers(1, 4)),
    st.tuples(st.just("fetch"), st.integers(1, 8)),
    st.tuples(st.just("commit"), st.just(0)),
    st.tuples(st.just("archive"), st.integers(1, 8)),
    st.tuples(st.just("archive"), st.integers(1, 8)),
    st.tuples(st.just("delete"), _numbers),
    st.tuples(st.sampled_from(["settle", "settle", "wipe"]), st.just(0)),
    st.tuples(st.just("open"), st.tuples(_numbers, st.sampled_from(["n", None]))),
    st.tuples(st.just("read"), _numbers),
    st.tuples(st.just("read"), _numbers),
    st.tuples(st.just("times"), _numbers),
)


class Job(Protocol):
    """What the archive job does at the end of a micro-batch."""

    async def commit(self, rows: list[Record], through: int, lost: list[tuple[int, int]]) -> None:
        """Rows, mark and losses, in one go."""
        ...


@dataclass
class Archives:
    """One archive: as this process sees it, as another one does, and as its job writes it."""

    here: LakeTier
    there: LakeTier
    job: Job


@dataclass
class Reading:
    """A reader in the middle of history."""

    position: int
    last: int
    region: str | None
    removed: frozenset[int]
    """What was removed when it began."""
    began: bool = False

    @property
    def filter(self) -> Filter:
        """What it asks for."""
        return asked(Operation.WATCH, {"region": self.region} if self.region else {}).filter


@dataclass
class Simulation:
    """Runs the drawn steps, and keeps beside them who has which sequence."""

    world: Relay
    archives: Archives
    log: list[str] = field(default_factory=list)
    """Region by sequence, from 1."""
    removed: set[int] = field(default_factory=set)
    archived: set[int] = field(default_factory=set)
    through: int = 0
    fetched: tuple[list[Record], int, list[tuple[int, int]]] | None = None
    readings: list[Reading] = field(default_factory=list)

    async def step(self, action: str, value: object) -> None:
        """Do one drawn step."""
        match action, value:
            case "publish", int(count):
                for _ in range(count):
                    self.log.append(REGIONS[len(self.log) % 3 // 2])
                    await self.world.publish(self.log[-1])
            case "fetch", int(count) if self.fetched is None:
                await self.fetch(count)
            case "commit", _ if self.fetched is not None:
                rows, through, lost = self.fetched
                self.fetched = None
                await self.archives.job.commit(rows, through, lost)
                self.archived |= {row.sequence for row in rows}
                self.through = through
            case "archive", int(count):
                await self.step("commit", 0)
                await self.step("fetch", count)
                await self.step("commit", 0)
            case "delete", int(sequence) if self.log:
                await self.delete(1 + sequence % len(self.log))
            case "wipe", _:
                await self.administration.wipe("ev")
                self.removed |= set(range(1, len(self.log) + 1))
            case "open", (int(start), region):
                await self.open(
                    start % (len(self.log) + 2), None if region is None else str(region)
                )
            case "read", int(index) if self.readings:
                await self.read(self.readings[index % len(self.readings)])
            case "settle", _:
                await self.world.settle(3)
            case "times", int(offset):
                await self.check_times(offset % (len(self.log) + 3))

    @property
    def administration(self) -> Administration:
        """In another process."""
        return Administration(self.world.backend, OPEN, lake=self.archives.there)

    async def fetch(self, count: int) -> None:
        """Read the log as the archive job does; committed later."""
        begin = self.through + 1
        bounds = await self.world.backend.bounds("ev")
        lost = [(begin, bounds.lost)] if bounds.lost >= begin else []
        last = min(max(begin, bounds.first) + count - 1, bounds.last)
        if last < begin:
            return
        batch = await self.world.backend.read("ev", begin, last, limit=100)
        rows = [entry for entry in batch.entries if isinstance(entry, Record)]
        self.fetched = (rows, last, lost)

    async def logged(self) -> set[int]:
        """What the log has."""
        batch = await self.world.backend.read("ev", 1, len(self.log), limit=1000)
        return {entry.sequence for entry in batch.entries}

    async def delete(self, sequence: int) -> None:
        """Delete through another process; it says whether anybody had it."""
        there = sequence in self.archived - self.removed or sequence in await self.logged()
        try:
            await self.administration.delete(f"ev@{sequence}")
        except NotFound:
            assert not there, sequence
        else:
            assert there, sequence
            self.removed.add(sequence)

    async def open(self, start: int, region: str | None) -> None:
        """Begin to read history, as the set-up of a feed does."""
        last = (await self.world.sources.history.bounds("ev")).last
        self.readings.append(Reading(start, last, region, frozenset(self.removed)))

    async def read(self, reading: Reading) -> None:
        """Take one batch and account for every sequence it is about."""
        if reading.position > reading.last:
            return
        batch = await self.world.sources.history.read(
            "ev",
            reading.position,
            reading.last,
            limit=2,
            wanted=reading.filter,
            fresh=not reading.began,
        )
        assert batch.following > reading.position
        delivered = [entry.sequence for entry in batch.entries]
        assert delivered == sorted(set(delivered))
        for sequence in delivered:
            assert reading.position <= sequence < batch.following
            assert sequence not in reading.removed
        await self.account(reading, batch, set(delivered))
        reading.position, reading.began = batch.following, True

    async def account(self, reading: Reading, batch: Batch, delivered: set[int]) -> None:
        """What was not delivered is removed, not asked for, or lost and told to be."""
        kept = await self.logged() | self.archived
        upto = min(batch.following, reading.last + 1)
        considered = set(range(max(reading.position, 1), upto))
        absent = considered - delivered - self.removed
        if reading.region is not None and not batch.missing:
            absent = {n for n in absent if self.log[n - 1] == reading.region}
        lost = {n for n in range(max(reading.position, 1), batch.following) if n not in kept}
        assert not absent & kept, "left out although a tier has it"
        begins = batch.bounds.first if not reading.began else 0
        assert batch.missing or {n for n in absent if n >= begins} == set(), "lost without a word"
        assert not batch.missing or lost, "said to be lost although a tier has it"
        assert not (batch.missing and delivered)

    async def check_times(self, offset: int) -> None:
        """By time, the tiers together are asked like one."""
        history, ns = self.world.sources.history, NOW_NS + offset
        logged = await self.logged()
        bounds = await self.world.backend.bounds("ev")
        archived = {n for n in self.archived - self.removed if n < bounds.first}
        # The clock of these tests gives sequence n the time NOW_NS + n.
        known = sorted(logged | archived)
        later = [n for n in known if n >= offset]
        assert await history.first_since("ev", ns) == (later[0] if later else bounds.last + 1)
        earlier = [n for n in known if n <= offset]
        first = known[0] if known else bounds.first
        assert await history.last_until("ev", ns) == (earlier[-1] if earlier else first - 1)

    async def finish(self) -> None:
        """Every reader gets to its end."""
        for reading in self.readings:
            while reading.position <= reading.last:
                await self.read(reading)


@asynccontextmanager
async def simulated(archives: Archives, recent_bytes: int) -> AsyncIterator[Simulation]:
    """A relay over a log that trims, with the archive behind it and memory in front."""
    clock = iter(range(NOW_NS + 1, NOW_NS + 10_000))
    backend = MemoryBackend(MemoryLimits(max_messages=KEPT), now_ns=lambda: next(clock))
    keep = Keep(recent_bytes=recent_bytes, always=frozenset({"ev"}))
    async with relay(backend, keep=keep, lake=archives.here) as world:
        await world.watch()
        yield Simulation(world, archives)


@dataclass(frozen=True)
class LakeJob:
    """Commits to a real lake, without Spark."""

    place: Place

    async def commit(self, rows: list[Record], through: int, lost: list[tuple[int, int]]) -> None:
        """Losses first: whoever sees the mark must see them."""
        append_tombstones(self.place, [("ev", *item) for item in lost], kind=LOST)
        filled(self.place, rows, marks={"ev": through})


def shelved() -> Archives:
    """An archive in lists."""
    table = PlainTable()
    return Archives(PlainLake(table), PlainLake(table), table)


@settings(max_examples=examples(100))
@given(st.lists(steps, min_size=60, max_size=120), st.sampled_from([1, 4000]))
async def test_tiers_are_one_past(drawn: list[tuple[str, object]], recent_bytes: int) -> None:
    """Exactly what is visible, once and in order; lost only where no tier has it, and then said."""
    async with simulated(shelved(), recent_bytes) as simulation:
        for action, value in drawn:
            await simulation.step(action, value)
        await simulation.finish()


@settings(max_examples=examples(8))
@given(st.lists(steps, min_size=60, max_size=120), st.sampled_from([1, 4000]))
async def test_tiers_with_a_real_lake_are_one_past(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[str, object]], recent_bytes: int
) -> None:
    """The same with Delta tables, which each process looks at by itself and as rarely as it can."""
    place = Place(str(tmp_path_factory.mktemp("lake")))
    here, there = Lake(place, refresh_s=3600), Lake(place, refresh_s=3600)
    async with simulated(Archives(here, there, LakeJob(place)), recent_bytes) as simulation:
        for action, value in drawn:
            await simulation.step(action, value)
        await simulation.finish()
    await here.close()
    await there.close()


# Readers and the views of the archive


async def archived(simulation: Simulation, through: int) -> None:
    """LakeTier everything up to a sequence."""
    while simulation.through < through:
        await simulation.step("archive", through - simulation.through)


async def test_a_reader_that_the_log_left_behind_sees_earlier_deletions() -> None:
    """It began inside the log, so the lake had not been read on its behalf."""
    async with simulated(shelved(), recent_bytes=1) as simulation:
        await simulation.step("publish", 5)
        await archived(simulation, 5)
        assert simulation.archives.here.seen.through == 0  # type: ignore[attr-defined]
        await simulation.archives.here.bounds("ev", fresh=True)
        await simulation.delete(4)
        await simulation.open(1, None)
        reading = simulation.readings[0]
        await simulation.read(reading)
        assert reading.position == 3
        await simulation.step("publish", 5)
        await simulation.finish()


async def test_a_reader_does_not_rely_on_a_look_that_nobody_took() -> None:
    """One deep in the archive goes on with what it saw; that is no look for one the log left."""
    async with simulated(shelved(), recent_bytes=1) as simulation:
        for through in (6, 12):
            await simulation.step("publish", 6)
            await archived(simulation, through)
        await simulation.open(1, None)
        deep = simulation.readings[0]
        await simulation.read(deep)
        await simulation.delete(10)
        await simulation.open(8, None)
        await simulation.read(simulation.readings[1])
        assert simulation.readings[1].position == 10
        await simulation.step("publish", 6)
        await simulation.open(18, None)  # somebody notices where the log begins now
        await simulation.read(deep)
        await simulation.finish()


async def test_a_look_on_behalf_of_another_reader_is_enough() -> None:
    """While the log stays where it is, readers in the middle do not look again."""
    async with simulated(shelved(), recent_bytes=1) as simulation:
        await simulation.step("publish", 20)
        await archived(simulation, 20)
        view = simulation.archives.here
        assert isinstance(view, PlainLake)
        await simulation.open(15, None)
        await simulation.finish()
        assert view.looks == 0
        await simulation.step("publish", 20)
        await archived(simulation, 40)
        await simulation.open(1, None)
        await simulation.finish()
        assert view.looks == 1


async def test_reads_are_counted_by_tier() -> None:
    """Memory, log and lake are distinguished."""
    metrics = Metrics(Cells.private(), version="1", backend="jetstream")
    async with simulated(shelved(), recent_bytes=1700) as simulation:
        simulation.world.sources.history._metrics = metrics  # type: ignore[attr-defined]
        for through in (6, 12):
            await simulation.step("publish", 6)
            await archived(simulation, through)
        await simulation.world.settle()
        await simulation.open(1, None)
        await simulation.finish()
    page = shown(metrics)
    found = {
        tier: page.value("aviso_history_reads_total", tier=tier)
        for tier in ("lake", "log", "memory")
    }
    assert found == {"lake": 3, "log": 2, "memory": 1}


async def test_a_live_watch_does_not_look_at_the_archive() -> None:
    """Nor does history that the log has."""
    async with simulated(shelved(), recent_bytes=1) as simulation:
        view = simulation.archives.here
        assert isinstance(view, PlainLake)
        await simulation.step("publish", 4)
        reader = await simulation.world.watch(from_id="2")
        await reader.until_count(3)
        await simulation.step("publish", 1)
        await reader.until_count(4)
        assert view.looks == 0


# What feeds say of it


def gaps(reader: Reader) -> list[tuple[int, int]]:
    """The gap signals of a stream."""
    return [
        (event.data["requested_sequence"], event.data["first_available_sequence"])
        for event in reader.events
        if event.kind == "history_gap"
    ]


@asynccontextmanager
async def torn() -> AsyncIterator[Simulation]:
    """An archive of 5..10 and 13..14, a log of 19..24: 1..4, 11..12 and 15..18 are lost."""
    async with simulated(shelved(), recent_bytes=1) as simulation:
        await simulation.step("publish", 10)
        await simulation.step("fetch", 6)
        await simulation.step("commit", 0)
        await simulation.step("publish", 8)
        await simulation.step("fetch", 2)
        await simulation.step("commit", 0)
        await simulation.step("publish", 6)
        yield simulation


@pytest.mark.parametrize(
    ("start", "expected", "first"),
    [
        ({"from_id": "0"}, [(11, 13), (15, 19)], 5),
        ({"from_id": "1"}, [(1, 5), (11, 13), (15, 19)], 5),
        ({"from_id": "5"}, [(11, 13), (15, 19)], 5),
        ({"from_id": "12"}, [(12, 13), (15, 19)], 13),
        ({"from_id": "14", "to_id": "14"}, [], 14),
        ({"from_id": "14", "to_id": "15"}, [(15, 19)], 14),
        ({"from_id": "16"}, [(16, 19)], 19),
        ({"from_id": "19"}, [], 19),
        ({"from_date": "2026-03-04T09:00:00Z"}, [(11, 13), (15, 19)], 5),
    ],
)
async def test_gaps_are_signalled_where_they_are(
    start: dict[str, str], expected: list[tuple[int, int]], first: int
) -> None:
    """Before the first notification that follows, and nowhere else."""
    async with torn() as simulation:
        reader = await simulation.world.replayed(**start)
        assert gaps(reader) == expected
        assert reader.sequences[0] == first
        for before, after in zip(reader.events, reader.events[1:], strict=False):
            if before.kind == "history_gap" and after.kind == "replay":
                assert after.data["sequence"] == before.data["first_available_sequence"]
        assert reader.kinds[-2:] == ["replay_completed", "end_of_stream"]


async def test_gaps_do_not_depend_on_filters() -> None:
    """A reader of another region is told as well."""
    async with torn() as simulation:
        reader = await simulation.world.replayed({"region": "nowhere"}, from_id="1")
        assert gaps(reader) == [(1, 5), (11, 13), (15, 19)]
        assert reader.sequences == []


async def test_a_watch_beats_after_a_first_gap() -> None:
    """The signal directly follows ``replay_started`` (9.2)."""
    async with torn() as simulation:
        reader = await simulation.world.watch(from_id="1")
        await reader.until(lambda r: "replay_completed" in r.kinds)
        assert reader.kinds[:4] == ["replay_started", "history_gap", "heartbeat", "replay"]


async def test_a_slow_reader_catches_up_through_the_archive() -> None:
    """What the log trimmed meanwhile comes from the archive, as live notifications."""
    async with simulated(shelved(), recent_bytes=1) as simulation:
        reader = await simulation.world.watch(stalled=True)
        for count in range(0, 1200, 4):
            await simulation.step("publish", 4)
            await simulation.world.settle(3)
            await archived(simulation, count + 4)
        reader.open.set()
        await reader.until_count(1200)
        assert reader.sequences == list(range(1, 1201))
        assert set(reader.kinds[2:]) == {"live-notification"}


async def test_a_slow_reader_is_not_left_with_a_gap() -> None:
    """What no tier has any more ends its stream with an error."""
    async with simulated(shelved(), recent_bytes=1) as simulation:
        reader = await simulation.world.watch(stalled=True)
        for _ in range(300):
            await simulation.step("publish", 4)
            await simulation.world.settle(3)
        reader.open.set()
        await reader.end()
        assert reader.kinds[-2:] == ["error", "end_of_stream"]
        assert gaps(reader) == []
