"""The Spark source as plain Python: streams filled by a real backend, rows read without Spark."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from uuid import uuid4

import pyarrow as pa
from backends.contract import NONE, OPEN
from backends.jetstream.conftest import brisk
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from aviso_server.backends.jetstream.backend import JetStreamBackend
from aviso_server.backends.jetstream.options import StreamDefaults
from aviso_server.core.announcement import notification_of
from aviso_server.core.json import Json
from aviso_server.core.schema import Schema
from aviso_server.core.wire import NotificationRequest
from aviso_server.pipeline.source.batch import BatchReader
from aviso_server.pipeline.source.columns import SPARK
from aviso_server.pipeline.source.options import read_options
from aviso_server.pipeline.source.stream import StreamReader

_Result = TypeVar("_Result")

RING = "(52.5,13.4,52.6,13.5,52.5,13.6,52.5,13.4)"

SAMPLES: Mapping[str, tuple[dict[str, Json], Json]] = {
    "ev": ({"region": "a.b é"}, None),
    "diss2": ({"destination": "FOO", "note": "beside the topic"}, "text"),
    "test_polygon": ({"date": "20260101", "time": "1200", "polygon": RING}, {"b": 1.0, "a": [2]}),
    "observations": ({"date": "20260101", "point_cloud": [[1.5, -0.5], [2, 3]]}, 5),
    "Foo": ({"any": "thing", "polygon": "text"}, {}),
}
"""One notification of each kind: dots in tokens, fields beside the topic, places, no schema."""


def on_backend(
    url: str, do: Callable[[JetStreamBackend], Awaitable[_Result]], **streams: Any
) -> _Result:
    """Do something with a backend on a server; streams are kept as the defaults say."""

    async def run() -> _Result:
        options = replace(brisk(url), streams=StreamDefaults(**streams))
        # Without event types at the start: there are the streams that a test fills, and no others.
        patient = replace(options, pace=replace(options.pace, check_s=3600))
        backend = await JetStreamBackend.open(patient, NONE)
        backend.adopt(OPEN)
        try:
            return await do(backend)
        finally:
            await backend.close()

    return asyncio.run(run())


async def append(
    backend: JetStreamBackend,
    event_type: str,
    items: Sequence[tuple[dict[str, Json], Json]],
    *,
    schema: Schema | None = None,
) -> None:
    """Store notifications of one event type, in order."""
    schema = schema or OPEN.find(event_type)
    for identifier, payload in items:
        request = NotificationRequest(event_type=event_type, identifier=identifier, payload=payload)
        await backend.append(notification_of(schema, request), key=str(uuid4()))


def fill(url: str, count: int, *, first: int = 1, event_type: str = "ev", **streams: Any) -> None:
    """Store notifications whose payloads are numbers from ``first`` on."""
    items: list[tuple[dict[str, Json], Json]] = [
        ({"region": "even" if n % 2 == 0 else "odd"}, n) for n in range(first, first + count)
    ]
    on_backend(url, lambda backend: append(backend, event_type, items), **streams)


def batch(columns: StructType = SPARK, /, **options: str) -> BatchReader:
    """A batch reader, as Spark would make it."""
    return BatchReader(read_options(options), columns)


def stream(**options: str) -> StreamReader:
    """A stream reader, as Spark would make it."""
    return StreamReader(read_options(options), SPARK)


def read_batch(columns: StructType = SPARK, /, **options: str) -> pa.Table:
    """All rows of a batch read, partition by partition."""
    reader = batch(columns, **options)
    rows = (found for part in reader.partitions() for found in reader.read(part))
    return table(rows, columns)


def table(batches: Iterator[pa.RecordBatch], columns: StructType = SPARK) -> pa.Table:
    """Batches as one table."""
    return pa.Table.from_batches(list(batches), to_arrow_schema(columns, timezone="UTC"))


def payloads(rows: pa.Table) -> list[str | None]:
    """The payload column."""
    found: list[str | None] = rows["payload"].to_pylist()
    return found
