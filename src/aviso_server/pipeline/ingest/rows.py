"""Validated rows: notifications and rejections in one table, on their way through Spark.

Good rows have the columns of the lake and no code; bad ones have code, reason and the source's own
text. Both know where they come from.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema

from aviso_server.core.errors import AvisoError
from aviso_server.core.json import UNREADABLE
from aviso_server.core.notification import Notification, Record
from aviso_server.lake.layout import RECORD
from aviso_server.lake.record import records_to_batch
from aviso_server.pipeline.ingest.files import Raw, SourceRow
from aviso_server.pipeline.ingest.validate import Rejection, Validator, rejection_of

BATCH = 5000
RAW_CHARACTERS = 100_000
"""Of a rejected row that are kept."""

STORED = [name for name in RECORD.names if name not in ("id", "time")]
"""The columns of the lake that are kept: the others follow from them."""

STAGED = pa.schema(
    [
        *(pa.field(name, RECORD.field(name).type) for name in STORED),
        pa.field("source", pa.string()),
        pa.field("line", pa.int64()),
        pa.field("code", pa.string()),
        pa.field("field", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("raw", pa.string()),
    ]
)

SPARK_STAGED = from_arrow_schema(STAGED)

NO_TIME = Rejection("NO_TIME", "time", "the row has no time, which the lake needs")
NO_SEQUENCE = Rejection("NO_SEQUENCE", "sequence", "the row has no sequence, which the lake needs")


def validate_rows(
    source: str, rows: Iterable[SourceRow], validator: Validator, *, stored: bool = False
) -> Iterator[pa.RecordBatch]:
    """Batches of STAGED; with ``stored`` a row needs its own time and sequence."""
    waiting = iter(rows)
    while chunk := list(islice(waiting, BATCH)):
        yield _batch(source, chunk, validator, stored=stored)


def _batch(
    source: str, chunk: Sequence[SourceRow], validator: Validator, *, stored: bool
) -> pa.RecordBatch:
    records: list[Record] = []
    good: list[dict[str, object]] = []
    bad: list[dict[str, object]] = []
    for line, claim, raw in chunk:
        own: dict[str, object] = {"sequence": None, "time_ns": None}
        if isinstance(claim, AvisoError):
            verdict: Notification | Rejection = rejection_of(claim)
        else:
            own = {"sequence": claim.sequence, "time_ns": claim.time_ns}
            verdict = _verdict(validator.validate(claim), own, stored=stored)
        where = {**own, "source": source, "line": line}
        if isinstance(verdict, Notification):
            records.append(Record(0, 0, verdict))
            good.append(where)
        else:
            bad.append(_rejected_row(where, claim, verdict, raw))
    staged = pa.Table.from_pylist(bad, schema=STAGED)
    if records:
        staged = pa.concat_tables([_accepted_table(records, good), staged])
    return staged.combine_chunks().to_batches()[0]


def _verdict(
    verdict: Notification | Rejection, own: Mapping[str, object], *, stored: bool
) -> Notification | Rejection:
    if isinstance(verdict, Rejection):
        return verdict
    if stored and own["sequence"] is None:
        return NO_SEQUENCE
    if stored and own["time_ns"] is None:
        return NO_TIME
    return verdict


def _accepted_table(records: list[Record], where: list[dict[str, object]]) -> pa.Table:
    batch = records_to_batch(records)
    own = ("sequence", "time_ns", "source", "line")
    given = {name: [item[name] for item in where] for name in own}
    columns = [
        pa.array(given[item.name], item.type)
        if item.name in own
        else batch.column(item.name)
        if item.name in RECORD.names
        else pa.nulls(len(records), item.type)
        for item in STAGED
    ]
    return pa.Table.from_arrays(columns, schema=STAGED)


def _rejected_row(
    where: Mapping[str, object], claim: object, why: Rejection, raw: Raw
) -> dict[str, object]:
    named = getattr(claim, "event_type", None)
    return {
        **where,
        "event_type": None if named is None else _text(named),
        "code": why.code,
        "field": why.field,
        "reason": why.reason.encode(errors="replace").decode(),
        "raw": raw_text(raw)[:RAW_CHARACTERS],
    }


def _text(data: bytes) -> str:
    """An event type as it was spelled."""
    try:
        value = msgspec.json.decode(data)
    except UNREADABLE:
        value = None
    return value if isinstance(value, str) else data.decode(errors="replace")


def runs(batch: pa.RecordBatch) -> Iterator[pa.Table]:
    """Parts of a batch with one event type each."""
    begin = 0
    for end in pc.run_end_encode(batch.column("event_type")).run_ends.to_pylist():
        yield pa.Table.from_batches([batch.slice(begin, end - begin)])
        begin = end


def raw_text(raw: Raw) -> str:
    """The row itself: the line, or JSON of the values of a table."""
    if isinstance(raw, bytes):
        return raw.decode(errors="replace")
    values = {
        name: f"0x{value.hex()}" if isinstance(value, bytes) else _encodable(value)
        for name, value in raw.items()
        if value is not None
    }
    return msgspec.json.encode(values, enc_hook=str).decode()


def _encodable(value: object) -> object:
    """Text that can be written; bytes that are none become question marks."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value
