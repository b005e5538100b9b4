"""Reading and judging a history in the tasks of Spark, and what came of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from aviso_server.core.schema import Catalogue
from aviso_server.lake.layout import Place
from aviso_server.pipeline.datasource import register
from aviso_server.pipeline.history.frame import archived
from aviso_server.pipeline.ingest.claim import BadClaim
from aviso_server.pipeline.ingest.files import (
    PIECE_BYTES,
    File,
    Format,
    Found,
    Piece,
    check,
    count_lines,
    numbered,
    pieces,
    read,
    unnumbered,
)
from aviso_server.pipeline.ingest.judge import Judge
from aviso_server.pipeline.ingest.rows import DDL, judged
from aviso_server.pipeline.ingest.state import Reason
from aviso_server.pipeline.ingest.table import ColumnMap, claims, rows_of
from aviso_server.pipeline.spark.tasks import spread

LOOKED_AT = 100
"""Files whose columns are looked at before Spark begins."""

REASONS = 20
"""Kinds of rejection that a summary names."""

_OWN = ("event_type", "sequence", "time_ns", "identifier", "payload", "geometry", "polygon")
"""Columns of stored notifications that a claim is made of."""


@dataclass(frozen=True, slots=True)
class FromFiles:
    """Files of one format."""

    files: tuple[File, ...]
    format: Format
    mapping: ColumnMap = field(default_factory=ColumnMap)
    piece_bytes: int = PIECE_BYTES


@dataclass(frozen=True, slots=True)
class FromLog:
    """Streams in JetStream, by the options of the Spark source."""

    options: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class FromLake:
    """Another lake."""

    place: Place
    event_types: tuple[str, ...] | None = None


Source: TypeAlias = FromFiles | FromLog | FromLake
Way: TypeAlias = Literal["publish", "store"]


def frame(spark: SparkSession, source: Source, catalogue: Catalogue, *, stored: bool) -> DataFrame:
    """Judged rows of a history, in no order; lazy, as DataFrames are."""
    if isinstance(source, FromFiles):
        return _of_files(spark, source, catalogue, stored=stored)
    if isinstance(source, FromLog):
        register(spark)
        rows = spark.read.format("aviso").options(**source.options).load()
        name, columns = "jetstream", [*_OWN, "problem", "raw"]
    else:
        rows = archived(spark, source.place, source.event_types)
        name, columns = source.place.path, list(_OWN)

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rules = Judge(catalogue)
        for batch in batches:
            yield from judged(name, _found(batch), rules, stored=stored)

    return rows.select(*columns).mapInArrow(judge, DDL)


def reasons(bad: DataFrame) -> list[Reason]:
    """The most frequent kinds of rejection."""
    grouped = bad.groupBy("code", "field").agg(
        F.count("*").alias("count"), F.min("reason").alias("example")
    )
    found = grouped.orderBy(F.desc("count"), "code", "field").limit(REASONS).collect()
    return [Reason(row["code"], row["field"], row["count"], row["example"]) for row in found]


def _of_files(
    spark: SparkSession, source: FromFiles, catalogue: Catalogue, *, stored: bool
) -> DataFrame:
    for file in source.files[:LOOKED_AT]:
        check(file, source.format, source.mapping)
    made = [
        piece
        for file in source.files
        for piece in pieces(file, source.format, most=source.piece_bytes)
    ]
    made = numbered(made, _counts(spark, unnumbered(made)))
    mapping = source.mapping

    def work(piece: Piece) -> Iterator[pa.RecordBatch]:
        return judged(piece.path, read(piece, mapping), Judge(catalogue), stored=stored)

    return spread(spark, made, Piece, work=work, schema=DDL)


def _counts(spark: SparkSession, made: Sequence[Piece]) -> dict[tuple[str, int], int]:
    if not made:
        return {}

    def work(piece: Piece) -> Iterator[pa.RecordBatch]:
        told = {"path": [piece.path], "begin": [piece.begin], "lines": [count_lines(piece)]}
        yield pa.RecordBatch.from_pydict(told)

    found = spread(spark, made, Piece, work=work, schema="path string, begin bigint, lines bigint")
    return {(row["path"], row["begin"]): row["lines"] for row in found.collect()}


def _found(batch: pa.RecordBatch) -> Iterator[Found]:
    """Stored notifications as claims; their line is their sequence."""
    names = {name: name for name in _OWN}
    rows = rows_of(batch, names)
    problems = batch.column("problem").to_pylist() if "problem" in batch.schema.names else None
    for number, (row, claim) in enumerate(zip(rows, claims(rows, names, None), strict=True)):
        line = row["sequence"]
        assert isinstance(line, int)  # noqa: S101 - the column is never null
        if problems is not None and problems[number] is not None:
            raw = batch.column("raw")[number].as_py()
            yield line, BadClaim("message", problems[number]), raw or row
        else:
            yield line, claim, row
