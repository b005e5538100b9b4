"""The audit job: proves that the lake has what it should have, and names what it has not.

Theory of operation
1. The driver reads one version of the table: its files and its marks, then dead letters and
   tombstones, then where the log begins and ends.
2. Spark tasks read every file (examine.py) and every retained sequence of the log, and turn them
   into evidence: runs of sequences, with eight bytes of content each where lake and log overlap.
3. Evidence is gathered by event type and block of sequences, and checked (verdict.py).
4. The driver adds verdicts up. It never sees a row, only ranges, in a bounded number of each kind.

Nothing is written, so the job may run beside everything else.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import reduce
from itertools import pairwise
from urllib.parse import unquote

import msgspec
import numpy as np
import pyarrow as pa
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from aviso_server.backends.backend import Bounds
from aviso_server.core.errors import AvisoError
from aviso_server.core.json import Json
from aviso_server.lake.commit import archived_through
from aviso_server.lake.inventory import Inventory, inventory
from aviso_server.lake.layout import DEAD_LETTERS, NOTIFICATIONS, Place
from aviso_server.lake.ranges import MOST
from aviso_server.lake.table import find
from aviso_server.lake.tombstones import NOTHING, Hidden, Tombstones
from aviso_server.pipeline.audit.evidence import (
    EVIDENCE,
    Finding,
    Rows,
    cap_findings,
    name_ranges,
)
from aviso_server.pipeline.audit.examine import (
    NOBODY,
    Exam,
    examine_file,
    examine_letters,
    examine_log,
)
from aviso_server.pipeline.audit.verdict import AuditTally, verdict_on
from aviso_server.pipeline.datasource import register
from aviso_server.pipeline.source.bridge import ask
from aviso_server.pipeline.source.columns import MARKED
from aviso_server.pipeline.source.options import SourceOptions, read_options
from aviso_server.pipeline.source.plan import bounds
from aviso_server.pipeline.spark.failure import failure_of
from aviso_server.pipeline.spark.tasks import by_bytes, deal

_EVIDENCE = from_arrow_schema(EVIDENCE)
_VERDICT = pa.schema(
    [
        ("event_type", pa.string()),
        ("block", pa.int64()),
        ("tally", pa.binary()),
        ("edges", pa.list_(pa.int64())),
        ("findings", pa.binary()),
    ]
)


class AuditFailed(AvisoError):
    """The audit cannot be made; the message says why in one line."""


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """What is audited."""

    place: Place
    event_types: tuple[str, ...] = ()
    """Empty is all."""
    source: Mapping[str, str] | None = field(default=None, repr=False)
    """Options of the source that say where the log is; None leaves the log out."""
    accept_lost: bool = False
    """What is known to be lost is no finding."""


@dataclass(slots=True)
class Audited:
    """What was found of one event type."""

    event_type: str
    first: int
    """Lowest sequence that is expected."""
    through: int
    """How far it is archived."""
    log: tuple[int, int] | None = None
    """The sequences that the log covers up to there."""
    tally: AuditTally = field(default_factory=AuditTally)
    findings: list[Finding] = field(default_factory=list)


@dataclass(slots=True)
class AuditReport:
    """The result of an audit."""

    lake: str
    version: int
    """Of the notifications table that was read."""
    with_log: bool
    event_types: list[Audited]

    @property
    def complete(self) -> bool:
        """Whether nothing was found."""
        return not any(item.findings for item in self.event_types)

    def as_json(self) -> dict[str, Json]:
        """For a file."""
        return {
            "lake": self.lake,
            "version": self.version,
            "compared_with_log": self.with_log,
            "complete": self.complete,
            "event_types": [_as_json(item) for item in self.event_types],
        }


@dataclass(frozen=True, slots=True)
class Subject:
    """What the driver knows of an event type before anything is read."""

    event_type: str
    first: int
    through: int
    ends: Bounds | None

    @property
    def retained(self) -> tuple[int, int] | None:
        """What lake and log should both have."""
        if self.ends is None or self.ends.first > min(self.ends.last, self.through):
            return None
        return self.ends.first, min(self.ends.last, self.through)


def check(options: AuditOptions) -> DeltaTable:
    """The table; AuditFailed if there is none."""
    table = find(options.place, NOTIFICATIONS)
    if table is None:
        raise AuditFailed(f"there is no lake at {options.place.path}")
    return table


def run(spark: SparkSession, options: AuditOptions) -> AuditReport:
    """Make the audit; LakeFailed, Unreached or AuditFailed if it cannot be made."""
    try:
        return _run(spark, options)
    except PySparkException as error:
        raise AuditFailed(failure_of(error).text) from error


def _run(spark: SparkSession, options: AuditOptions) -> AuditReport:
    table = check(options)
    found = inventory(table, options.event_types)
    tombstones = Tombstones(options.place).look()
    source = None
    if options.source is not None:
        names = ",".join(options.event_types) or "*"
        source = read_options({**options.source, "eventType": names})
    subjects = _subjects(table, found, source)
    if options.event_types and (unknown := set(options.event_types) - subjects.keys()):
        raise AuditFailed(f"the lake has nothing of {', '.join(sorted(unknown))}")
    evidence = [
        _known(spark, subjects, tombstones),
        _files(spark, options.place, found, subjects, source),
        _letters(spark, options, subjects),
    ]
    if options.source is not None and source is not None:
        evidence += _log(spark, options.source, source, subjects)
    verdicts = (
        reduce(lambda one, other: one.unionAll(other), evidence)
        .groupBy("event_type", "block")
        .applyInArrow(_verdicts, from_arrow_schema(_VERDICT))
    )
    audited = {
        item.event_type: Audited(item.event_type, item.first, item.through, item.retained)
        for item in subjects.values()
    }
    _add_up(verdicts, audited)
    for item in audited.values():
        settle(item, options)
    report = [audited[name] for name in sorted(audited)]
    return AuditReport(options.place.path, table.version(), source is not None, report)


def _subjects(
    table: DeltaTable, found: Inventory, source: SourceOptions | None
) -> dict[str, Subject]:
    ends: Mapping[str, Bounds] = {}
    if source is not None:
        ends = ask(source, lambda log: bounds(log, source))
    first, last = found.numbers("first"), found.numbers("last")
    lowest = np.where(last < MOST, first, 1)
    firsts: dict[str, int] = {}
    for name, _, low, high in found.days():
        firsts[name] = min(int(lowest[low:high].min()), firsts.get(name, MOST))
    subjects = {}
    for name in sorted({*firsts, *ends}):
        through = archived_through(table, name)
        if not through and name not in firsts:
            continue  # the log has it, and it was never archived
        end = ends.get(name)
        begin = firsts.get(name, through + 1)
        if end is not None and end.last >= end.first:
            begin = min(begin, end.first)
        subjects[name] = Subject(name, begin, through, end)
    return subjects


def _known(spark: SparkSession, subjects: Mapping[str, Subject], tombstones: Hidden) -> DataFrame:
    """What the driver knows without reading."""
    batches = []
    for item in subjects.values():
        rows = Rows(item.event_type)
        rows.span("expected", item.first, item.through)
        if item.retained is not None:
            rows.span("retained", *item.retained)
        for side, ranges in (("hidden", tombstones.hidden), ("gone", tombstones.lost)):
            for first, last in ranges.get(item.event_type, NOTHING).pairs():
                # What lies outside is not considered here.
                rows.span(side, max(first, item.first), min(last, item.through))
        batches.append(rows.batch())
    table = pa.Table.from_batches(batches or [Rows(NOBODY).batch()])
    return spark.createDataFrame(table, _EVIDENCE)


def _files(
    spark: SparkSession,
    place: Place,
    found: Inventory,
    subjects: Mapping[str, Subject],
    source: SourceOptions | None,
) -> DataFrame:
    places = source is None or source.access.transport == "nats"

    kept = {name: item.retained for name, item in subjects.items()}
    begins = {name: MOST if span is None else span[0] for name, span in kept.items()}

    def work(ours: pa.Table) -> Iterator[pa.RecordBatch]:
        for file in Inventory(ours):
            yield examine_file(place, Exam(file, begins[file.event_type], places))

    tasks = by_bytes(found.numbers("size"))
    return deal(spark, found.columns, tasks, work=work, schema=_EVIDENCE)


def _letters(
    spark: SparkSession, options: AuditOptions, subjects: Mapping[str, Subject]
) -> DataFrame:
    table = find(options.place, DEAD_LETTERS)
    place, names = options.place, {*subjects, NOBODY}

    def work(ours: pa.Table) -> Iterator[pa.RecordBatch]:
        for path in ours["path"].to_pylist():
            for batch in examine_letters(place, unquote(path)):
                if batch.num_rows and batch.column("event_type")[0].as_py() in names:
                    yield batch

    told = pa.schema({"path": pa.string(), "size_bytes": pa.int64()})
    files = told.empty_table()
    if table is not None:
        files = pa.table(table.get_add_actions()).select(told.names).cast(told)
    tasks = by_bytes(np.asarray(files["size_bytes"], np.int64))
    return deal(spark, files, tasks, work=work, schema=_EVIDENCE)


def _log(
    spark: SparkSession,
    given: Mapping[str, str],
    source: SourceOptions,
    subjects: Mapping[str, Subject],
) -> list[DataFrame]:
    wanted = {name: item.retained for name, item in subjects.items()}
    asked = {name: span for name, span in wanted.items() if span is not None}
    if not asked:
        return []
    register(spark)
    rows = (
        spark.read.format("aviso")
        .schema(MARKED)
        .options(**given)
        .option("eventType", ",".join(asked))
        .option("startingSequence", json.dumps({name: span[0] for name, span in asked.items()}))
        .option("endingSequence", json.dumps({name: span[1] for name, span in asked.items()}))
        # What is trimmed while it is read is said, and not an error.
        .option("failOnDataLoss", "false")
        .load()
    )
    places = source.access.transport == "nats"

    def evidence(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from examine_log(batch, places=places)

    return [rows.mapInArrow(evidence, _EVIDENCE)]


def _verdicts(evidence: pa.Table) -> pa.Table:
    """In a task: the verdict on one block, as a row."""
    block = evidence["block"][0].as_py()
    verdict = verdict_on(block, evidence)
    row = {
        "event_type": evidence["event_type"][0].as_py(),
        "block": block,
        "tally": msgspec.msgpack.encode(verdict.tally),
        "edges": None if verdict.edges is None else list(verdict.edges),
        "findings": msgspec.msgpack.encode(verdict.findings),
    }
    return pa.Table.from_pylist([row], _VERDICT)


def _add_up(verdicts: DataFrame, audited: dict[str, Audited]) -> None:
    """Gather verdicts; what is kept of them is bounded by the kinds of findings."""
    edges: dict[str, dict[int, list[int]]] = {}
    for row in verdicts.toLocalIterator(prefetchPartitions=True):
        name = row["event_type"]
        item = audited.setdefault(name, Audited(name, 1, 0))
        item.tally.add(msgspec.msgpack.decode(bytes(row["tally"]), type=AuditTally))
        found = msgspec.msgpack.decode(bytes(row["findings"]), type=list[Finding])
        item.findings = _by_kind(item.findings + found)
        if row["edges"] is not None:
            edges.setdefault(name, {})[row["block"]] = row["edges"]
    for name, blocks in edges.items():
        ordered = [blocks[number] for number in sorted(blocks)]
        back = [
            Finding("time", later[0], later[0], 1, "stored before the one before it")
            for earlier, later in pairwise(ordered)
            if earlier[3] > later[2]
        ]
        audited[name].findings = _by_kind(audited[name].findings + back)


def _by_kind(findings: list[Finding]) -> list[Finding]:
    kinds = dict.fromkeys(item.kind for item in findings)
    return [
        item
        for kind in kinds
        for item in cap_findings(other for other in findings if other.kind == kind)
    ]


def settle(item: Audited, options: AuditOptions) -> None:
    """Drop what is accepted, and what was deleted while the audit ran."""
    if options.accept_lost:
        item.findings = [found for found in item.findings if found.kind != "lost"]
    kept = [found for found in item.findings if found.kind == "kept"]
    if not kept:
        return
    # Tombstones are written before the log is touched, and were read before the log.
    hidden = Tombstones(options.place).look().hidden.get(item.event_type, NOTHING)
    rest = [found for found in item.findings if found.kind != "kept"]
    for found in kept:
        there = np.arange(found.first, found.last + 1, dtype=np.int64)
        left = there[~hidden.mask(there)]
        if len(left) == len(there):
            rest.append(found)
        elif found.count == len(there):
            rest += name_ranges("kept", left)
    item.findings = rest


def _as_json(item: Audited) -> dict[str, Json]:
    return {
        "event_type": item.event_type,
        "first": item.first,
        "through": item.through,
        "log": None if item.log is None else list(item.log),
        "counts": asdict(item.tally),
        "findings": [asdict(found) for found in item.findings],
    }
