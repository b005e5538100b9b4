"""The lake as a whole: what it shows is what was archived and is not hidden, in order, once."""

import asyncio
import random
import shutil
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st
from support.draws import filters, notifications
from support.fuzz import examples
from support.lake import BEGIN_NS, everything, filled, record

from aviso_server.core.errors import HistoryFailed
from aviso_server.core.filter import Filter
from aviso_server.core.notification import Entry, Notification, Record, Unreadable
from aviso_server.lake import files, reader
from aviso_server.lake.bounds import LakeBatch, LakeBounds
from aviso_server.lake.commit import commit
from aviso_server.lake.deadletters import append_dead_letters
from aviso_server.lake.files import FileWriter
from aviso_server.lake.lake import Lake
from aviso_server.lake.layout import (
    DEAD_LETTER_TABLE,
    DELETED,
    LOST,
    NOTIFICATIONS,
    WIPED,
    Place,
)
from aviso_server.lake.record import records_to_batch
from aviso_server.lake.tombstones import append_tombstones

HOUR_NS = 3_600_000_000_000


def letters(items: Sequence[Unreadable], event_type: str = "mixed") -> pa.Table:
    """Rows of the dead letter table."""
    rows = [
        {
            "event_type": event_type,
            "sequence": item.sequence,
            "time": item.stored_at_ns // 1000,
            "time_ns": item.stored_at_ns,
            "subject": item.topic,
            "problem": item.reason,
            "raw": b"{}",
        }
        for item in items
    ]
    return pa.Table.from_pylist(rows, DEAD_LETTER_TABLE)


@pytest.fixture
async def lake(place: Place) -> AsyncIterator[Lake]:
    """The lake there, read afresh for every question."""
    opened = Lake(place, refresh_s=0)
    yield opened
    await opened.close()


@dataclass
class Model:
    """What the lake should show of one event type."""

    entries: list[Entry] = field(default_factory=list)
    through: int = 0
    hidden: set[int] = field(default_factory=set)

    def visible(self) -> list[Entry]:
        """Entries that are not hidden, ascending."""
        found = [e for e in self.entries if e.sequence not in self.hidden]
        return sorted(found, key=lambda entry: entry.sequence)


def grown(place: Place, model: Model, chance: random.Random, drawn: list[Notification]) -> None:
    """One more commit: some hours, holes, messages that could not be read."""
    records: list[Record] = []
    broken: list[Unreadable] = []
    ns = max((e.stored_at_ns for e in model.entries), default=BEGIN_NS)
    first = model.through + 1
    for sequence in range(first, first + chance.randint(1, 60)):
        ns += chance.choice([0, 1, HOUR_NS])
        kind = chance.random()
        if kind < 0.8:
            records.append(Record(sequence, ns, chance.choice(drawn)))
        elif kind < 0.9:
            broken.append(Unreadable(sequence, ns, "mixed.?", "broken"))
        model.through = sequence
    append_dead_letters(place, letters(broken))
    # Several writers at once make files that overlap.
    writers = [FileWriter(place) for _ in range(chance.randint(1, 3))]
    for item in records:
        chance.choice(writers).write(records_to_batch([item]))
    written = [item for writer in writers for item in writer.close()]
    commit(place, written, {"mixed": model.through})
    model.entries += [*records, *broken]


def write_dead_letters(place: Place, model: Model, chance: random.Random) -> None:
    """Some ranges are hidden, some of them again."""
    for _ in range(chance.randint(0, 4)):
        first = chance.randint(1, model.through + 5)
        last = first + chance.choice([0, 0, 1, 30])
        kind = chance.choice([DELETED, WIPED])
        append_tombstones(place, [("mixed", first, last)] * chance.randint(1, 2), kind=kind)
        model.hidden |= set(range(first, last + 1))


async def agreed(lake: Lake, model: Model, chance: random.Random, asked: Filter) -> None:
    """The lake says what the model says."""
    visible = model.visible()
    low = visible[0].sequence if visible else model.through + 1
    assert await lake.bounds("mixed", fresh=True) == LakeBounds(low, model.through)
    limit = chance.choice([1, 3, 17, 1000])
    assert await everything(lake, "mixed", limit=limit) == visible
    wanted = asked.select(visible)
    assert await everything(lake, "mixed", limit=limit, wanted=asked) == wanted
    first, last = sorted((chance.randint(0, model.through), chance.randint(0, model.through + 9)))
    some = [entry for entry in wanted if first <= entry.sequence <= last]
    found = await everything(lake, "mixed", span=(first, last), limit=limit, wanted=asked)
    assert found == some
    times = [e.stored_at_ns for e in model.entries]
    for ns in (chance.choice(times), chance.choice(times) + 1, BEGIN_NS - 1, max(times) + 1):
        since = [e.sequence for e in visible if e.stored_at_ns >= ns]
        until = [e.sequence for e in visible if e.stored_at_ns <= ns]
        assert await lake.first_since("mixed", ns) == min(since, default=None)
        assert await lake.last_until("mixed", ns) == max(until, default=None)


@pytest.mark.slow
@settings(max_examples=examples(8))
@given(
    st.randoms(use_true_random=False),
    st.lists(notifications(), min_size=4, max_size=4),
    filters(),
)
def test_it_shows_what_was_archived_and_is_not_hidden(
    tmp_path_factory: pytest.TempPathFactory,
    chance: random.Random,
    drawn: list[Notification],
    asked: Filter,
) -> None:
    """Whatever commits, deletions and filters there are, and however small the pieces."""
    place = Place(str(tmp_path_factory.mktemp("lake")))
    model = Model()

    async def check() -> None:
        lake = Lake(place, refresh_s=0, cache_bytes=chance.choice([0, 2000, 1 << 26]))
        for _ in range(chance.randint(1, 3)):
            grown(place, model, chance, drawn)
            filled(place, [record(n, "other") for n in range(1, 4)])
            write_dead_letters(place, model, chance)
            await agreed(lake, model, chance, asked)
        if chance.random() < 0.5:
            # Compaction by another order than ours: files and row groups overlap.
            columns = ["time", "min_lat"]
            DeltaTable(place.table(NOTIFICATIONS)).optimize.z_order(columns)
            await agreed(lake, model, chance, asked)
        await lake.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "ROWS_PER_GROUP", 7)
        patch.setattr(reader, "ROWS", 10)
        patch.setattr(reader, "CHUNK", 4)
        patch.setattr(reader, "FILES", 3)
        patch.setattr(reader, "BATCH_BYTES", 3000)
        asyncio.run(check())


async def test_an_empty_lake_has_nothing(lake: Lake) -> None:
    """Before the first commit every question has an answer."""
    assert await lake.bounds("mars") == LakeBounds(1, 0)
    assert await lake.read("mars", 1, 10, limit=5) == LakeBatch((), 1)
    assert await lake.first_since("mars", 0) is None
    assert await lake.last_until("mars", 2**62) is None
    assert await lake.event_types() == []


async def test_lost_ranges_are_reported_and_hide_nothing(lake: Lake, place: Place) -> None:
    """What the log trimmed before it was archived is in the extent."""
    append_tombstones(place, [("mars", 3, 4), ("mars", 5, 6), ("diss", 1, 1)], kind=LOST)
    filled(place, [record(n) for n in (1, 2, 7)])
    assert await lake.bounds("mars") == LakeBounds(1, 7, ((3, 6),))
    assert [e.sequence for e in await everything(lake, "mars", limit=9)] == [1, 2, 7]
    assert await lake.event_types() == ["mars"]


async def test_another_process_sees_what_was_hidden(lake: Lake, place: Place) -> None:
    """A fresh look sees tombstones that were written before it; an older one need not."""
    filled(place, [record(n) for n in (1, 2, 3)])
    other = Lake(place, refresh_s=3600)
    assert (await other.bounds("mars")).first == 1
    await lake.hide("mars", 1, 1, kind=DELETED)
    assert (await lake.bounds("mars")).first == 2
    assert (await other.bounds("mars")).first == 1
    assert (await other.bounds("mars", fresh=True)).first == 2
    await other.hide("mars", 1, 9, kind=WIPED)
    assert await other.bounds("mars") == LakeBounds(4, 3)
    await other.close()


async def test_looks_that_are_asked_for_together_are_shared(place: Place) -> None:
    """A crowd of readers does not read the table once for each."""
    filled(place, [record(1)])
    ticks = count(1)
    asked = threading.Event()

    def clock() -> float:
        """Each caller reads it once, and then a look, which waits here until all have asked."""
        if threading.current_thread() is not threading.main_thread():
            asked.wait()
        now = next(ticks)
        if now == 50:
            asked.set()
        return now

    lake = Lake(place, refresh_s=10, clock=clock)
    answers = await asyncio.gather(*(lake.bounds("mars", fresh=True) for _ in range(50)))
    assert set(answers) == {LakeBounds(1, 1)}
    assert next(ticks) == 50 + 1 + 1
    await lake.close()


async def test_nobody_waits_for_a_look_of_another(place: Place) -> None:
    """While one reader takes the next snapshot, the others have the one before."""
    filled(place, [record(1)])
    looking, done = threading.Event(), threading.Event()
    now = 0.0

    def clock() -> float:
        """Callers read it, and then a look, which stays here until the test is done."""
        if now and threading.current_thread() is not threading.main_thread():
            looking.set()
            done.wait()
        return now

    lake = Lake(place, refresh_s=1, clock=clock)
    assert (await lake.bounds("mars")).through == 1
    filled(place, [record(2)])
    now = 5.0
    first = asyncio.create_task(lake.bounds("mars"))
    await asyncio.to_thread(looking.wait)
    assert (await lake.bounds("mars")).through == 1
    done.set()
    assert (await first).through == 2
    assert (await lake.bounds("mars")).through == 2
    await lake.close()


async def test_files_that_vacuum_removed_are_read_anew(place: Place) -> None:
    """A reader whose view is older than a compaction looks again before it fails."""
    for n in range(1, 4):
        filled(place, [record(n)])
    lake = Lake(place, refresh_s=3600, cache_bytes=0)
    assert (await lake.bounds("mars")).through == 3
    table = DeltaTable(place.table(NOTIFICATIONS))
    table.optimize.compact()
    table.vacuum(0, enforce_retention_duration=False, dry_run=False)
    assert [e.sequence for e in await everything(lake, "mars", limit=2)] == [1, 2, 3]
    await lake.close()


def _holding(place: Place, text: bytes) -> Path:
    """The file that has a text in it."""
    (path,) = (p for p in Path(place.path).rglob("*.parquet") if text in p.read_bytes())
    return path


async def test_a_torn_file_is_named(lake: Lake, place: Place) -> None:
    """Damage is reported, never skipped."""
    filled(place, [record(1)])
    filled(place, [record(2)])
    path = _holding(place, b"mars@1")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(HistoryFailed) as failure:
        await everything(lake, "mars", limit=9)
    assert path.name in failure.value.details
    path.unlink()
    with pytest.raises(HistoryFailed) as failure:
        await everything(lake, "mars", limit=9)
    assert path.name in failure.value.details


async def test_names_of_any_kind_survive_a_compaction(lake: Lake, place: Place) -> None:
    """Folders that other writers make for odd event types are found."""
    name = "été/../x y%"
    records = [record(n, name) for n in (1, 2)]
    for item in records:
        filled(place, [item])
    DeltaTable(place.table(NOTIFICATIONS)).optimize.compact()
    assert await everything(lake, name, limit=9) == records


async def test_dead_letters_beyond_memory_are_read_by_range(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many of them are no danger to the server's memory."""
    monkeypatch.setattr("aviso_server.lake.deadletters.MANY", 10)
    broken = [Unreadable(n, BEGIN_NS + n, "mars.?", "broken") for n in range(2, 22, 2)]
    more = [Unreadable(n, BEGIN_NS + n, "mars.?", "broken") for n in range(22, 30, 2)]
    lake = Lake(place, refresh_s=0)
    for some in (broken, more):
        append_dead_letters(place, letters(some, "mars"))
        filled(place, [], marks={"mars": some[-1].sequence + 1})
        assert (await lake.bounds("mars")).first == 2
    assert await everything(lake, "mars", limit=3) == [*broken, *more]
    assert await lake.last_until("mars", BEGIN_NS + 11) == 10
    await lake.close()


async def test_heavy_records_come_in_small_batches(
    lake: Lake, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch is bounded in bytes as well as in entries, and always gets on."""
    records = [record(n, identifier={"a": "x" * 900}) for n in range(1, 41)]
    filled(place, records)
    monkeypatch.setattr(reader, "BATCH_BYTES", 5000)
    piece = await lake.read("mars", 1, 40, limit=100)
    assert 1 <= len(piece.entries) <= 5
    assert piece.following == len(piece.entries) + 1
    assert await everything(lake, "mars") == records
    monkeypatch.setattr(reader, "BATCH_BYTES", 1)
    assert await everything(lake, "mars") == records


async def test_a_lake_that_is_away_is_not_an_empty_one(place: Place, tmp_path: Path) -> None:
    """A disk that is not mounted is an error, and none any more when it is back."""
    filled(place, [record(1), record(2)])
    lake = Lake(place, refresh_s=0)
    try:
        assert (await lake.bounds("mars", fresh=True)).through == 2
        away = tmp_path / "away"
        shutil.move(place.path, away)
        with pytest.raises(HistoryFailed) as failed:
            await lake.bounds("mars", fresh=True)
        assert "is gone" in str(failed.value.details)
        with pytest.raises(HistoryFailed):
            await lake.read("mars", 1, 2, limit=5)
        shutil.move(away, place.path)
        assert (await lake.bounds("mars", fresh=True)).through == 2
        assert len((await lake.read("mars", 1, 2, limit=5)).entries) == 2
    finally:
        await lake.close()
