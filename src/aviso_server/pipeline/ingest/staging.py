"""Reading and validating a history in the tasks of Spark, and what came of it."""

from collections import Counter
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
    FilePiece,
    Format,
    SourceFile,
    SourceRow,
    check,
    count_lines,
    pieces,
    read,
    with_numbers,
    without_numbers,
)
from aviso_server.pipeline.ingest.rows import SPARK_STAGED, validate_rows
from aviso_server.pipeline.ingest.state import RejectReason
from aviso_server.pipeline.ingest.table import ColumnMap, claims, rows_of
from aviso_server.pipeline.ingest.validate import Validator
from aviso_server.pipeline.spark.tasks import spread

LOOKED_AT = 100
"""Files whose columns are checked before Spark begins."""

REASONS = 20
"""Kinds of rejection that a summary names."""

_OWN = ("event_type", "sequence", "time_ns", "identifier", "payload", "geometry", "polygon")
"""Columns of stored notifications that a claim is made of."""


@dataclass(frozen=True, slots=True)
class FromFiles:
    """Files of one format."""

    files: tuple[SourceFile, ...]
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
    """Validated rows of a history, in no order; lazy, as DataFrames are."""
    if isinstance(source, FromFiles):
        return _of_files(spark, source, catalogue, stored=stored)
    if isinstance(source, FromLog):
        register(spark)
        rows = spark.read.format("aviso").options(**source.options).load()
        name, columns = "jetstream", [*_OWN, "problem", "raw"]
    else:
        rows = archived(spark, source.place, source.event_types)
        name, columns = source.place.path, list(_OWN)

    def validate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        validator = Validator(catalogue)
        for batch in batches:
            yield from validate_rows(name, _source_rows(batch), validator, stored=stored)

    return rows.select(*columns).mapInArrow(validate, SPARK_STAGED)


def reasons(bad: DataFrame) -> list[RejectReason]:
    """The most frequent kinds of rejection."""
    grouped = bad.groupBy("code", "field").agg(
        F.count("*").alias("count"), F.min("reason").alias("example")
    )
    kinds = grouped.orderBy(F.desc("count"), "code", "field").limit(REASONS).collect()
    return [RejectReason(row["code"], row["field"], row["count"], row["example"]) for row in kinds]


def _of_files(
    spark: SparkSession, source: FromFiles, catalogue: Catalogue, *, stored: bool
) -> DataFrame:
    for file in source.files[:LOOKED_AT]:
        check(file, source.format, source.mapping)
    cut = [
        piece
        for file in source.files
        for piece in pieces(file, source.format, most=source.piece_bytes)
    ]
    numbered = with_numbers(cut, _counts(spark, source.files, without_numbers(cut)))
    mapping = source.mapping

    def work(piece: FilePiece) -> Iterator[pa.RecordBatch]:
        rows = read(piece, mapping)
        return validate_rows(piece.path, rows, Validator(catalogue), stored=stored)

    sizes = _sizes(source.files, numbered)
    return spread(spark, numbered, FilePiece, sizes=sizes, work=work, schema=SPARK_STAGED)


def _counts(
    spark: SparkSession, files: Sequence[SourceFile], pieces: Sequence[FilePiece]
) -> dict[tuple[str, int], int]:
    if not pieces:
        return {}

    def work(piece: FilePiece) -> Iterator[pa.RecordBatch]:
        count = {"path": piece.path, "begin": piece.begin, "lines": count_lines(piece)}
        yield pa.RecordBatch.from_pylist([count])

    schema = "path string, begin bigint, lines bigint"
    sizes = _sizes(files, pieces)
    counts = spread(spark, pieces, FilePiece, sizes=sizes, work=work, schema=schema).collect()
    return {(row["path"], row["begin"]): row["lines"] for row in counts}


def _sizes(files: Sequence[SourceFile], pieces: Sequence[FilePiece]) -> list[int]:
    """What is read for each piece, in equal parts of its file."""
    parts = Counter(piece.path for piece in pieces)
    whole = {file.path: file.size for file in files}
    return [whole[piece.path] // parts[piece.path] for piece in pieces]


def _source_rows(batch: pa.RecordBatch) -> Iterator[SourceRow]:
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
