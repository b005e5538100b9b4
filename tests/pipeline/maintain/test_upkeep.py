"""Upkeep beside the archive: files stay few, and every reader sees each sequence once."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.lake import BEGIN_NS, everything, filled, record, sequences, table_of

from aviso_server.lake.inventory import Inventory, TableFile, inventory
from aviso_server.lake.lake import Lake
from aviso_server.lake.layout import DELETED, Place
from aviso_server.lake.marks import marks_of
from aviso_server.lake.tombstones import append_tombstones
from aviso_server.pipeline.maintain.metrics import UpkeepMetrics
from aviso_server.pipeline.maintain.plan import Rewrite
from aviso_server.pipeline.maintain.upkeep import (
    FAN_IN,
    LOWEST,
    POLICY,
    STEP_FILES,
    Upkeep,
    choose,
)

DAY = date(2026, 1, 1)
DAY_NS = 86_400_000_000_000
GOING = threading.Event()


def _file(number: int, size: int, day: date = DAY) -> TableFile:
    return TableFile(f"{number}", size, "mars", day, 10, 10 * number, 10 * number + 9)


def _chosen(files: Sequence[TableFile]) -> list[Rewrite]:
    return choose(Inventory.of(files), today=DAY)


def _after(files: Sequence[TableFile], done: Sequence[Rewrite]) -> list[TableFile]:
    """The files when that is done."""
    gone = {file.path for item in done for file in item.files}
    made = [
        TableFile(
            "+".join(file.path for file in item.files),
            item.size,
            *(item.event_type, item.day, 10 * len(item.files)),
            *(item.files[0].first, item.files[-1].last),
        )
        for item in done
    ]
    return sorted([file for file in files if file.path not in gone] + made, key=lambda f: f.first)


@given(st.lists(st.integers(1, 2 * POLICY.target_bytes), max_size=200), st.integers(0, 1))
def test_what_is_chosen_are_neighbours_and_nothing_twice(sizes: list[int], later: int) -> None:
    """Of a day that is done as of one that is written to."""
    files = [_file(number, size) for number, size in enumerate(sizes)]
    found = _chosen([*files, _file(10_000, 1, DAY + timedelta(days=later))])
    touched = [int(file.path) for item in found for file in item.files]
    assert len(touched) == len(set(touched))
    for item in found:
        numbers = [int(file.path) for file in item.files if file.path != "10000"]
        assert all(after == before + 1 for before, after in pairwise(numbers))
        assert 2 <= len(item.files) <= STEP_FILES


def test_a_day_of_small_commits_stays_a_few_files_and_is_copied_a_few_times() -> None:
    """A commit a minute: what is copied grows with the logarithm of what there is."""
    files: list[TableFile] = []
    copied = most = 0
    for number in range(1440):
        files.append(_file(number, 20_000))
        while found := _chosen(files):
            copied += sum(item.size for item in found)
            files = _after(files, found)
        most = max(most, len(files))
    assert sum(file.size for file in files) == 1440 * 20_000
    assert most < 40
    assert copied < 5 * 1440 * 20_000
    # And when the day is done, one file.
    files = _after(files, _chosen([*files, _file(9999, 1, DAY + timedelta(days=1))]))
    assert len(files) == 1


def test_large_files_are_left_alone() -> None:
    """However many there are."""
    files = [_file(number, POLICY.target_bytes) for number in range(50)]
    assert _chosen(files) == []
    assert _chosen([_file(n, LOWEST - 1) for n in range(FAN_IN - 1)]) == []


def _keep(place: Place) -> Upkeep:
    """Do all there is to do."""
    told: list[str] = []
    work = Upkeep(place, tell=told.append)
    while work.step(GOING):
        pass
    assert told == []
    return work


async def test_rows_marks_and_what_is_hidden_stay(place: Place) -> None:
    """Files of done days become one, and of the newest day as many as wait for their tier."""
    for n in range(30):
        day = BEGIN_NS + (n // 10) * DAY_NS
        filled(place, [record(2 * n + 1, ns=day + n), record(2 * n + 2, ns=day + n)])
    append_tombstones(place, [("mars", 5, 6)], kind=DELETED)
    lake = Lake(place, refresh_s=0)
    before, mark = await everything(lake, "mars"), marks_of(place, ["mars"])
    _keep(place)
    assert [file.rows for file in inventory(table_of(place))] == [20, 20, 20]
    assert await everything(lake, "mars") == before
    assert marks_of(place, ["mars"]) == mark
    assert sequences(place) == list(range(1, 61))
    assert not Upkeep(place).step(GOING)
    await lake.close()


def test_a_broken_file_is_named_and_left_alone(place: Place) -> None:
    """The rest is done."""
    for n in range(FAN_IN):
        filled(place, [record(n + 1), record(n + 1, "diss")])
    broken = Path(place.table("notifications"), inventory(table_of(place), ("diss",))[0].name)
    broken.write_bytes(b"PAR1")
    told: list[str] = []
    work = Upkeep(place, tell=told.append)
    assert work.step(GOING)
    assert not work.step(GOING)
    assert len(told) == 1
    assert broken.name in told[0]
    assert len(inventory(table_of(place), ("mars",))) == 1
    assert len(inventory(table_of(place), ("diss",))) == FAN_IN


async def test_readers_and_the_archive_do_not_notice(place: Place) -> None:
    """Each look sees every sequence up to the mark once, while files are added and replaced."""
    filled(place, [record(1)])
    told: list[str] = []

    def archive() -> None:
        for n in range(2, 41):
            filled(place, [record(n)])

    lake = Lake(place, refresh_s=0)
    with Upkeep(place, tell=told.append).running(pause_s=0.0):
        archiving = asyncio.create_task(asyncio.to_thread(archive))
        while not archiving.done():
            through = (await lake.bounds("mars", fresh=True)).through
            found = await everything(lake, "mars", span=(1, through), limit=7)
            assert [entry.sequence for entry in found] == list(range(1, through + 1))
            await asyncio.sleep(0)
        await archiving
    await lake.close()
    assert told == []
    assert sequences(place) == list(range(1, 41))
    _keep(place)
    assert len(inventory(table_of(place))) < FAN_IN


_ENDLESS = """
import sys, threading
from aviso_server.lake.layout import Place
from aviso_server.pipeline.maintain.upkeep import Upkeep
print("begun", flush=True)
with Upkeep(Place(sys.argv[1])).running(pause_s=0.0):
    threading.Event().wait()
"""


@pytest.mark.slow
def test_killed_at_any_moment(place: Place) -> None:
    """Nothing is lost or doubled, and what is left over is finished by the next one."""
    for n in range(4 * FAN_IN):
        filled(place, [record(n + 1), record(n + 1, "diss")])
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", _ENDLESS, place.path], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            before = table_of(place).version()
            filled(place, [record(marks_of(place, ["mars"])["mars"].through + 1)])
            while table_of(place).version() <= before:
                pass
            process.send_signal(signal.SIGKILL)
    _keep(place)
    assert sequences(place) == list(range(1, 4 * FAN_IN + 4))
    assert sequences(place, "diss") == list(range(1, 4 * FAN_IN + 1))


def test_it_ends_when_it_is_asked_to(place: Place) -> None:
    """Whatever it was doing."""
    with Upkeep(place, tell=pytest.fail).running():
        filled(place, [record(1)])
    assert sequences(place) == [1]


def test_what_was_done_is_counted(place: Place) -> None:
    """For metrics: files and bytes of what was put together."""
    for n in range(FAN_IN):
        filled(place, [record(n + 1)])
    size = inventory(table_of(place)).size
    work = Upkeep(place)
    while work.step(GOING):
        pass
    shown = {item.name: item.samples[0].value for item in UpkeepMetrics(work.tally).collect()}
    assert shown == {
        "aviso_upkeep_merged_files": FAN_IN,
        "aviso_upkeep_written_files": 1,
        "aviso_upkeep_merged_bytes": size,
        "aviso_upkeep_failures": 0,
        "aviso_upkeep_last_complete_timestamp_seconds": 0,
    }
