"""The newest part of a stream in memory, and the tiers joined by sequence."""

from hypothesis import given
from hypothesis import strategies as st
from support.faults import FaultyBackend
from support.relay import relay

from aviso_server.backends.backend import Bounds
from aviso_server.core import footprint
from aviso_server.core.geometry import Cloud
from aviso_server.core.notification import Notification, Record
from aviso_server.relay.hub import Keep
from aviso_server.relay.recent import Recent, Room


def record(sequence: int, size: int = 1) -> Record:
    """A record with a payload of that size."""
    return Record(sequence, 0, Notification("ev", ("ev",), {}, None, b"x" * size))


def read(recent: Recent, first: int, last: int, limit: int = 3) -> list[int]:
    """Read a range the way a feed does."""
    found: list[int] = []
    while first <= last:
        batch = recent.read(first, last, limit=limit)
        assert batch.following > first
        found += [entry.sequence for entry in batch.entries]
        first = batch.following
    return found


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=40),
    st.integers(600, 20_000),
    st.integers(1, 5),
)
def test_a_span_holds_everything_it_claims(gaps: list[int], room: int, limit: int) -> None:
    """Between first and last nothing that was added is missing, and the bytes are bounded."""
    recent = Recent(Bounds(1, 10), room)
    added: list[int] = []
    sequence = 10
    for gap in gaps:
        sequence += gap
        added.append(sequence)
        recent.add([record(sequence)])
        assert recent._bytes <= room
        held = [s for s in added if recent.first <= s]
        assert read(recent, recent.first, recent.last, limit) == held
        assert recent.last == sequence


def test_places_count_towards_the_bytes() -> None:
    """A cloud takes far more memory than the texts beside it, and the span is bounded by it."""
    recent = Recent(Bounds(1, 0), 1_000_000)
    points = tuple((float(n % 90), float(n % 180)) for n in range(1000))
    for sequence in range(1, 101):
        item = Notification("ev", ("ev",), {}, Cloud(points), b"null")
        recent.add([Record(sequence, 0, item)])
    assert len(read(recent, recent.first, recent.last)) < 10


def test_all_spans_share_one_room() -> None:
    """Over what all may take, the stream that was not read for the longest time gives way."""
    cost = footprint.of_entry(record(1))
    room = Room(10 * cost)
    old, new, newest = (Recent(Bounds(1, 0), 10 * cost, room) for _ in range(3))
    for sequence in range(1, 5):
        old.add([record(sequence)])
        new.add([record(sequence)])
    assert (old.first, new.first) == (1, 1)
    old.read(1, 4, limit=10)
    newest.add([record(sequence) for sequence in range(1, 5)])
    assert (new.first, old.first, newest.first) == (3, 1, 1)
    assert read(new, 3, 4) == [3, 4], "and the read above has made it younger"
    assert read(newest, 1, 4) == [1, 2, 3, 4]
    newest.add([record(sequence) for sequence in range(5, 8)])
    assert (new.first, old.first, newest.first) == (3, 4, 1)
    assert room.total_bytes == 10 * cost
    for span in (old, new, newest):
        span.close()
    assert room.total_bytes == 0


async def test_a_stream_that_nobody_watches_gives_its_room_back() -> None:
    """What is not followed is not held, however many event types come and go."""
    async with relay(keep=Keep(recent_bytes=1_000_000)) as world:
        watcher = await world.watch()
        await world.publish()
        await watcher.until_sequence(1)
        assert world.sources.hub._room.total_bytes > 0
        watcher.feed.close()
        assert world.sources.hub._room.total_bytes == 0


def test_a_deletion_elsewhere_empties_the_span() -> None:
    """When the store has another number of holes, what is held may be stale and is let go."""
    recent = Recent(Bounds(1, 0), 10_000)
    recent.add([record(1), record(2), record(3)])
    recent.agree(Bounds(1, 3, deleted=1))
    assert recent.first == 4
    recent.add([record(4)])
    assert read(recent, recent.first, recent.last) == [4]


def test_a_hole_that_fell_off_hides_no_deletion() -> None:
    """The same number of holes after the beginning moved: one may be new, so nothing is kept."""
    recent = Recent(Bounds(1, 2, deleted=1), 10_000)
    recent.add([record(3), record(4)])
    recent.agree(Bounds(3, 5, deleted=1))  # 1 and 2 are gone as a whole, and now 4 as well
    assert recent.first == 6  # 5 is still to come and may be the one


def test_retention_and_wipes_move_the_bottom() -> None:
    """What the store no longer has is not served from memory either."""
    recent = Recent(Bounds(1, 0), 10_000)
    recent.add([record(1), record(2), record(3)])
    recent.agree(Bounds(3, 3, lost=2))
    assert (recent.first, read(recent, 3, 3)) == (3, [3])
    recent.agree(Bounds(4, 3))
    assert recent.first == 4


async def test_recent_history_does_not_touch_the_store() -> None:
    """Reconnects and short replays come from memory: reads may fail and nobody notices."""
    backend = FaultyBackend()
    keep = Keep(recent_bytes=1_000_000, always=frozenset({"ev"}))
    async with relay(backend, keep=keep, batch_size=3) as world:
        await world.publish(count=3)
        first = await world.watch()
        await world.publish(count=10)
        await first.until_sequence(13)
        first.feed.close()
        backend.fail_reads_from = 4
        again = await world.watch(from_id="4")
        await world.publish()
        await again.until_sequence(14)
        assert again.sequences == list(range(4, 15))
        deep = await world.watch(from_id="1")
        await deep.until_sequence(14)
        assert deep.sequences == list(range(1, 15))


def test_what_was_deleted_before_the_tail_brought_it_is_not_held() -> None:
    """The tail may be behind the store; the holes it has already cannot be told from new ones."""
    recent = Recent(Bounds(1, 10), 1_000_000)
    recent.add([record(11)])
    recent.agree(Bounds(1, 13, deleted=1))
    recent.add([record(12), record(13), record(14)])
    assert (recent.first, recent.last) == (14, 14)
    assert read(recent, 14, 14) == [14]


def test_what_was_wiped_before_the_tail_brought_it_is_not_held() -> None:
    """A wipe leaves no holes to count: the log begins above what the tail has yet to bring."""
    recent = Recent(Bounds(1, 0), 10_000)
    recent.add([record(n) for n in range(1, 8)])
    recent.agree(Bounds(12, 11))
    recent.add([record(n) for n in range(8, 13)])
    assert (recent.first, recent.last) == (12, 12)
    assert read(recent, 12, 12) == [12]
