"""Deletes and wipes where there is an archive behind the log."""

from collections.abc import Sequence

import pytest
from backends.contract import CATALOGUE, OPEN, append, notification
from support.faults import AWAY, FaultyBackend
from support.plainlake import PlainLake, PlainTable

from aviso_server.backends.memory.backend import MemoryBackend, MemoryLimits
from aviso_server.core.errors import NotFound
from aviso_server.core.notification import Record
from aviso_server.relay.admin import Administration, WipeFailed


class Busy(MemoryBackend):
    """A log to which others write between the look at it and its wipe."""

    async def wipe(self, event_type: str) -> int:
        for number in range(3):
            await self.append(notification(event_type=event_type), key=f"meanwhile-{number}")
        return await super().wipe(event_type)


async def archived(log: MemoryBackend, table: PlainTable, through: int) -> None:
    """Archive what the log has."""
    batch = await log.read("ev", 1, through, limit=100)
    await table.commit([e for e in batch.entries if isinstance(e, Record)], through)


def shown(table: PlainTable) -> Sequence[int]:
    """What is to be seen of the archive."""
    return [row.sequence for row in table.contents.shown]


async def test_a_delete_that_failed_is_completed_by_the_next() -> None:
    """It is hidden in the archive and still in the log: found, and removed there too."""
    log, table = FaultyBackend(), PlainTable()
    administration = Administration(log, OPEN, lake=PlainLake(table))
    await append(log, 3)
    await archived(log, table, 3)
    log.failures["delete"] = AWAY
    with pytest.raises(OSError, match="away"):
        await administration.delete("ev@2")
    assert shown(table) == [1, 3]
    log.failures.clear()
    assert await administration.delete("ev@2") == ("ev", 2)
    with pytest.raises(NotFound):
        await administration.delete("ev@2")


async def test_what_is_deleted_before_it_is_archived_stays_hidden() -> None:
    """The archive job may have read it already, and commits it later."""
    log, table = FaultyBackend(), PlainTable()
    await append(log, 3)
    batch = await log.read("ev", 1, 3, limit=3)
    await Administration(log, OPEN, lake=PlainLake(table)).delete("ev@2")
    await table.commit([e for e in batch.entries if isinstance(e, Record)], 3)
    assert shown(table) == [1, 3]


async def test_a_wipe_reaches_what_came_in_between() -> None:
    """What the log loses is hidden in the archive, and nothing that comes later is."""
    log, table = Busy(MemoryLimits(), now_ns=lambda: 1), PlainTable()
    await append(log, 6)
    assert await Administration(log, OPEN, lake=PlainLake(table)).wipe("EV") == ("ev", 9)
    item = notification()
    await table.commit([Record(n, 1, item) for n in range(1, 13)], 12)
    assert shown(table) == [10, 11, 12]


async def test_wiping_everything_includes_what_only_the_archive_has() -> None:
    """The log may have forgotten an event type."""
    old, log, table = FaultyBackend(), FaultyBackend(), PlainTable()
    await append(old, 3)
    await archived(old, table, 3)
    administration = Administration(log, OPEN, lake=PlainLake(table))
    assert (await administration.wipe_all())["ev"] == 0
    assert shown(table) == []
    log.failures["wipe"] = AWAY
    with pytest.raises(WipeFailed, match="ev: the store is away"):
        await Administration(log, CATALOGUE, lake=PlainLake(table)).wipe_all()


async def test_nothing_is_found_beyond_the_end() -> None:
    """A sequence that was never allocated is not hidden: it will be somebody's."""
    log, table = FaultyBackend(), PlainTable()
    await append(log, 3)
    with pytest.raises(NotFound):
        await Administration(log, OPEN, lake=PlainLake(table)).delete("ev@4")
    assert table.contents.hidden == ()
