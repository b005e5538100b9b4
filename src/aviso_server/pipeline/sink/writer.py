"""The Spark sink: rows published as notifications, batch or streaming (docs/sink.md).

Theory of operation
Each task makes requests of its rows and posts them in batches, several at a time. What the server
rejects goes to the task's dead-letter file. A task that fails is run again by Spark, with the same
keys: what is stored already is not stored again while the server remembers the keys (120 s).
Nothing is undone by an abort: a published notification cannot be taken back. The driver adds up
what the tasks report.
"""

import uuid
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa
import structlog
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import BinaryType, MapType, StringType, StructType

from aviso_server.core.errors import AvisoError
from aviso_server.lake.layout import NOTIFICATION_TABLE
from aviso_server.pipeline.delivery.batches import SendingPace, batches
from aviso_server.pipeline.delivery.client import Accepted, Client, Result
from aviso_server.pipeline.sink.options import BadSinkOptions, SinkOptions, parse_options
from aviso_server.pipeline.sink.rejected import REJECTED, RejectedFile
from aviso_server.pipeline.sink.request import RejectedRow, Request, request_of, rows_of

EXAMPLES = 5
"""Rejections that a task reports with their messages."""

SEEN = 500_000
"""Ids a task remembers to recognise repeats; beyond them repeats count as published."""

_KNOWN = frozenset({*NOTIFICATION_TABLE.names, *REJECTED.names, "problem", "raw"})
"""Columns of the source, of the lake's table and of dead letters: all can be written again."""


class RowsRejected(AvisoError):
    """Rows were not taken and the write was to fail for that."""


@dataclass
class Sent(WriterCommitMessage):
    """What one task did."""

    published: int = 0
    repeated: int = 0
    """Rows that got the id of an earlier row: the same key, stored once."""
    rejected: int = 0
    reasons: list[str] = field(default_factory=list)
    dead_letters: str | None = None


class SinkWriter(DataSourceArrowWriter, DataSourceStreamArrowWriter):
    """``df.write.format("aviso")`` and ``df.writeStream.format("aviso")``."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        """Publish the rows of one task; NotSent if the server does not let us."""
        options = self._options
        task, pace = _Task(options), SendingPace(options.rate)
        client = Client(options, connections=options.max_in_flight)
        waiting: deque[tuple[list[Request], Future[list[Result]]]] = deque()
        try:
            with ThreadPoolExecutor(options.max_in_flight) as threads:
                try:
                    for batch in batches(_requests(iterator, options, task), options.batch_size):
                        pace.wait(len(batch))
                        bodies = [request.body for request in batch]
                        waiting.append((batch, threads.submit(client.post, bodies)))
                        if len(waiting) >= options.max_in_flight:
                            task.take(*waiting.popleft())
                    while waiting:
                        task.take(*waiting.popleft())
                except BaseException:
                    client.stop()
                    threads.shutdown(wait=False, cancel_futures=True)
                    raise
        finally:
            client.close()
            sent = task.finish()
        return sent

    def commit(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int | None = None,  # noqa: N803 - Spark's name, of streams only
    ) -> None:
        """Log the sum of all tasks; RowsRejected if that is what the caller wants."""
        sums = [message for message in messages if isinstance(message, Sent)]
        published, repeated = sum(s.published for s in sums), sum(s.repeated for s in sums)
        rejected = sum(s.rejected for s in sums)
        reasons = [reason for s in sums for reason in s.reasons][:EXAMPLES]
        journal = structlog.get_logger()
        (journal.warning if rejected else journal.info)(
            "Rows published",
            event_name="pipeline.sink.committed",
            published=published,
            repeated=repeated,
            rejected=rejected,
            dead_letters=[s.dead_letters for s in sums if s.dead_letters is not None],
            reasons=reasons,
            **_about(batchId),
        )
        if rejected and self._options.on_reject == "fail":
            raise RowsRejected(
                f"{rejected} rows were rejected ({published} were published): " + "; ".join(reasons)
            )

    def abort(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int | None = None,  # noqa: N803 - Spark's name, of streams only
    ) -> None:
        """Log what an aborted write leaves."""
        sums = [message for message in messages if isinstance(message, Sent)]
        structlog.get_logger().warning(
            "Write aborted: what was published stays published, dead letters are kept",
            event_name="pipeline.sink.aborted",
            published=sum(s.published for s in sums),
            rejected=sum(s.rejected for s in sums),
            dead_letters=self._options.dead_letters,
            **_about(batchId),
        )


def _about(batch: int | None) -> dict[str, int]:
    return {} if batch is None else {"batch": batch}


def sink_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> SinkWriter:
    """The writer of a batch or streaming write; BadSinkOptions before any row is sent."""
    return SinkWriter(_check(options, schema, overwrite=overwrite))


class _Task:
    """Counts of one task and its dead letters."""

    def __init__(self, options: SinkOptions) -> None:
        self._sent = Sent()
        self._reasons: Counter[str] = Counter()
        self._seen: set[str] = set()
        self._file: RejectedFile | None = None
        if options.dead_letters is not None:
            context = TaskContext.get()
            part = 0 if context is None else context.partitionId()
            name = f"rejected-{part:05d}-{uuid.uuid4().hex}.parquet"
            self._file = RejectedFile(options.dead_letters, name)

    def take(self, requests: list[Request], results: "Future[list[Result]]") -> None:
        """Record the results of requests."""
        for request, result in zip(requests, results.result(), strict=True):
            if isinstance(result, Accepted):
                self._accept(result.id)
            else:
                self.reject(RejectedRow.by_server(request, result))

    def reject(self, refusal: RejectedRow) -> None:
        """Keep a row that will not be a notification."""
        self._sent.rejected += 1
        reason = f"{refusal.code}: {refusal.message}"
        if reason in self._reasons or len(self._reasons) < EXAMPLES:
            self._reasons[reason] += 1
        if self._file is not None:
            self._file.add(refusal)

    def finish(self) -> Sent:
        """Close the file of dead letters; the report."""
        self._sent.reasons = [f"{why} ({n}x)" for why, n in self._reasons.most_common()]
        if self._file is not None:
            self._sent.dead_letters = self._file.close()
        return self._sent

    def _accept(self, notification: str) -> None:
        if notification in self._seen:
            self._sent.repeated += 1
            return
        self._sent.published += 1
        if len(self._seen) < SEEN:
            self._seen.add(notification)


def _requests(
    rows: Iterable[pa.RecordBatch], options: SinkOptions, task: _Task
) -> Iterator[Request]:
    for batch in rows:
        for row in rows_of(batch, event_type=options.event_type, key_column=options.key_column):
            request = request_of(row)
            if isinstance(request, Request):
                yield request
            else:
                task.reject(request)


def _check(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> SinkOptions:
    if overwrite:
        raise BadSinkOptions(
            'a published notification cannot be overwritten: use mode("append"), '
            'or outputMode("append") in a stream'
        )
    parsed = parse_options(options)
    faults = list(_column_faults(parsed, schema))
    if faults:
        raise BadSinkOptions("; ".join(faults))
    return parsed


def _column_faults(options: SinkOptions, schema: StructType) -> Iterator[str]:
    types = {column.name: column.dataType for column in schema.fields}
    key = options.key_column
    unknown = sorted(types.keys() - _KNOWN - {key})
    if unknown:
        yield f"columns that mean nothing here: {', '.join(unknown)}; leave them out"
    if options.event_type is None and "event_type" not in types:
        yield "no column 'event_type' and no option eventType"
    identifier = types.get("identifier")
    texts = isinstance(identifier, MapType) and all(
        isinstance(kind, StringType) for kind in (identifier.keyType, identifier.valueType)
    )
    if not texts and not isinstance(identifier, StructType):
        yield "column 'identifier' is a map<string,string> or a struct, and must be there"
    for name in ("event_type", "payload", "polygon"):
        if name in types and not isinstance(types[name], StringType):
            yield f"column '{name}' is text, not {types[name].simpleString()}"
    if not isinstance(types.get("geometry", BinaryType()), BinaryType):
        yield "column 'geometry' is WKB in a binary column"
    if key is not None and not isinstance(types.get(key), StringType):
        yield f"idempotencyKey names the text column '{key}', which is not there"
