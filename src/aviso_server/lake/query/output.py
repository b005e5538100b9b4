"""Answers of queries as text and as files, a batch at a time."""

import csv
import io
from collections.abc import Callable, Iterator
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

Format: TypeAlias = Literal["table", "csv", "json", "ndjson", "parquet"]

Reader: TypeAlias = pa.RecordBatchReader
"""For modules that may not import pyarrow."""

_Plain: TypeAlias = Callable[[Any], Any]


def head(reader: pa.RecordBatchReader, limit: int) -> tuple[list[str], list[list[str]], bool]:
    """Names of the columns, the first rows as text, and whether there are more; 0 is all."""
    rows: list[list[str]] = []
    for row in _rows(reader):
        if limit and len(rows) == limit:
            return reader.schema.names, rows, True
        rows.append(["NULL" if value is None else _text(value) for value in row])
    return reader.schema.names, rows, False


def lines(reader: pa.RecordBatchReader, form: Format) -> Iterator[str]:
    """The whole answer as CSV, JSON or NDJSON, in parts."""
    if form == "csv":
        yield _csv([reader.schema.names])
        yield from (
            _csv([["" if value is None else _text(value) for value in row]])
            for row in _rows(reader)
        )
        return
    names = reader.schema.names
    objects = (msgspec.json.encode(dict(zip(names, row, strict=True))) for row in _rows(reader))
    if form == "ndjson":
        yield from (f"{item.decode()}\n" for item in objects)
        return
    before = "["
    for item in objects:
        yield f"{before}\n{item.decode()}"
        before = ","
    yield "[]\n" if before == "[" else "\n]\n"


def write_parquet(reader: pa.RecordBatchReader, path: str) -> None:
    """The whole answer as a Parquet file."""
    with pq.ParquetWriter(path, reader.schema, compression="zstd") as writer:
        for batch in reader:
            writer.write_batch(batch)


def _rows(reader: pa.RecordBatchReader) -> Iterator[list[Any]]:
    """Rows of plain values: what JSON has, and texts."""
    plain = [_plain(field.type) for field in reader.schema]
    for batch in reader:
        columns = [column.to_pylist() for column in batch.columns]
        for row in zip(*columns, strict=True):
            yield [
                value if value is None or make is None else make(value)
                for make, value in zip(plain, row, strict=True)
            ]


def _plain(kind: pa.DataType) -> _Plain | None:
    """How values of a type become plain; None where they are."""
    if pa.types.is_map(kind):
        key, item = _plain(kind.key_type), _plain(kind.item_type)
        return lambda pairs: {_text(_made(key, k)): _made(item, v) for k, v in pairs}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        item = _plain(kind.value_type)
        return lambda values: [_made(item, value) for value in values]
    if pa.types.is_struct(kind):
        fields = {field.name: _plain(field.type) for field in kind}
        return lambda value: {name: _made(make, value[name]) for name, make in fields.items()}
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return bytes.hex
    if pa.types.is_decimal(kind):
        return _number
    if pa.types.is_temporal(kind):
        return _moment
    return None


def _made(make: _Plain | None, value: Any) -> Any:  # noqa: ANN401 - of any column
    return value if make is None or value is None else make(value)


def _number(value: Decimal) -> int | float:
    return int(value) if value == value.to_integral_value() else float(value)


def _moment(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date | time) else str(value)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def _csv(rows: list[list[str]]) -> str:
    made = io.StringIO()
    csv.writer(made).writerows(rows)
    return made.getvalue()
