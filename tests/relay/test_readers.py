"""Reads of history: few at a time, and callers take turns by what they have cost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.faults import FaultyBackend
from support.relay import Relay, asked, relay

from aviso_server.core.operation import Operation
from aviso_server.relay.hub import Keep
from aviso_server.relay.readers import Caller, Readers

ALICE: Caller = ("user", "alice")
BOB: Caller = ("user", "bob")


class Library:
    """Readers whose reads last until the test ends them."""

    def __init__(self, limit: int) -> None:
        self.readers = Readers(limit)
        self.served: list[Caller] = []
        """Whose reads began, in order."""
        self._open: list[asyncio.Event] = []
        self._tasks: asyncio.TaskGroup

    @asynccontextmanager
    async def visit(self) -> AsyncIterator["Library"]:
        """Run reads until the block ends."""
        async with asyncio.timeout(20), asyncio.TaskGroup() as self._tasks:
            yield self
            await settled()
            while self.readers.active:
                await self.end_one()

    def read(self, caller: Caller, *, passed: int = 0, again: int = 0) -> asyncio.Task[None]:
        """A stream that reads some batches, each of which leaves so many entries out."""

        async def run() -> None:
            for _ in range(1 + again):
                async with self.readers.turn(caller):
                    self.served.append(caller)
                    ended = asyncio.Event()
                    self._open.append(ended)
                    await ended.wait()
                self.readers.charge(caller, passed)

        return self._tasks.create_task(run())

    async def end_one(self) -> None:
        """Let the oldest read end, and everybody move."""
        if self._open:
            self._open.pop(0).set()
        await settled()


async def settled() -> None:
    """Let everything that can move, move."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_only_so_many_at_a_time() -> None:
    """Of many reads the limit is under way, whoever asks; the others wait and are counted."""
    async with Library(3).visit() as library:
        for number in range(10):
            library.read(("user", str(number)))
        await settled()
        assert (library.readers.active, library.readers.waiting) == (3, 7)
        await library.end_one()
        assert (library.readers.active, library.readers.waiting) == (3, 6)


async def test_no_limit() -> None:
    """0 lets everybody read at once."""
    async with Library(0).visit() as library:
        for _ in range(50):
            library.read(ALICE)
        await settled()
        assert (library.readers.active, library.readers.waiting) == (50, 0)


async def test_callers_take_turns() -> None:
    """One with many streams does not hold up one with a single stream."""
    async with Library(1).visit() as library:
        for _ in range(50):
            library.read(ALICE)
        await settled()
        library.read(BOB, again=2)
        await settled()
        for _ in range(7):
            await library.end_one()
        assert library.served[:7].count(BOB) == 3


async def test_scanning_for_nothing_yields_to_those_who_find() -> None:
    """Entries that a filter left out count: another's batches come first until they are even."""
    async with Library(1).visit() as library:
        library.read(ALICE, passed=250, again=9)
        for _ in range(3):
            library.read(BOB, again=9)
        await settled()
        for _ in range(23):
            await library.end_one()
        assert library.served[:22].count(ALICE) == 1


async def test_nobody_starves() -> None:
    """However much a caller has cost, its turn comes while others go on reading."""
    async with Library(1).visit() as library:
        library.read(ALICE, passed=20, again=1)
        for _ in range(3):
            library.read(BOB, again=100)
        await settled()
        for _ in range(30):
            await library.end_one()
        assert library.served[:30].count(ALICE) == 2


async def test_debts_end_with_the_rush() -> None:
    """When nobody reads any more, everybody starts afresh and nothing is remembered."""
    async with Library(1).visit() as library:
        library.read(ALICE, passed=1_000_000)
        await settled()
        await library.end_one()
        library.read(BOB)
        library.read(ALICE)
        await settled()
        await library.end_one()
        await library.end_one()
    assert library.served == [ALICE, BOB, ALICE]
    assert not library.readers._accounts


@given(
    st.integers(1, 3),
    st.lists(st.sampled_from(["alice", "bob", "cancel", "end"]), min_size=1, max_size=40),
)
async def test_places_are_never_lost(limit: int, drawn: list[str]) -> None:
    """Whatever is cancelled, waiting or reading, all places are free in the end."""
    async with Library(limit).visit() as library:
        tasks: list[asyncio.Task[None]] = []
        for action in drawn:
            if action == "cancel" and tasks:
                tasks.pop(len(tasks) // 2).cancel()
            elif action == "end":
                await library.end_one()
            else:
                tasks.append(library.read(("user", action)))
            if len(tasks) % 2:
                await settled()
            assert library.readers.active <= limit
    assert (library.readers.active, library.readers.waiting) == (0, 0)
    assert not library.readers._accounts


@asynccontextmanager
async def held_up(*, heartbeat_s: float = 30) -> AsyncIterator[tuple[Relay, asyncio.Event]]:
    """A relay with a place for one read, on a store whose reads wait for the event."""
    store = FaultyBackend()
    store.hanging.add("read")
    async with relay(store, readers=Readers(1), heartbeat_s=heartbeat_s) as world:
        await world.publish()
        yield world, store.free


async def test_heartbeats_go_on_while_a_stream_waits_for_its_turn() -> None:
    """A stream in the queue is as alive as any other, and is served when its turn comes."""
    async with held_up(heartbeat_s=0.01) as (world, go_on):
        first, second = await world.replay(from_id="1"), await world.replay(from_id="1")
        await second.until(lambda reader: reader.kinds.count("heartbeat") >= 2)
        assert world.sources.readers.waiting == 1
        go_on.set()
        for reader in (first, second):
            await reader.end()
            assert reader.sequences == [1]


async def test_a_client_that_leaves_frees_its_place() -> None:
    """A stream that ends while it waits or reads makes room for the next."""
    async with held_up() as (world, go_on):
        readers = [await world.replay(from_id="1") for _ in range(3)]
        await world.settle()
        for reader in readers[:2]:
            assert reader.task is not None
            reader.task.cancel()
            reader.feed.close()
        go_on.set()
        await readers[2].end()
        assert readers[2].sequences == [1]


async def test_what_is_in_memory_needs_no_turn() -> None:
    """The newest part of a stream is read at once, though all places are taken."""
    async with relay(readers=Readers(1), keep=Keep(recent_bytes=1_000_000)) as world:
        watcher = await world.watch()
        await world.publish()
        await watcher.until_sequence(1)
        async with world.sources.readers.turn(BOB):
            reader = await world.replayed(from_id="1")
            assert reader.sequences == [1]


@pytest.mark.parametrize(("region", "cost"), [("zz", 5), ("n", 0)])
async def test_what_a_filter_leaves_out_is_charged(region: str, cost: int) -> None:
    """A replay that matches nothing costs its caller every entry that was read for it."""
    async with relay(readers=Readers(2)) as world:
        await world.publish(count=5)
        async with world.sources.readers.turn(BOB):  # while somebody reads, accounts are kept
            asking = asked(Operation.REPLAY, {"region": region}, from_id="1")
            await (await world.open(replace(asking, caller=ALICE))).end()
            assert world.sources.readers._accounts[ALICE].spent == 1 + cost


async def test_strangers_are_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a rush without end only so many callers are known, and those who wait always are."""
    monkeypatch.setattr("aviso_server.relay.readers.MAX_ACCOUNTS", 5)
    async with Library(1).visit() as library:
        library.read(ALICE)
        await settled()
        for number in range(20):
            waiting = library.read(("address", str(number)))
            await settled()
            if number % 2:
                waiting.cancel()
                await library.end_one()
            assert len(library.readers._accounts) <= 20
        assert library.readers.waiting <= len(library.readers._accounts)
