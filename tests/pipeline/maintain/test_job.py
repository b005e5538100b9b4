"""The maintenance job on Spark."""

import os
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import Field
from deltalake.schema import PrimitiveType
from pyspark.sql import SparkSession
from support.lake import BEGIN_NS, filled, record, sequences, table_of

from aviso_server.lake.commit import archived_through
from aviso_server.lake.deadletters import append_dead_letters
from aviso_server.lake.inventory import inventory
from aviso_server.lake.lake import Lake
from aviso_server.lake.layout import (
    DEAD_LETTER_TABLE,
    DELETED,
    NOTIFICATIONS,
    TIME,
    WIPED,
    Place,
)
from aviso_server.lake.tombstones import append_tombstones
from aviso_server.pipeline.maintain.job import MaintainFailed, MaintainOptions, check, run
from aviso_server.pipeline.maintain.plan import MaintainPlan, MaintainPolicy
from aviso_server.pipeline.maintain.sweep import sweep

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

DAY_NS = 86_400_000_000_000


def _fill(place: Place, name: str, first: int, count: int, *, day: int = 0, files: int = 4) -> None:
    """Small files, one commit each."""
    for begin in range(first, first + count, count // files):
        made = range(begin, begin + count // files)
        filled(place, [record(n, name, ns=BEGIN_NS + day * DAY_NS + n * 1000) for n in made])


def _letter(place: Place, sequence: int, *, day: int = 0) -> None:
    ns = BEGIN_NS + day * DAY_NS
    row = ["mars", sequence, ns // 1000, ns, "mars.x", "not JSON", b"{}"]
    columns = [
        pa.array([value]).cast(TIME) if item.name == "time" else pa.array([value], item.type)
        for item, value in zip(DEAD_LETTER_TABLE, row, strict=True)
    ]
    append_dead_letters(place, pa.table(columns, schema=DEAD_LETTER_TABLE))


@pytest.fixture
def lake(tmp_path: Path) -> Place:
    """Two event types over three days; of the one some are deleted, the other has a wiped start."""
    place = Place(str(tmp_path / "lake"))
    _letter(place, 4)
    for day in range(3):
        _fill(place, "mars", 1 + 40 * day, 40, day=day)
    _fill(place, "it's", 1, 40)
    append_tombstones(place, [("mars", 50, 52)], kind=DELETED)
    append_tombstones(place, [("it's", 1, 20)], kind=WIPED)
    return place


def _kept(options: MaintainOptions) -> int:
    return len(inventory(table_of(options.place)))


def test_a_lake_is_maintained(spark: SparkSession, lake: Place) -> None:
    """Small files become one, expired, deleted and wiped rows go, marks stay; then it is done."""
    told: list[tuple[int, int]] = []
    options = MaintainOptions(
        lake,
        policy=MaintainPolicy(retention_days={"mars": 1}),
        today=date(2026, 1, 3),
        dry_run=True,
    )
    dry = run(spark, options)
    assert _kept(options) == 16 == dry.files_before
    outcome = run(spark, replace(options, dry_run=False), tell=lambda *at: told.append(at))
    assert outcome.plan == dry.plan
    assert (outcome.files_before, outcome.files_after) == (16, 3) == (16, _kept(options))
    assert outcome.bytes_after < outcome.bytes_before
    assert (outcome.rows_hidden, outcome.rows_expired, outcome.letters_expired) == (23, 40, 1)
    assert (outcome.problems, outcome.overtaken, outcome.swept) == ([], 0, [])
    assert told[0][0] == 0
    assert told[-1][0] == told[-1][1] > 0
    assert sequences(lake) == [n for n in range(41, 121) if n not in (50, 51, 52)]
    assert sequences(lake, "it's") == list(range(21, 41))
    table = table_of(lake)
    assert (archived_through(table, "mars"), archived_through(table, "it's")) == (120, 40)
    again = run(spark, replace(options, dry_run=False))
    assert again.plan == MaintainPlan()
    assert again.files_after == 3


async def test_replays_go_on_during_and_after(spark: SparkSession, lake: Place) -> None:
    """A reader that began before still reads its files; a sweep takes them when told to."""
    reader = Lake(lake, refresh_s=3600)
    try:
        before = await reader.read("mars", 1, 120, limit=1000)
        options = MaintainOptions(lake, policy=MaintainPolicy(retention_days={"mars": 1}))
        run(spark, replace(options, today=date(2026, 1, 3)))
        # Its view is of the old version, whose files are all still there.
        assert (await reader.read("mars", 1, 120, limit=1000)).entries == before.entries
        assert len(sweep(lake, timedelta(0), dry_run=False)) == 16 + 1  # dead letters too
        fresh = await reader.bounds("mars", fresh=True)
        assert (fresh.first, fresh.through) == (41, 120)
        rest = await reader.read("mars", 1, 120, limit=1000)
        assert rest.entries == [item for item in before.entries if item.sequence > 40]
    finally:
        await reader.close()


def test_a_broken_file_is_named_and_the_rest_is_done(
    spark: SparkSession, lake: Place, tmp_path: Path
) -> None:
    """Its day is left as it is."""
    file = next(f for f in inventory(table_of(lake), ("mars",)) if f.first == 81)
    (tmp_path / "lake" / NOTIFICATIONS / file.name).write_bytes(b"garbage")
    outcome = run(spark, MaintainOptions(lake, event_types=("mars",)))
    assert len(outcome.problems) == 1
    assert file.name in outcome.problems[0]
    assert outcome.files_before == 12
    assert outcome.files_after == 1 + 1 + 4


def test_leftovers_of_killed_tasks_are_swept(lake: Place, tmp_path: Path) -> None:
    """Files that no version knows go when they are older than the horizon, not before."""
    folder = tmp_path / "lake" / NOTIFICATIONS / "event_type=mars" / "day=2026-01-01"
    staged = tmp_path / "lake" / "dead_letters" / "_staged"
    staged.mkdir()
    old, young, letters = folder / "old.parquet", folder / "young.parquet", staged / "x.parquet"
    for file in (old, young, letters):
        file.write_bytes(b"x")
    two_hours_ago = datetime.now(UTC).timestamp() - 7200
    for file in (old, letters):
        os.utime(file, (two_hours_ago, two_hours_ago))
    hour = timedelta(hours=1)
    swept = sweep(lake, hour, dry_run=True)
    assert swept == [
        "notifications/event_type=mars/day=2026-01-01/old.parquet",
        "dead_letters/_staged/x.parquet",
    ]
    assert old.exists()
    assert sweep(lake, hour, dry_run=False) == swept
    assert not old.exists()
    assert not letters.exists()
    assert young.exists()
    assert sweep(lake, hour, dry_run=False) == []
    assert sequences(lake) == list(range(1, 121))


def test_removals_are_remembered_as_long_as_files_are_kept(lake: Place) -> None:
    """Otherwise a file would be taken for one that no version knew."""
    sweep(lake, timedelta(days=30), dry_run=False)
    table = table_of(lake)
    told = table.metadata().configuration["delta.deletedFileRetentionDuration"]
    assert told == "interval 30 days"
    assert archived_through(table, "mars") == 120


def _failed(options: MaintainOptions) -> str:
    with pytest.raises(MaintainFailed) as failure:
        check(options)
    return failure.value.message


def test_options_that_cannot_be_used_are_refused(lake: Place, tmp_path: Path) -> None:
    """Too short a horizon, no lake, and columns that would be lost."""
    short = MaintainOptions(lake, keep=timedelta(minutes=10))
    assert "--force" in _failed(short)
    check(replace(short, force=True))
    nowhere = Place(str(tmp_path / "nowhere"))
    assert _failed(MaintainOptions(nowhere)) == f"there is no lake at {nowhere.path}"
    assert not (tmp_path / "nowhere").exists()
    table_of(lake).alter.add_columns([Field("mine", PrimitiveType("string"))])
    assert "(mine)" in _failed(MaintainOptions(lake))
