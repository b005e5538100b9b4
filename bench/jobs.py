"""The jobs of the pipeline on histories of several sizes: time, CPU time and peak memory.

A history is made by ``synth`` in a lake of its own, and every job works on it, in one session that
has done everything once before. Whoever replays and takes in does it with ``mars``, by far the most
frequent event type. Every job says how many rows it has dealt with, and that is checked.

A job that would take longer than the budget, going by the sizes before, is left out and said to be.
"""

import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path
from time import perf_counter

import structlog
from bench.figures import Skipped, Value
from bench.searches import compared, searches
from bench.served import CONFIG
from bench.tree import cpu_s, resident, watched
from pyspark.sql import SparkSession

from aviso_server.core.schema import Catalogue
from aviso_server.lake.commit import commit
from aviso_server.lake.layout import Place
from aviso_server.pipeline.audit import job as audit
from aviso_server.pipeline.history.plan import question
from aviso_server.pipeline.ingest import files as sources
from aviso_server.pipeline.ingest import job as ingest
from aviso_server.pipeline.ingest.staging import FromFiles
from aviso_server.pipeline.maintain import job as maintain
from aviso_server.pipeline.replay import job as replay
from aviso_server.pipeline.replay.options import Format, ReplayFiles, ReplayOptions
from aviso_server.pipeline.report import job as report
from aviso_server.pipeline.spark.session import SparkOptions, job_session
from aviso_server.settings import load
from tools.synth import Plan, parts, tasks
from tools.synth import job as synth
from tools.synth.parallel import cores, side_by_side, write

START = date(2026, 1, 1)
WARM = 1000
"""Notifications of the history that only warms up."""
REPLAYED = "mars"
MIB = 1024 * 1024

_Progress = Callable[[str], None]
_Items = Iterator[Value | Skipped]


@dataclass(frozen=True, slots=True)
class Stage:
    """A history, and where jobs put what they make of it."""

    spark: SparkSession
    folder: Path
    plan: Plan
    catalogue: Catalogue

    @property
    def lake(self) -> Place:
        """The history."""
        return Place(str(self.folder / "lake"))

    @property
    def small(self) -> Place:
        """The same history in many files."""
        return Place(str(self.folder / "small"))

    def counts(self) -> dict[str, int]:
        """Notifications by event type."""
        counts: dict[str, int] = {}
        for part in parts(self.plan):
            counts[part.event_type] = counts.get(part.event_type, 0) + part.count
        return counts


@dataclass(frozen=True, slots=True)
class Job:
    """Something to measure."""

    name: str
    run: Callable[[Stage], None]
    prepare: Callable[[Stage], object] = lambda _: None
    needs: str | None = None
    """The file or folder that a job before must have left."""


@dataclass(slots=True)
class Course:
    """What was measured so far: the seconds of every job by size of history."""

    budget_s: float
    seconds: dict[str, list[tuple[int, float]]] = field(default_factory=dict)

    def expected_s(self, name: str, size: int) -> float:
        """Seconds at another size: a line through the last two sizes, or in proportion to one."""
        match self.seconds.get(name, [])[-2:]:
            case [(less, quick), (more, slow)]:
                return slow + max(slow - quick, 0.0) * (size - more) / (more - less)
            case [(before, taken)]:
                return taken * size / before
            case _:
                return 0.0


def job_costs(
    sizes: Sequence[int], runs: int, budget_s: float, progress: _Progress, only: Sequence[str] = ()
) -> _Items:
    """Time, CPU time and memory of every job, or of those named; then searches; for every size."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    catalogue = load(config_file=CONFIG, environ={}, cwd=Path.cwd(), home=None).catalogue
    progress("starting Spark")
    with (
        job_session(SparkOptions(app_name="bench")) as spark,
        tempfile.TemporaryDirectory(prefix="aviso-bench-") as folder,
    ):
        course = Course(budget_s)
        for size in (WARM, *sizes):
            place = Path(folder) / str(size)
            place.mkdir()
            stage = Stage(spark, place, Plan.of(START, count=size), catalogue)
            fresh = Course(budget_s) if size == WARM else course
            found = _of_size(stage, runs if size != WARM else 1, fresh, progress, only)
            for item in found:
                if size != WARM:
                    yield item
            shutil.rmtree(place)


def _of_size(
    stage: Stage, runs: int, course: Course, progress: _Progress, only: Sequence[str]
) -> _Items:
    size = stage.plan.count
    yield Value(f"load average at the start ({size:,})", "", (os.getloadavg()[0],))
    yield Value(f"memory before the jobs ({size:,})", "MiB", (resident() / MIB,))
    for job in JOBS:
        if only and job.name.split()[0] not in only and job.run is not _synth:
            continue
        progress(f"{job.name}, {size:,} notifications")
        yield from _measured(stage, job, course)
    if not only or "search" in only:
        progress(f"searches, {size:,} notifications")
        yield from searches(stage.spark, stage.lake, stage.catalogue, size, runs)
    if not only or "duckdb" in only:
        progress(f"Spark and DuckDB, {size:,} notifications")
        yield from compared(stage.spark, stage.lake, stage.catalogue, size, runs)


def _measured(stage: Stage, job: Job, course: Course) -> _Items:
    about = f"{job.name} ({stage.plan.count:,})"
    expected = course.expected_s(job.name, stage.plan.count)
    if expected > course.budget_s:
        yield Skipped(about, f"would take {expected:,.0f} s, the budget is {course.budget_s:,.0f}")
        return
    if job.needs is not None and not (stage.folder / job.needs).exists():
        yield Skipped(about, f"what it reads ({job.needs}) was not made")
        return
    job.prepare(stage)
    # The heap shrinks to what is in use, so that a peak is of this job.
    java = stage.spark.sparkContext._jvm  # noqa: SLF001
    assert java is not None
    java.System.gc()
    with watched() as peak:
        began, used = perf_counter(), cpu_s()
        job.run(stage)
        taken, used = perf_counter() - began, cpu_s() - used
    course.seconds.setdefault(job.name, []).append((stage.plan.count, taken))
    yield Value(f"{about}: time", "s", (taken,))
    yield Value(f"{about}: CPU time", "s", (used,))
    yield Value(f"{about}: peak memory", "MiB", (peak.bytes / MIB,))


def _synth(stage: Stage) -> None:
    options = synth.Options(plan=stage.plan, lake=stage.lake, processes=cores())
    assert synth.run(options).count == stage.plan.count


def _small_files(stage: Stage) -> None:
    """A file for each hour: what an archive job leaves that commits often."""
    made = parts(stage.plan)
    work = partial(write, stage.small, stage.plan)
    done = side_by_side(work, tasks(made, most=1), processes=cores())
    marks = {part.event_type: part.first + part.count - 1 for part in made}
    commit(stage.small, [item for found in done for item in found], marks)


def _maintain(stage: Stage) -> None:
    outcome = maintain.run(stage.spark, maintain.MaintainOptions(stage.small))
    assert not outcome.problems
    assert outcome.files_after < outcome.files_before


def _audit(stage: Stage) -> None:
    found = audit.run(stage.spark, audit.AuditOptions(stage.lake))
    assert found.complete
    assert {item.event_type: item.through for item in found.event_types} == stage.counts()


def _report(stage: Stage) -> None:
    page = stage.folder / "report.html"
    options = report.ReportOptions(stage.lake, page, days=stage.plan.days + 1)
    assert report.run(stage.spark, options).notifications == stage.plan.count


def _replay(kind: Format, stage: Stage) -> None:
    options = ReplayOptions(
        question=question(REPLAYED, lake=stage.lake, schemas=stage.catalogue.schemas),
        target=ReplayFiles(path=str(stage.folder / kind), format=kind),
    )
    assert replay.run(stage.spark, options).rows == stage.counts()[REPLAYED]


def _ingest(kind: sources.Format, stage: Stage) -> None:
    place = Place(str(stage.folder / f"from-{kind}"))
    options = ingest.IngestOptions(
        source=FromFiles(tuple(sources.files([str(stage.folder / kind)])), kind),
        catalogue=stage.catalogue,
        state=stage.folder / "state",
        lake=place,
    )
    outcome = ingest.run(options, stage.spark)
    assert (outcome.added, outcome.rejected) == (stage.counts()[REPLAYED], 0)
    shutil.rmtree(place.path)


JOBS = (
    Job("synth", _synth),
    Job("maintain", _maintain, prepare=_small_files),
    Job("audit", _audit),
    Job("report", _report),
    Job("replay to Parquet", partial(_replay, "parquet")),
    Job("replay to NDJSON", partial(_replay, "ndjson")),
    Job("ingest of Parquet", partial(_ingest, "parquet"), needs="parquet"),
    Job("ingest of NDJSON", partial(_ingest, "ndjson"), needs="ndjson"),
)
