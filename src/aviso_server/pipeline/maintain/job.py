"""The maintenance job: fewer and larger files, nothing that is deleted or expired, no leftovers.

Theory of operation
1. The driver reads the table's log and the tombstones, has Spark inspect files that may hold hidden
   rows, and makes the plan (plan.py).
2. Spark tasks write the new files (rewrite.py); nothing of them is visible.
3. The driver replaces old files by new ones, one commit per rewrite (replace.py). A rewrite is
   abandoned if another job has replaced its files meanwhile, or if they cannot be read.
4. What is no longer needed is swept (sweep.py).

The job can be killed at any moment: every commit is whole, and the rest is swept another time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from aviso_server.core.errors import AvisoError
from aviso_server.lake.inventory import Inventory, inventory
from aviso_server.lake.layout import NOTIFICATIONS, Place
from aviso_server.lake.ranges import MOST, Ints
from aviso_server.lake.storage import LakeFailed
from aviso_server.lake.table import find
from aviso_server.lake.tombstones import NOTHING, Intervals, Tombstones
from aviso_server.pipeline.maintain.order import Sort
from aviso_server.pipeline.maintain.plan import (
    FileRemoval,
    MaintainPlan,
    MaintainPolicy,
    Rewrite,
    make_plan,
    suspects,
    wholly_hidden,
)
from aviso_server.pipeline.maintain.replace import Overtaken, foreign_columns, replace_files
from aviso_server.pipeline.maintain.rewrite import Answer, Task, hidden_rows, rewrite_files
from aviso_server.pipeline.maintain.sweep import KEEP, expire_letters, gather, sweep
from aviso_server.pipeline.spark.failure import failure_of
from aviso_server.pipeline.spark.tasks import by_bytes, deal

SHORTEST = timedelta(hours=1)
"""Horizon below which a running read or write may lose its files."""

WAVE_BYTES = 64 * 1024**3
"""What Spark rewrites together before it is committed: bounds what a kill costs."""


_NUMBER = "number"
"""The rewrite that a file belongs to."""


class MaintainFailed(AvisoError):
    """The job cannot be done; the message says why in one line."""


@dataclass(frozen=True, slots=True)
class MaintainOptions:
    """What is maintained, and how."""

    place: Place
    event_types: tuple[str, ...] = ()
    """Empty is all."""
    policy: MaintainPolicy = field(default_factory=MaintainPolicy)
    sort: Sort = "sequence"
    keep: timedelta = KEEP
    """The horizon of the sweep."""
    force: bool = False
    """Allow a horizon below ``SHORTEST``."""
    dry_run: bool = False
    today: date | None = None
    """What retention counts from; the current UTC day unless said."""


@dataclass(slots=True)
class MaintainOutcome:
    """What was done, or in a dry run what would be."""

    plan: MaintainPlan = field(default_factory=MaintainPlan)
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    rows_hidden: int = 0
    """Deleted and wiped rows that are gone."""
    rows_expired: int = 0
    letters_expired: int = 0
    overtaken: int = 0
    """Rewrites and removals that another job did first."""
    problems: list[str] = field(default_factory=list)
    """What could not be done, a line each."""
    swept: list[str] = field(default_factory=list)


Tell = Callable[[int, int], None]
"""Progress: files that were written again, and how many there are to be."""


def check(options: MaintainOptions) -> DeltaTable:
    """The table; MaintainFailed if the options cannot be used on it."""
    if options.keep < SHORTEST and not options.force:
        raise MaintainFailed(
            "a horizon below one hour takes files from reads and writes that are running; "
            "if there are none, add --force"
        )
    table = find(options.place, NOTIFICATIONS)
    if table is None:
        raise MaintainFailed(f"there is no lake at {options.place.path}")
    if foreign := foreign_columns(table):
        raise MaintainFailed(
            f"the table has columns that this version does not write ({', '.join(foreign)}), "
            "and writing its files again would lose them"
        )
    return table


def run(
    spark: SparkSession, options: MaintainOptions, *, tell: Tell = lambda _done, _all: None
) -> MaintainOutcome:
    """Do the work; LakeFailed or MaintainFailed if it cannot be done at all."""
    try:
        return _run(spark, options, tell)
    except PySparkException as error:
        raise MaintainFailed(failure_of(error).text) from error


def _run(spark: SparkSession, options: MaintainOptions, tell: Tell) -> MaintainOutcome:
    table = check(options)
    found = inventory(table, options.event_types)
    graves = Tombstones(options.place).look().hidden
    plan, problems = plan_work(spark, options, found, graves)
    outcome = MaintainOutcome(plan, problems=problems)
    outcome.files_before = outcome.files_after = len(found)
    outcome.bytes_before = outcome.bytes_after = found.size
    if not options.dry_run:
        for removal in plan.removals:
            _remove(options.place, removal, outcome)
        _expire_letters(options, outcome)
        _rewrite(spark, options, graves, outcome, tell)
        gather(options.place)
    outcome.swept = sweep(options.place, options.keep, dry_run=options.dry_run)
    return outcome


def plan_work(
    spark: SparkSession,
    options: MaintainOptions,
    found: Inventory,
    graves: Mapping[str, Intervals],
) -> tuple[MaintainPlan, list[str]]:
    """The plan, and files that could not be inspected."""
    today = options.today or datetime.now(UTC).date()
    kept = np.ones(len(found), np.bool_)
    for event_type, day, begin, end in found.days():
        oldest = options.policy.oldest(event_type, today)
        kept[begin:end] = oldest is None or day >= oldest
    hidden: Ints = np.where(kept & wholly_hidden(found, graves), found.numbers("rows"), 0)
    looks = np.flatnonzero(kept & suspects(found, graves))
    counted = _count_hidden(spark, options.place, found.chosen(looks), graves)
    places = pc.index_in(counted["path"], value_set=found.columns["path"].combine_chunks())
    hidden[np.asarray(places)] = np.asarray(counted["rows"])
    bad = counted.filter(counted["problem"].is_valid())
    problems = [f"{row['name']}: {row['problem']}" for row in bad.to_pylist()]
    return make_plan(found, options.policy, today=today, hidden=hidden), problems


def _count_hidden(
    spark: SparkSession, place: Place, looks: Inventory, graves: Mapping[str, Intervals]
) -> pa.Table:
    """Hidden rows of files, counted in tasks; the name is told with a problem."""
    kinds = {"path": pa.string(), "rows": pa.int64(), "name": pa.string(), "problem": pa.string()}
    schema = pa.schema(kinds)
    if not len(looks):
        return schema.empty_table()

    def work(ours: pa.Table) -> Iterator[pa.RecordBatch]:
        for file in Inventory(ours):
            row = {"path": file.path, "rows": 0, "name": file.name}
            try:
                row["rows"] = hidden_rows(place, file, graves[file.event_type])
            except LakeFailed as error:
                row["problem"] = error.message.splitlines()[0]
            yield pa.RecordBatch.from_pylist([row], schema)

    tasks = by_bytes(looks.numbers("size"))
    return deal(spark, looks.columns, tasks, work=work, schema=from_arrow_schema(schema)).toArrow()


def _rewrite(
    spark: SparkSession,
    options: MaintainOptions,
    graves: Mapping[str, Intervals],
    outcome: MaintainOutcome,
    tell: Tell,
) -> None:
    rewrites = outcome.plan.rewrites
    total = sum(len(item.files) for item in rewrites)
    done = 0
    tell(done, total)
    for wave in _waves(rewrites):
        for answer in _answers(spark, options, wave, graves):
            _replace(options.place, wave[answer.number], answer, outcome)
        done += sum(len(item.files) for item in wave)
        tell(done, total)


def _waves(rewrites: Sequence[Rewrite]) -> Iterator[list[Rewrite]]:
    """What Spark does together, until it is committed."""
    wave: list[Rewrite] = []
    size = 0
    for item in rewrites:
        if wave and size + item.size > WAVE_BYTES:
            yield wave
            wave, size = [], 0
        wave.append(item)
        size += item.size
    if wave:
        yield wave


def _answers(
    spark: SparkSession,
    options: MaintainOptions,
    wave: Sequence[Rewrite],
    graves: Mapping[str, Intervals],
) -> list[Answer]:
    place, sort, hidden = options.place, options.sort, [item.hidden for item in wave]

    def work(ours: pa.Table) -> Iterator[pa.RecordBatch]:
        for number in pc.unique(ours[_NUMBER]).to_pylist():
            files = Inventory(ours.filter(pc.equal(ours[_NUMBER], number)).drop_columns([_NUMBER]))
            event_type = files[0].event_type
            item = Rewrite(event_type, files[0].day, files, hidden[number])
            task = Task(number, item, graves.get(event_type, NOTHING), sort)
            answer = msgspec.msgpack.encode(rewrite_files(place, task))
            yield pa.RecordBatch.from_pydict({"answer": pa.array([answer], pa.binary())})

    numbers = np.repeat(np.arange(len(wave)), [len(item.files) for item in wave])
    files = pa.concat_tables([item.files.columns for item in wave])
    tasks = by_bytes(np.array([item.size for item in wave], np.int64))[numbers]
    rows = deal(
        spark,
        files.append_column(_NUMBER, pa.array(numbers)),
        tasks,
        work=work,
        schema="answer binary",
    ).collect()
    return [msgspec.msgpack.decode(bytes(row["answer"]), type=Answer) for row in rows]


def _replace(place: Place, item: Rewrite, answer: Answer, outcome: MaintainOutcome) -> None:
    if answer.problem is not None:
        where = f"{item.event_type} {item.day.isoformat()}"
        outcome.problems.append(f"{where}: {answer.problem}")
        return
    try:
        # Readers of changes see nothing where the same rows are in other files.
        replace_files(place, item.files, answer.written, data_change=item.hidden > 0)
    except Overtaken:
        outcome.overtaken += 1
        return
    outcome.files_after += len(answer.written) - len(item.files)
    outcome.bytes_after += sum(file.size for file in answer.written) - item.size
    outcome.rows_hidden += item.hidden


def _remove(place: Place, item: FileRemoval, outcome: MaintainOutcome) -> None:
    try:
        replace_files(place, item.files, (), data_change=True)
    except Overtaken:
        outcome.overtaken += 1
        return
    outcome.files_after -= len(item.files)
    outcome.bytes_after -= item.files.size
    rows = max(0, item.files.rows)
    if item.why == "hidden":
        outcome.rows_hidden += rows
    else:
        outcome.rows_expired += rows


def _expire_letters(options: MaintainOptions, outcome: MaintainOutcome) -> None:
    """Dead letters go with the days they belong to: what is left begins with a notification."""
    reached: dict[str, int] = {}
    for item in outcome.plan.removals:
        if item.why == "expired":
            ends = item.files.numbers("last")
            last = int(ends[ends < MOST].max(initial=0))
            reached[item.event_type] = max(last, reached.get(item.event_type, 0))
    for event_type, last in reached.items():
        outcome.letters_expired += expire_letters(options.place, event_type, last)
