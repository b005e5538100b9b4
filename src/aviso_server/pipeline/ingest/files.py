"""Files of legacy histories, cut into pieces that are read independently.

A large file of lines is cut by bytes: a line belongs to the piece in which it begins. Its number
follows from how many lines the pieces before it have, which are counted first. A Parquet file is
cut by row groups; CSV and compressed files are read as a whole.
"""

import csv
import gzip
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import IO, Literal, TypeAlias, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from aviso_server.core.errors import AvisoError, MalformedBody
from aviso_server.pipeline.ingest.claim import BadClaim, Claim, read_line
from aviso_server.pipeline.ingest.table import ColumnMap, claims, resolve, rows_of

Format: TypeAlias = Literal["ndjson", "csv", "parquet"]

PIECE_BYTES = 32 * 1024 * 1024
"""Of lines that one task reads."""
_BLOCK = 1024 * 1024
_SLICE = 2000
"""Rows of a table held as Python values."""

Raw: TypeAlias = bytes | Mapping[str, object]
SourceRow: TypeAlias = "tuple[int, Claim | AvisoError, Raw]"
"""Number of the line or row, from 1; what it claims, or why it cannot be read; the thing itself."""


class SourceFailed(AvisoError):
    """A history cannot be read; the message says why."""


@dataclass(frozen=True, slots=True)
class FilePiece:
    """A part of a file."""

    path: str
    """Absolute, or a URL."""
    format: Format
    begin: int = 0
    """First byte, or first row group."""
    end: int = -1
    """The one after the last; -1 is the end of the file."""
    first: int = 1
    """Number of its first line or row."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file and what distinguishes one state of it from another."""

    path: str
    size: int
    changed_ns: int


def files(sources: Sequence[str]) -> list[SourceFile]:
    """The files of paths, folders, patterns and URLs, in the order given; SourceFailed."""
    matches: dict[str, SourceFile] = {}
    for source in sources:
        mine = _matching(source)
        if not mine:
            raise SourceFailed(f"there is no file {source}")
        matches |= {item.path: item for item in mine}
    return list(matches.values())


def pieces(file: SourceFile, kind: Format, *, most: int = PIECE_BYTES) -> list[FilePiece]:
    """The pieces of a file; lines are not numbered yet where there are several."""
    if kind == "parquet":
        return list(_row_groups(file.path))
    if kind == "csv" or file.path.endswith(".gz") or file.size <= most:
        return [FilePiece(file.path, kind)]
    cuts = [*range(0, file.size, most), file.size]
    return [FilePiece(file.path, kind, cuts[n], cuts[n + 1]) for n in range(len(cuts) - 1)]


def without_numbers(pieces: Sequence[FilePiece]) -> list[FilePiece]:
    """Pieces whose lines must be counted: all but the last of a file cut by bytes."""
    cut = [piece for piece in pieces if piece.format == "ndjson" and piece.end >= 0]
    return [a for a, b in pairwise(cut) if a.path == b.path]


def with_numbers(
    pieces: Sequence[FilePiece], counts: Mapping[tuple[str, int], int]
) -> list[FilePiece]:
    """The pieces with the numbers of their first lines; counts are by path and first byte."""
    numbered: list[FilePiece] = []
    line = 1
    for piece in pieces:
        if piece.format != "ndjson" or piece.begin == 0:
            line = piece.first
        numbered.append(replace(piece, first=line))
        line += counts.get((piece.path, piece.begin), 0)
    return numbered


def count_lines(piece: FilePiece) -> int:
    """How many lines begin in a piece of a larger file."""
    with _open(piece.path) as stream:
        # A line begins after each end of line from just before the piece on.
        position = max(piece.begin - 1, 0)
        stream.seek(position)
        count = 1 if piece.begin == 0 else 0
        while position < piece.end - 1:
            block = stream.read(min(_BLOCK, piece.end - 1 - position))
            if not block:
                break
            count += block.count(b"\n")
            position += len(block)
        return count


def check(file: SourceFile, kind: Format, mapping: ColumnMap) -> None:
    """Check the columns of a file before anything is done; SourceFailed, BadMapping."""
    try:
        if kind == "parquet":
            with _open(file.path) as stream:
                resolve(mapping, pq.ParquetFile(stream).schema_arrow.names)
        elif kind == "csv":
            next(_values(FilePiece(file.path, "csv"), mapping), None)
    except (OSError, EOFError, csv.Error, pa.ArrowException) as error:
        raise SourceFailed(f"cannot read {file.path} as {kind}: {error}") from error


def read(piece: FilePiece, mapping: ColumnMap) -> Iterator[SourceRow]:
    """What a piece says, line by line or row by row; SourceFailed, BadMapping."""
    try:
        if piece.format == "ndjson":
            yield from _lines(piece)
        elif piece.format == "csv":
            yield from _values(piece, mapping)
        else:
            yield from _rows(piece, mapping)
    except (OSError, EOFError, csv.Error, pa.ArrowException) as error:
        raise SourceFailed(f"cannot read {piece.path}: {error}") from error


def _lines(piece: FilePiece) -> Iterator[SourceRow]:
    with _open(piece.path) as stream:
        position = piece.begin
        if piece.begin:
            stream.seek(piece.begin - 1)
            position += len(stream.readline()) - 1
        number = piece.first
        for line in stream if piece.end < 0 or position < piece.end else ():
            text = line.strip()
            if text:
                yield number, _line(text), text
            number += 1
            position += len(line)
            if 0 <= piece.end <= position:
                return


def _line(text: bytes) -> Claim | AvisoError:
    try:
        return read_line(text)
    except (MalformedBody, BadClaim) as error:
        return error


def _values(piece: FilePiece, mapping: ColumnMap) -> Iterator[SourceRow]:
    with _open(piece.path) as stream:
        text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
        reader = csv.reader(text, strict=True)
        names = next(reader, None)
        if names is None:
            return
        columns = resolve(mapping, names)
        for values in reader:
            if not values:
                continue
            row: dict[str, object] = {
                name: value or None for name, value in zip(names, values, strict=False)
            }
            claim: Claim | AvisoError
            if len(values) != len(names):
                claim = BadClaim(
                    "row", f"the row has {len(values)} values, the header {len(names)}"
                )
            elif not _is_text(values):
                claim = BadClaim("row", "the row is not valid UTF-8")
            else:
                claim = next(claims([row], columns, mapping.event_type))
            yield reader.line_num, claim, row


def _is_text(values: list[str]) -> bool:
    try:
        "".join(values).encode()
    except UnicodeEncodeError:
        return False
    return True


def _rows(piece: FilePiece, mapping: ColumnMap) -> Iterator[SourceRow]:
    with _open(piece.path) as stream:
        file = pq.ParquetFile(stream)
        columns = resolve(mapping, file.schema_arrow.names)
        number = piece.first
        groups = list(range(piece.begin, piece.end))
        for batch in file.iter_batches(
            _SLICE, row_groups=groups, columns=sorted(set(columns.values()))
        ):
            rows = rows_of(batch, columns)
            for row, claim in zip(rows, claims(rows, columns, mapping.event_type), strict=True):
                yield number, claim, row
                number += 1


def _row_groups(path: str) -> Iterator[FilePiece]:
    try:
        with _open(path) as stream:
            footer = pq.ParquetFile(stream).metadata
            first = 1
            for number in range(footer.num_row_groups):
                yield FilePiece(path, "parquet", number, number + 1, first)
                first += footer.row_group(number).num_rows
    except (OSError, pa.ArrowException) as error:
        raise SourceFailed(f"cannot read {path} as Parquet: {error}") from error


def _matching(source: str) -> list[SourceFile]:
    try:
        if "://" in source:
            system, path = fs.FileSystem.from_uri(source)
            scheme = source.partition("://")[0]
            return [replace(f, path=f"{scheme}://{f.path}") for f in _below(system, path)]
        if set("*?[") & set(source):
            at = Path(source).absolute()
            matches = sorted(Path(at.anchor).glob(str(at.relative_to(at.anchor))))
        else:
            matches = [Path(source).absolute()]
        local = fs.LocalFileSystem()
        return [item for match in matches for item in _below(local, str(match))]
    except (OSError, pa.ArrowException) as error:
        raise SourceFailed(f"cannot read {source}: {error}") from error


def _below(system: fs.FileSystem, path: str) -> list[SourceFile]:
    info = system.get_file_info(path)
    if info.type == fs.FileType.NotFound:
        return []
    if info.type == fs.FileType.File:
        return [_file(info)]
    inside = system.get_file_info(fs.FileSelector(path, recursive=True))
    return [
        _file(item)
        for item in sorted(inside, key=lambda item: item.path)
        # As in Spark: names that begin like this are bookkeeping.
        if item.type == fs.FileType.File and item.base_name[0] not in "_."
    ]


def _file(info: fs.FileInfo) -> SourceFile:
    return SourceFile(info.path, info.size, info.mtime_ns or 0)


@contextmanager
def _open(path: str) -> Iterator[IO[bytes]]:
    with ExitStack() as stack:
        if "://" in path:
            system, name = fs.FileSystem.from_uri(path)
            file = stack.enter_context(system.open_input_file(name))
            stream = cast("IO[bytes]", io.BufferedReader(file, _BLOCK))
        else:
            stream = stack.enter_context(Path(path).open("rb", _BLOCK))
        if path.endswith(".gz"):
            stream = cast("IO[bytes]", stack.enter_context(gzip.open(stream)))
        yield stream
