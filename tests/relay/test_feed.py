"""Feeds: history, the boundary, live, and every way a stream ends."""

import asyncio
from dataclasses import replace

import pytest
from support.faults import AWAY, FaultyBackend
from support.relay import NOW_NS, asked, relay

from aviso_server.backends.memory.backend import MemoryBackend, MemoryLimits
from aviso_server.core.cloudevent import Renderer
from aviso_server.core.errors import LiveFailed, SetupFailed
from aviso_server.core.notification import Record
from aviso_server.core.operation import Operation
from aviso_server.relay.hub import Recovery
from aviso_server.relay.render import PIECE_BYTES


def memory(**limits: int) -> MemoryBackend:
    """A memory backend with limits."""
    return MemoryBackend(MemoryLimits(**limits), now_ns=lambda: NOW_NS)


async def test_live_only_opens_at_once_and_excludes_the_past() -> None:
    """A watch without a start delivers exactly what is published after it was set up."""
    async with relay() as world:
        await world.publish()
        reader = await world.watch()
        await world.publish()
        await reader.until_sequence(2)
        assert reader.kinds == ["connection_established", "heartbeat", "live-notification"]
        assert reader.sequences == [2]
        assert reader.events[0].data["connection_will_close_in_seconds"] == 3600


@pytest.mark.parametrize("start", [{"from_id": "9"}, {"from_date": "2126-01-01T00:00:00Z"}])
async def test_a_start_beyond_the_end_is_empty(start: dict[str, str]) -> None:
    """An empty replay completes, and a watch then still goes live."""
    async with relay() as world:
        await world.publish()
        replayed = await world.replayed(**start)
        assert replayed.kinds == ["replay_started", "replay_completed", "end_of_stream"]
        watched = await world.watch(**start)
        await world.publish()
        await watched.until_sequence(2)
        assert watched.kinds == [
            "replay_started",
            "heartbeat",
            "replay_completed",
            "live-notification",
        ]


async def test_history_is_not_lengthened_by_later_publishing() -> None:
    """What is published after H is live, even while history is still being read."""
    async with relay(batch_size=2) as world:
        await world.publish(count=5)
        reader = await world.watch(from_id="1", stalled=True)
        await world.publish(count=5)
        reader.open.set()
        await reader.until_sequence(10)
        assert reader.sequences == list(range(1, 11))
        assert reader.kinds.index("replay_completed") == 7
        assert reader.kinds.count("replay") == 5


async def test_a_deleted_boundary_does_not_hold_up_completion() -> None:
    """H may be deleted or filtered; an emptied stream still has its H."""
    async with relay() as world:
        await world.publish(count=3)
        await world.backend.delete("ev", 3)
        reader = await world.replayed(from_id="0")
        assert reader.sequences == [1, 2]
        await world.backend.wipe("ev")
        emptied = await world.replayed(from_id="0")
        assert emptied.kinds == ["replay_started", "replay_completed", "end_of_stream"]


@pytest.mark.parametrize("kind", ["watch", "replay"])
@pytest.mark.parametrize("batch_size", [1, 3, 100])
async def test_the_cap_looks_one_ahead(kind: str, batch_size: int) -> None:
    """N matches complete under a cap of n; n + 1 are cut, without completion or live."""
    async with relay(history_cap=3, batch_size=batch_size) as world:
        for region in "nsnsnss":
            await world.publish(region)
        exact = await getattr(world, kind)({"region": "n"}, from_id="1")
        await exact.until(lambda r: "replay_completed" in r.kinds)
        assert exact.sequences == [1, 3, 5]
        cut = await getattr(world, kind)({"region": "s"}, from_id="1")
        await cut.end()
        assert cut.sequences == [2, 4, 6]
        assert cut.kinds[-2:] == ["notification_replay_limit_reached", "end_of_stream"]
        assert "replay_completed" not in cut.kinds
        assert cut.events[-2].data["max_allowed"] == 3


async def test_a_window_of_exactly_the_cap_completes() -> None:
    """The end point bounds history before the cap does."""
    async with relay(history_cap=2) as world:
        await world.publish(count=5)
        reader = await world.replayed(from_id="2", to_id="3")
        assert reader.kinds[-2:] == ["replay_completed", "end_of_stream"]


async def test_a_gap_is_shown_to_watchers_too() -> None:
    """A start older than anything kept is announced, and the watch goes on."""
    async with relay(memory(max_messages=2)) as world:
        await world.publish("s", count=5)
        reader = await world.watch({"region": "n"}, from_id="2")
        await reader.until(lambda r: "replay_completed" in r.kinds)
        assert reader.kinds[:2] == ["replay_started", "history_gap"]


async def test_a_gap_after_a_wipe() -> None:
    """The signal follows a wipe too."""
    async with relay() as world:
        await world.publish(count=3)
        await world.backend.wipe("ev")
        reader = await world.replayed(from_id="1")
        assert reader.kinds == [
            "replay_started",
            "history_gap",
            "replay_completed",
            "end_of_stream",
        ]
        assert reader.events[1].data["first_available_sequence"] == 4


async def test_a_stalled_reader_loses_nothing() -> None:
    """A full queue sends the reader back to history; the switch is not visible."""
    async with relay(queue_size=3, batch_size=4) as world:
        reader = await world.watch({"region": "n"})
        await reader.until(lambda r: len(r.sent) == 2)
        reader.open.clear()
        for number in range(40):
            await world.publish("n" if number % 2 else "s")
            await world.settle(2)
        reader.open.set()
        await world.publish("n")
        await reader.until_sequence(41)
        assert reader.sequences == [*range(2, 41, 2), 41]
        assert set(reader.kinds[2:]) == {"live-notification"}


async def test_a_reader_left_behind_joins_again_without_the_store() -> None:
    """The hub knows where it is, so a store that is away ends no catching up."""
    backend = FaultyBackend()
    async with relay(backend, queue_size=3) as world:
        reader = await world.left_behind(20)
        backend.failures["bounds"] = AWAY
        reader.open.set()
        await world.publish()
        await reader.until_sequence(21)
        assert reader.sequences == list(range(1, 22))


async def test_a_reader_left_behind_by_a_late_hub_keeps_its_boundary() -> None:
    """The hub may still be below H when a reader joins again; that part is not live for it."""
    backend = FaultyBackend()
    backend.meter = asyncio.Semaphore(0)
    async with relay(backend, queue_size=1) as world:
        early = await world.watch()
        await world.publish(count=5)
        late = await world.watch()  # H is 5, the hub is at 0
        await late.until(lambda r: len(r.sent) == 2)
        for _ in range(2):
            backend.meter.release()  # the second one finds the queues full
        await world.settle()
        await world.publish()
        for _ in range(4):
            backend.meter.release()
        await early.until_sequence(6)
        await late.until_sequence(6)
        assert (early.sequences, late.sequences) == ([1, 2, 3, 4, 5, 6], [6])


async def test_a_stalled_reader_holds_a_bounded_queue() -> None:
    """While a reader is stalled its subscription keeps at most the queue."""
    async with relay(queue_size=5) as world:
        reader = await world.watch()
        await reader.until(lambda r: len(r.sent) == 2)
        reader.open.clear()
        subscription = reader.feed._subscription
        assert subscription is not None
        for _ in range(100):
            await world.publish()
            await world.settle(2)
            assert subscription._queued <= 5
        assert subscription.resume_at is not None


async def test_history_is_written_in_bounded_pieces() -> None:
    """A batch of large notifications is not rendered for a reader that takes none of it."""
    async with relay(batch_size=100) as world:
        await world.publish(payload="x" * 100_000, count=40)
        reader = await world.replayed(from_id="1")
        assert reader.sequences == list(range(1, 41))
        assert max(map(len, reader.sent)) < PIECE_BYTES + 101_000


async def test_a_stalled_reader_whose_history_is_gone_is_told() -> None:
    """Nothing is dropped silently; the stream ends with an error."""
    async with relay(memory(max_messages=5), queue_size=2) as world:
        reader = await world.left_behind(30)
        reader.open.set()
        await reader.end()
        assert reader.kinds[-2:] == ["error", "end_of_stream"]
        assert reader.events[-2].data["error"] == "stream_processing_failed"
        assert reader.sequences == list(range(1, len(reader.sequences) + 1))


async def test_a_wipe_under_a_stalled_reader_is_no_loss() -> None:
    """Running watches go on; what was wiped is deliberately gone."""
    async with relay(queue_size=2) as world:
        reader = await world.left_behind(10)
        await world.backend.wipe("ev")
        reader.open.set()
        await world.publish()
        await reader.until_sequence(11)
        assert reader.kinds[-1] == "live-notification"
        assert reader.sequences == sorted(set(reader.sequences))


async def test_retention_overtaking_a_replay_is_a_failure() -> None:
    """History that vanishes under a replay gives an error, never a false completion."""
    async with relay(memory(max_messages=20), batch_size=2) as world:
        await world.publish(count=20)
        reader = await world.replay(from_id="1")
        await reader.until_sequence(2)
        reader.open.clear()
        await world.publish(count=15)
        reader.open.set()
        await reader.end()
        assert reader.kinds[-2:] == ["error", "end_of_stream"]
        assert "replay_completed" not in reader.kinds


async def test_a_history_failure_is_an_error() -> None:
    """One error event, then end_of_stream, on watch and replay."""
    backend = FaultyBackend()
    async with relay(backend, batch_size=1) as world:
        await world.publish(count=3)
        for kind in (world.watch, world.replay):
            backend.fail_reads_from = 2
            reader = await kind(from_id="1")
            await reader.end()
            assert reader.sequences == [1]
            assert reader.kinds[-2:] == ["error", "end_of_stream"]
            assert "replay_completed" not in reader.kinds


async def test_a_store_that_comes_back_is_read_on() -> None:
    """A passing failure is waited out: the stream goes on where it was, with heartbeats."""
    backend = FaultyBackend()
    async with relay(
        backend, batch_size=1, read_attempts=1000, read_delay_s=0.0001, heartbeat_s=0.01
    ) as world:
        await world.publish(count=3)
        backend.fail_reads_from = 2
        reader = await world.watch(from_id="1")
        await reader.until(lambda r: r.kinds.count("heartbeat") >= 3)
        assert reader.sequences == [1]
        backend.fail_reads_from = None
        await world.publish()
        await reader.until_sequence(4)
        assert reader.sequences == [1, 2, 3, 4]
        assert "error" not in reader.kinds


async def test_set_up_failures_are_raised_before_anything_is_sent() -> None:
    """A store that does not answer is SetupFailed, and nothing leaks."""
    backend = FaultyBackend()
    async with relay(backend) as world:
        backend.failures["bounds"] = AWAY
        for kind in (world.watch, world.replay):
            with pytest.raises(SetupFailed, match="Failed to create stream consumer"):
                await kind(from_id="1")
        backend.failures.clear()
        reader = await world.watch()
        await world.publish()
        await reader.until_sequence(1)


async def test_an_unreadable_record_is_reported_in_place() -> None:
    """One error frame stands in its place, uncounted, and the stream goes on."""
    backend = FaultyBackend()
    async with relay(backend, history_cap=3) as world:
        backend.unreadable = (2, 5)
        live = await world.watch()
        await world.publish(count=3)
        replayed = await world.watch(from_id="1")
        await world.publish(count=3)
        for reader in (live, replayed):
            await reader.until_sequence(6)
            assert reader.sequences == [1, 3, 4, 6]
            errors = [e for e in reader.events if e.name == "error"]
            assert [e.data["sequence"] for e in errors] == [2, 5]
            assert errors[0].data["error"] == "CloudEvent creation failed"
        assert replayed.kinds.count("replay") == 2


async def test_a_record_that_cannot_be_rendered_ends_nobody() -> None:
    """One bad record is one error frame, live and in history; the tail lives on."""

    class Picky(Renderer):
        """Fails on one record: stands for stored data that our own code cannot show."""

        def render(self, record: Record) -> bytes:
            if record.sequence == 2:
                raise ValueError("unshowable")
            return super().render(record)

    async with relay(renderer=Picky("http://localhost:8000")) as world:
        live = await world.watch()
        await world.publish(count=3)
        replayed = await world.watch(from_id="1")
        for reader in (live, replayed):
            await reader.until_sequence(3)
            assert reader.sequences == [1, 3]
            (error,) = [event for event in reader.events if event.name == "error"]
            assert error.data["sequence"] == 2
            assert error.data["error"] == "CloudEvent creation failed"


async def test_a_lost_tail_is_recreated() -> None:
    """A live source that dies goes on from the last sequence + 1: no gap, no duplicate."""
    backend = FaultyBackend()
    async with relay(backend, recovery=Recovery(attempts=5, delay_s=0)) as world:
        reader = await world.watch()
        for number in range(30):
            await world.publish()
            if number % 7 == 3:
                backend.break_tails()
            await world.settle(3)
        await reader.until_sequence(30)
        assert reader.sequences == list(range(1, 31))


async def test_a_tail_that_stays_down_ends_its_streams() -> None:
    """After the last attempt every watcher gets an error and end_of_stream."""
    backend = FaultyBackend()
    async with relay(backend, recovery=Recovery(attempts=3, delay_s=0)) as world:
        readers = [await world.watch(), await world.watch({"region": "n"})]
        await world.publish()
        for reader in readers:
            await reader.until_sequence(1)
        backend.failures["tail"] = LiveFailed("the store is away")
        backend.break_tails()
        for reader in readers:
            await reader.end()
            assert reader.kinds[-2:] == ["error", "end_of_stream"]
        backend.failures.clear()
        again = await world.watch()
        await world.publish()
        await again.until_sequence(2)


async def test_max_duration_ends_a_watch() -> None:
    """Max_duration_reached on a watch, even in its replay phase."""
    async with relay(max_duration_s=0.05) as world:
        await world.publish()
        stalled = await world.watch(from_id="1", stalled=True)
        await asyncio.sleep(0.06)
        stalled.open.set()
        await stalled.end()
        assert stalled.kinds[0] == "replay_started"
        assert stalled.kinds[-1] == "max_duration_reached"
        assert "replay_completed" not in stalled.kinds


async def test_token_expiry_ends_watch_and_replay() -> None:
    """No stream outlives its token, and the opening frame says so."""
    backend = FaultyBackend()
    async with relay(backend) as world:
        await world.publish()
        watch = await world.watch(expires_at_ns=NOW_NS + 50_000_000)
        assert (await watch.end())[-1].kind == "max_duration_reached"
        assert watch.events[0].data["connection_will_close_in_seconds"] == 0
        backend.hanging.add("read")
        replay = await world.replay(from_id="1", expires_at_ns=NOW_NS + 50_000_000)
        assert (await replay.end())[-1].kind == "max_duration_reached"


@pytest.mark.parametrize("start", [{}, {"from_id": "1"}])
async def test_shutdown_ends_every_stream(start: dict[str, str]) -> None:
    """Server_shutdown live, in history and at the opening; nothing is flushed."""
    backend = FaultyBackend()
    async with relay(backend) as world:
        await world.publish()
        reader = await world.watch(**start)
        await reader.until(lambda r: "heartbeat" in r.kinds)
        backend.hanging.add("read")
        reading = await world.replay(from_id="1")
        await reading.until(lambda r: len(r.sent) == 1)
        world.sources.stop.request()
        assert (await reader.end())[-1].kind == "server_shutdown"
        await reading.end()
        assert reading.kinds == ["replay_started", "server_shutdown"]
        late = await world.watch()
        await late.end()
        assert late.kinds == ["connection_established", "server_shutdown"]


async def test_heartbeats_on_both_kinds_never_in_a_burst() -> None:
    """By the clock, on replay too; a blocked reader gets one late heartbeat."""
    backend = FaultyBackend()
    async with relay(backend, heartbeat_s=0.02) as world:
        await world.publish()
        watch = await world.watch()
        await watch.until(lambda r: r.kinds.count("heartbeat") >= 3)
        backend.hanging.add("read")
        replay = await world.replay(from_id="1")
        await replay.until(lambda r: r.kinds.count("heartbeat") >= 2)
        assert set(replay.kinds) == {"replay_started", "heartbeat"}
        watch.open.clear()
        seen = len(watch.sent)
        await asyncio.sleep(0.2)  # ten are due
        opened = asyncio.get_running_loop().time()
        watch.open.set()
        await world.settle(3)
        # One was in the reader's hands when it stalled, and one is late. Those that fell due since
        # are as many as the machine took time.
        since = (asyncio.get_running_loop().time() - opened) / 0.02
        assert len(watch.sent) - seen <= 3 + since
        backend.free.set()
        await replay.end()


async def test_batch_delay_pauses_between_batches() -> None:
    """Replay_batch_delay_ms > 0 pauses, and everything still arrives."""
    async with relay(batch_size=1, batch_delay_s=0.01) as world:
        await world.publish(count=3)
        reader = await world.replayed(from_id="1")
        assert reader.sequences == [1, 2, 3]


async def test_leaving_frees_the_subscription() -> None:
    """A feed that is left takes its subscription and the idle tail with it."""
    async with relay() as world:
        reader = await world.watch()
        assert world.sources.hub._streams
        reader.feed.close()
        assert not world.sources.hub._streams


async def test_schema_cap_wins() -> None:
    """A schema may override the cap."""
    async with relay(history_cap=1) as world:
        await world.publish()
        await world.publish()
        query = asked(Operation.REPLAY, from_id="1")
        generous = replace(query, schema=replace(query.schema, history_cap=2))
        reader = await world.open(generous)
        await reader.end()
        assert reader.sequences == [1, 2]
        assert reader.kinds[-2] == "replay_completed"
