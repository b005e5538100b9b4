"""The Spark sink: rows published as notifications, batch or streaming (docs/sink.md).

Theory of operation
Each task makes requests of its rows and posts them in batches, several at a time. What the server
rejects goes to the task's dead-letter file. A task that fails is run again by Spark, with the same
keys: what is stored already is not stored again while the server remembers the keys (120 s).
Nothing is undone by an abort: a published notification cannot be taken back. The driver adds up
what the tasks report.
"""

import threading
import uuid
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from time import monotonic

import pyarrow as pa
import structlog
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import BinaryType, MapType, StringType, StructType

from aviso_server.lake.layout import NOTIFICATION_TABLE
from aviso_server.pipeline.sink.client import Client, NotSent, Outcome, Stored
from aviso_server.pipeline.sink.letters import LETTERS, Letters
from aviso_server.pipeline.sink.options import BadOptions, Options, parse_options
from aviso_server.pipeline.sink.request import Refusal, Request, prepared, rows_of

MAX_BATCH_BYTES = 4 * 1024 * 1024
"""Of one request: half of what a server takes by default (application.max_batch_bytes)."""

EXAMPLES = 5
"""Rejections that a task reports in words."""

SEEN = 500_000
"""Ids a task remembers to tell repeats; beyond them repeats count as published."""

_KNOWN = frozenset({*NOTIFICATION_TABLE.names, *LETTERS.names, "problem", "raw"})
"""Columns of the source, of the lake's table and of dead letters: all can be written again."""


class Rejected(RuntimeError):
    """Rows were not taken and the write was told to fail for that."""


@dataclass
class Sent(WriterCommitMessage):
    """What one task did."""

    published: int = 0
    repeated: int = 0
    """Rows that got the id of an earlier row: the same key, stored once."""
    rejected: int = 0
    reasons: list[str] = field(default_factory=list)
    letters: str | None = None


class _Sink:
    """What batch and streaming writes have in common."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def publish(self, batches: Iterable[pa.RecordBatch]) -> Sent:
        """Publish the rows of one task; NotSent if the server does not let us."""
        options = self.options
        task = _Task(options)
        client = Client(options)
        chunks = _chunks(_requests(batches, options, task), options.batch_size)
        waiting: deque[Future[list[Outcome]]] = deque()
        try:
            with ThreadPoolExecutor(options.max_in_flight) as threads:
                try:
                    for chunk in _paced(chunks, options.rate):
                        waiting.append(threads.submit(client.post, chunk))
                        if len(waiting) >= options.max_in_flight:
                            task.take(waiting.popleft().result())
                    while waiting:
                        task.take(waiting.popleft().result())
                except BaseException:
                    client.stop()
                    threads.shutdown(wait=False, cancel_futures=True)
                    raise
        finally:
            client.close()
            sent = task.finish()
        return sent

    def conclude(self, messages: Sequence[WriterCommitMessage | None], **about: int) -> None:
        """Log the sum of all tasks; Rejected if that is what the caller wants."""
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
            dead_letters=[s.letters for s in sums if s.letters is not None],
            reasons=reasons,
            **about,
        )
        if rejected and self.options.on_reject == "fail":
            raise Rejected(
                f"{rejected} rows were rejected ({published} were published): " + "; ".join(reasons)
            )

    def give_up(self, messages: Sequence[WriterCommitMessage | None], **about: int) -> None:
        """Log what an aborted write leaves behind."""
        sums = [message for message in messages if isinstance(message, Sent)]
        structlog.get_logger().warning(
            "Write aborted: what was published stays published, dead letters are kept",
            event_name="pipeline.sink.aborted",
            published=sum(s.published for s in sums),
            rejected=sum(s.rejected for s in sums),
            dead_letters=self.options.dead_letters,
            **about,
        )


class BatchSink(DataSourceArrowWriter):
    """``df.write.format("aviso")``."""

    def __init__(self, options: Options) -> None:
        self._sink = _Sink(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        """Publish the rows of one task."""
        return self._sink.publish(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Every task is done."""
        self._sink.conclude(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """A task failed for good."""
        self._sink.give_up(messages)


class StreamSink(DataSourceStreamArrowWriter):
    """``df.writeStream.format("aviso")``."""

    def __init__(self, options: Options) -> None:
        self._sink = _Sink(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        """Publish the rows of one task."""
        return self._sink.publish(iterator)

    def commit(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 - Spark's name
    ) -> None:
        """Every task of a micro-batch is done."""
        self._sink.conclude(messages, batch=batchId)

    def abort(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 - Spark's name
    ) -> None:
        """A task of a micro-batch failed for good."""
        self._sink.give_up(messages, batch=batchId)


def batch_writer(
    options: Mapping[str, str],
    schema: StructType,
    overwrite: bool,  # noqa: FBT001 - as Spark calls it
) -> BatchSink:
    """The writer of a batch write; BadOptions before any row is sent."""
    return BatchSink(_checked(options, schema, overwrite=overwrite))


def stream_writer(
    options: Mapping[str, str],
    schema: StructType,
    overwrite: bool,  # noqa: FBT001 - as Spark calls it
) -> StreamSink:
    """The writer of a streaming write; BadOptions before any row is sent."""
    return StreamSink(_checked(options, schema, overwrite=overwrite))


class _Task:
    """Counts of one task and its dead letters."""

    def __init__(self, options: Options) -> None:
        self._sent = Sent()
        self._reasons: Counter[str] = Counter()
        self._seen: set[str] = set()
        self._letters: Letters | None = None
        if options.dead_letters is not None:
            context = TaskContext.get()
            part = 0 if context is None else context.partitionId()
            name = f"rejected-{part:05d}-{uuid.uuid4().hex}.parquet"
            self._letters = Letters(options.dead_letters, name)

    def take(self, outcomes: Iterable[Outcome]) -> None:
        """Note what became of requests."""
        for outcome in outcomes:
            if isinstance(outcome, Refusal):
                self.reject(outcome)
            elif outcome.id in self._seen:
                self._sent.repeated += 1
            else:
                self._accept(outcome)

    def reject(self, refusal: Refusal) -> None:
        """Keep a row that will not be a notification."""
        self._sent.rejected += 1
        reason = f"{refusal.code}: {refusal.message}"
        if reason in self._reasons or len(self._reasons) < EXAMPLES:
            self._reasons[reason] += 1
        if self._letters is not None:
            self._letters.add(refusal)

    def finish(self) -> Sent:
        """Close the file of dead letters; the report."""
        self._sent.reasons = [f"{why} ({n}x)" for why, n in self._reasons.most_common()]
        if self._letters is not None:
            self._sent.letters = self._letters.close()
        return self._sent

    def _accept(self, stored: Stored) -> None:
        self._sent.published += 1
        if len(self._seen) < SEEN:
            self._seen.add(stored.id)


def _requests(
    batches: Iterable[pa.RecordBatch], options: Options, task: _Task
) -> Iterator[Request]:
    for batch in batches:
        for row in rows_of(batch, event_type=options.event_type, key_column=options.key_column):
            made = prepared(row)
            if isinstance(made, Request):
                yield made
            else:
                task.reject(made)


def _chunks(requests: Iterable[Request], size: int) -> Iterator[list[Request]]:
    """Batches bounded in number and in bytes."""
    chunk: list[Request] = []
    room = MAX_BATCH_BYTES
    for request in requests:
        if chunk and (len(chunk) >= size or len(request.body) + 1 > room):
            yield chunk
            chunk, room = [], MAX_BATCH_BYTES
        chunk.append(request)
        room -= len(request.body) + 1
    if chunk:
        yield chunk


def _paced(chunks: Iterable[list[Request]], rate: float | None) -> Iterator[list[Request]]:
    """The chunks, not faster than ``rate`` notifications per second."""
    if rate is None:
        yield from chunks
        return
    due = monotonic()
    for chunk in chunks:
        _pause(due - monotonic())
        yield chunk
        due = max(due, monotonic()) + len(chunk) / rate


def _pause(seconds: float) -> None:
    """Wait; nothing can be done meanwhile, for the rate is the caller's wish."""
    if seconds > 0:
        threading.Event().wait(seconds)


def _checked(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> Options:
    if overwrite:
        raise BadOptions(
            'a published notification cannot be overwritten: use mode("append"), '
            'or outputMode("append") in a stream'
        )
    parsed = parse_options(options)
    faults = list(_column_faults(parsed, schema))
    if faults:
        raise BadOptions("; ".join(faults))
    return parsed


def _column_faults(options: Options, schema: StructType) -> Iterator[str]:
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


__all__ = [
    "BatchSink",
    "NotSent",
    "Rejected",
    "Sent",
    "StreamSink",
    "batch_writer",
    "stream_writer",
]
