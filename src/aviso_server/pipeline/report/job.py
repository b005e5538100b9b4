"""The report job: reads one version of the lake, gathers figures, writes tables and the page.

Nothing is visible before all figures are complete. Then the tables are replaced, each in one
commit, and the page is renamed into its place last.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from aviso_server.core.errors import AvisoError
from aviso_server.core.schema import Schema
from aviso_server.lake.layout import Place
from aviso_server.lake.ranges import MOST
from aviso_server.lake.snapshot import Snapshot, look
from aviso_server.pipeline.report import gather
from aviso_server.pipeline.report.arrivals import clocks
from aviso_server.pipeline.report.figures import Figures, Period, empty_tables, moment
from aviso_server.pipeline.report.page import page
from aviso_server.pipeline.spark.failure import failure_of
from aviso_server.process import replace_file

DAYS = 30

STEPS = 7
"""Of the reported progress."""

_CAUSE = re.compile(r"^Caused by: [\w.$]+: (\S.*)$", re.MULTILINE)

Told = Callable[[str], None]


class ReportFailed(AvisoError):
    """There is no report; the message says why in one line."""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What is reported, and where to."""

    place: Place
    output: Path
    tables: Place | None = None
    """Where the tables behind the page are kept; None keeps none."""
    event_types: tuple[str, ...] = ()
    """Empty is all."""
    days: int = DAYS
    """Before the end, where no start is given."""
    start: datetime | None = None
    end: datetime | None = None
    """None is the newest notification."""
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    """Which fields are dates and times; fields ``date`` and ``time`` where it is not known."""


@dataclass(frozen=True, slots=True)
class ReportOutcome:
    """What was reported."""

    notifications: int
    event_types: int
    late: int
    missing: int
    period: Period
    output: Path


def check(options: ReportOptions) -> None:
    """ReportFailed for what would fail after minutes; LakeFailed where there is no lake."""
    folder = options.output.absolute().parent
    if not folder.is_dir():
        raise ReportFailed(f"there is no folder {folder} for the page")
    if not os.access(folder, os.W_OK):
        raise ReportFailed(f"the folder {folder} cannot be written to")
    if options.output.is_dir():
        raise ReportFailed(f"{options.output} is a folder; name a file for the page")
    if options.start and options.end and options.start >= options.end:
        raise ReportFailed("the period ends before it begins")
    view = look(options.place)
    unknown = sorted(set(options.event_types) - set(view.index.event_types))
    if unknown:
        known = ", ".join(view.index.event_types) or "none"
        raise ReportFailed(f"the lake has no event type {', '.join(unknown)}; it has: {known}")


def run(
    spark: SparkSession, options: ReportOptions, *, told: Told = lambda _: None
) -> ReportOutcome:
    """Make the report; ReportFailed or LakeFailed if it cannot be made."""
    try:
        figures = gather_figures(spark, options, told=told)
    except (PySparkException, Py4JError) as error:
        raise ReportFailed(_reason(error)) from error
    told("writing")
    if options.tables is not None:
        _keep(options.tables, figures.tables)
    replace_file(options.output, page(figures).encode())
    counts = figures.tables["cycles"]
    return ReportOutcome(
        figures.notifications,
        figures.tables["sizes"].num_rows,
        sum(counts["late"].to_pylist()),
        sum(counts["missing"].to_pylist()),
        figures.period,
        options.output,
    )


def gather_figures(
    spark: SparkSession, options: ReportOptions, *, told: Told = lambda _: None
) -> Figures:
    """The figures of a report."""
    view = look(options.place)
    names = options.event_types or tuple(view.index.event_types)
    period = _period(options, view, names)
    scope = gather.Scope(spark, options.place, view, names, period, clocks(options.schemas))
    tables = empty_tables() | _tables(scope, told=told)
    return Figures(
        lake=options.place.path,
        version=view.index.version,
        made_at=datetime.now(UTC),
        period=period,
        bucket=scope.bucket,
        tables=tables,
    )


def _tables(scope: gather.Scope, *, told: Told) -> dict[str, pa.Table]:
    """Spark reads the lake three times: counts, places, identifiers."""
    tables: dict[str, pa.Table] = {}
    told("volume")
    with _cache(gather.measures(scope)) as measured:
        tables["sizes"] = gather.sizes(measured)
        busiest = tables["sizes"]["event_type"].to_pylist()[: gather.BUSIEST]
        if not busiest:
            return tables
        tables["volume"] = gather.volume(measured, busiest)
        tables["size_classes"] = gather.size_classes(measured, busiest)
    told("delays")
    tables["delays"] = gather.delays(scope, busiest)
    told("areas")
    tables["areas"] = gather.areas(scope, busiest)
    told("identifiers")
    with _cache(gather.identifiers(scope)) as known:
        tables["values"] = gather.values(known, busiest)
        told("cycles")
        with _cache(gather.judgement(scope, known)) as verdicts:
            tables["cycles"] = gather.cycles(verdicts)
            told("findings")
            tables["findings"] = gather.findings(verdicts)
    return tables


@contextmanager
def _cache(frame: DataFrame) -> Iterator[DataFrame]:
    """A frame that Spark keeps until the block ends."""
    kept = frame.persist()
    try:
        yield kept
    finally:
        kept.unpersist()


def _period(options: ReportOptions, view: Snapshot, names: tuple[str, ...]) -> Period:
    end = options.end or _newest(view, names) + timedelta(microseconds=1)
    start = options.start or end - timedelta(days=options.days)
    if start >= end:
        raise ReportFailed(f"the period ends ({end:%Y-%m-%d %H:%M}) before it begins")
    return Period(start, end)


def _newest(view: Snapshot, names: tuple[str, ...]) -> datetime:
    """The last storage time in the table's log, or now."""
    files = [view.index.files(name) for name in names]
    newest = max((int(item.ranges.until.max()) for item in files if item is not None), default=MOST)
    return datetime.now(UTC) if newest >= MOST else moment(newest)


def _keep(place: Place, tables: Mapping[str, pa.Table]) -> None:
    """Replace the tables, each in one commit; readers see the old ones until then."""
    for name, table in tables.items():
        try:
            write_deltalake(
                place.table(name),
                table,
                mode="overwrite",
                schema_mode="overwrite",
                name=f"aviso_report_{name}",
                storage_options=dict(place.options),
            )
        except (DeltaError, OSError) as error:
            raise ReportFailed(f"cannot write {place.table(name)}: {error}") from error


def _reason(error: Exception) -> str:
    """One line. Collecting as Arrow reports a failed task only at the end of a long text."""
    causes = _CAUSE.findall(str(error))
    return causes[-1].strip() if causes else failure_of(error).text
