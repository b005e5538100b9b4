"""The archive job through Spark: once, for ever, over damaged checkpoints and absent servers."""

import asyncio
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import nats
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from support.archived import archived, assert_same
from support.farlake import block_checkpoints
from support.lake import table_of
from support.log import CATALOGUE, announced, fill, log_at
from support.nats import NatsServer

from aviso_server.core.expectation import Expectations, expected_value
from aviso_server.lake.layout import NOTIFICATION_TABLE, NOTIFICATIONS, PARTITION, Place
from aviso_server.pipeline.archive.job import (
    ArchiveFailed,
    ArchiveJob,
    ArchiveOptions,
    look,
    wait_for_log,
)
from aviso_server.pipeline.archive.progress import ArchiveSnapshot, Reach
from aviso_server.pipeline.source.failure import Unreached

TYPES = ("storm", "flood")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def _options(store: NatsServer, folder: Path, **changes: object) -> ArchiveOptions:
    place = Place(str(folder / "lake"))
    given = {"once": True, "interval_s": 0.2, **changes}
    return ArchiveOptions(place, {"servers": store.url}, **given)  # type: ignore[arg-type]


def _fill(store: NatsServer, begin: int, end: int) -> None:
    asyncio.run(_filled(store, begin, end))


async def _filled(store: NatsServer, begin: int, end: int) -> None:
    async with log_at(store.url) as log:
        for name in TYPES:
            await fill(log, name, range(begin, end))


async def _until(holds: Callable[[], bool]) -> None:
    """Wait for what the job reports; the first micro-batch takes long on a busy machine."""
    async with asyncio.timeout(120):
        while not holds():  # noqa: ASYNC110 - told from another thread
            await asyncio.sleep(0.05)


def _run(spark: SparkSession, options: ArchiveOptions) -> ArchiveSnapshot:
    """Run the job to its end; what it told last."""
    told: list[ArchiveSnapshot] = []
    ArchiveJob(spark, options, tell=told.append, known=look(options)).run()
    assert told[-1].stage == "stopped"
    return told[-1]


def _same(store: NatsServer, options: ArchiveOptions, *event_types: str) -> int:
    return asyncio.run(assert_same(store.url, options.place, *(event_types or TYPES)))


def test_a_log_that_is_not_there_yet_is_waited_for(store: NatsServer, tmp_path: Path) -> None:
    """With words on the way; ``once`` gives up after a while, and a stop ends it."""
    options = _options(store, tmp_path, once=False)
    _fill(store, 0, 3)
    store.kill()
    told: list[ArchiveSnapshot] = []

    def begin(snapshot: ArchiveSnapshot) -> None:
        told.append(snapshot)
        store.start()

    known = wait_for_log(options, threading.Event(), tell=begin)
    assert known is not None
    assert known.reached["storm"] == Reach(0, 3)
    assert (told[0].stage, len(told)) == ("starting", 1)
    assert "trying again in 1 s" in str(told[0].error)
    store.kill()
    with pytest.raises(Unreached, match="NATS connect failed"):
        wait_for_log(replace(options, once=True, wait_s=0), threading.Event(), tell=told.append)
    stop = threading.Event()
    assert wait_for_log(options, stop, tell=lambda _: stop.set()) is None


def test_checkpoints_may_be_damaged_or_lost(
    spark: SparkSession, store: NatsServer, tmp_path: Path
) -> None:
    """Once; again; without the last commit; without a checkpoint: everything once, bit by bit.

    What is not as expected is counted, and archived like all else.
    """
    level = expected_value(CATALOGUE.schemas["storm"].by_name["level"], "level", {"lt": 50})
    expected = {"storm": Expectations((level,), ("payload",)), "flood": Expectations()}
    options = _options(store, tmp_path, max_records=50, expected=expected)
    _fill(store, 0, 60)
    told = _run(spark, options)
    assert (told.archived, told.lag) == (120, 0)
    storms = [announced("storm", number) for number in range(60)]
    assert told.unexpected == {
        ("storm", "values.level"): sum(int(item.identifier["level"]) >= 50 for item in storms),
        ("storm", "present.payload"): sum(item.payload == b"null" for item in storms),
    }
    assert told.event_types == {"storm": Reach(60, 60), "flood": Reach(60, 60)}
    version = DeltaTable(options.place.table(NOTIFICATIONS)).version()
    assert (_run(spark, options)).archived == 0
    assert DeltaTable(options.place.table(NOTIFICATIONS)).version() == version
    commits = Path(options.books.path) / "commits"
    last = max(int(item.name) for item in commits.iterdir() if item.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    _fill(store, 60, 70)
    _run(spark, options)
    assert _same(store, options) == 140
    shutil.rmtree(options.books.path)
    _fill(store, 70, 75)
    assert (_run(spark, options)).archived == 10
    assert _same(store, options) == 150


def test_a_checkpoint_that_spark_refuses_is_set_aside(
    spark: SparkSession, store: NatsServer, tmp_path: Path
) -> None:
    """One left by a kill at the first offset, one that only Spark knows to be wrong: it goes on."""
    options = _options(store, tmp_path)
    books = Path(options.books.path)
    _fill(store, 0, 3)
    (books / "offsets").mkdir(parents=True)
    (books / "offsets" / ".0.95e2195e.tmp").touch()
    told: list[ArchiveSnapshot] = []
    ArchiveJob(spark, options, tell=told.append).run()
    assert f"is set aside as {books}.refused-1: it has no whole offset" in str(told[0].error)
    assert (told[-1].stage, told[-1].archived) == ("stopped", 6)
    _fill(store, 3, 4)
    offset = books / "offsets" / "0"
    offset.write_text(offset.read_text().replace("v1", "v99"))
    (books / "offsets" / ".0.crc").unlink()
    told.clear()
    ArchiveJob(spark, options, tell=told.append).run()
    assert any(f"is set aside as {books}.refused-2: " in str(item.error) for item in told)
    assert (told[-1].stage, told[-1].archived) == ("stopped", 2)
    assert _same(store, options) == 8


def test_a_commit_counts_though_what_follows_it_fails(
    spark: SparkSession, store: NatsServer, tmp_path: Path
) -> None:
    """Delta's own checkpoint behind a commit cannot be written: nothing is lost or done twice."""
    options = _options(store, tmp_path)
    _fill(store, 0, 5)
    _run(spark, options)
    block_checkpoints(options.place)
    _fill(store, 5, 8)
    assert _run(spark, options).archived == 6
    assert _same(store, options) == 16


def test_tables_made_by_others_are_brought_up_to_date(
    spark: SparkSession, store: NatsServer, tmp_path: Path
) -> None:
    """A column that an older version did not have is added; one of the user's own stays."""
    options = _options(store, tmp_path, event_types=("flood",))
    older = pa.schema([item for item in NOTIFICATION_TABLE if item.name != "polygon"])
    DeltaTable.create(
        options.place.table(NOTIFICATIONS),
        older.append(pa.field("remark", pa.string())),
        partition_by=list(PARTITION),
    )
    _fill(store, 0, 10)
    assert (_run(spark, options)).archived == 10
    _same(store, options, "flood")
    assert archived(options.place, "storm") == []
    assert {"polygon", "remark"} <= set(table_of(options.place).to_pyarrow_table().column_names)


def test_it_goes_on_through_an_outage_of_nats(
    spark: SparkSession, store: NatsServer, tmp_path: Path
) -> None:
    """Nor does it end when its query is stopped; it does when it is told to."""
    options = _options(store, tmp_path, once=False)
    _fill(store, 0, 5)
    told: list[ArchiveSnapshot] = []
    stop = threading.Event()

    async def meddle() -> None:
        await _until(lambda: bool(told) and told[-1].archived == 10)
        for query in spark.streams.active:
            query.stop()
        await _until(lambda: "ended, and not by us" in str(told[-1].error))
        await _until(lambda: told[-1].error is None)
        store.kill()
        await _until(lambda: told[-1].error is not None)
        assert told[-1].stage == "running"
        store.start()
        await _filled(store, 5, 12)
        await _until(lambda: told[-1].archived == 24)

    # The job has the main thread, as Spark likes it.
    with ThreadPoolExecutor(1) as beside:
        done = beside.submit(asyncio.run, meddle())
        done.add_done_callback(lambda _: stop.set())
        ArchiveJob(spark, options, tell=told.append, stop=stop).run()
        done.result()
    assert told[-1].stage == "stopped"
    assert _same(store, options) == 24


def test_what_other_tasks_wrote_is_removed_where_one_fails(
    spark: SparkSession, store: NatsServer, tmp_path: Path
) -> None:
    """One finds that the log was trimmed: the job says so, and no file is left of the others."""
    options = _options(store, tmp_path)
    _fill(store, 0, 3)
    _run(spark, options)
    _fill(store, 3, 9)
    asyncio.run(_trim(store, keep=2))
    before = set(tmp_path.rglob("*.parquet"))
    with pytest.raises(ArchiveFailed, match=r"^notifications 4 to 7 of 'storm' .*no-fail-on"):
        ArchiveJob(spark, options).run()
    assert set(tmp_path.rglob("*.parquet")) == before
    told = _run(spark, replace(options, fail_on_data_loss=False))
    assert told.archived == 2 + 6


async def _trim(store: NatsServer, *, keep: int) -> None:
    """Let retention remove all but the newest storms."""
    async with await nats.connect(store.url) as client:
        log = client.jetstream()
        config = (await log.stream_info("STORM")).config
        for most in (keep, 1_000_000):
            config.max_msgs = most
            await log.update_stream(config)


def test_what_waiting_cannot_mend_ends_the_job(
    spark: SparkSession, store: NatsServer, tmp_path: Path
) -> None:
    """At once and in one line, even if it would run for ever; once mended, it continues."""
    options = _options(store, tmp_path)
    _fill(store, 0, 5)
    _run(spark, options)
    table = Path(options.place.table(NOTIFICATIONS))
    table.rename(tmp_path / "aside")
    told: list[ArchiveSnapshot] = []
    for_ever = _options(store, tmp_path, once=False)
    with pytest.raises(ArchiveFailed, match=r"^the checkpoint says that 'flood' is .*") as error:
        ArchiveJob(spark, for_ever, tell=told.append).run()
    assert "\n" not in str(error.value)
    assert (told[-1].stage, told[-1].error) == ("failed", str(error.value))
    shutil.rmtree(table)
    (tmp_path / "aside").rename(table)
    _run(spark, options)
    assert _same(store, options) == 10
