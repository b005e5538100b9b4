"""The archive's sink: tasks write Parquet, the driver makes one commit of it.

Rules
- A task writes files and reports what it wrote; nothing is visible before the driver commits.
- Rows of three kinds come in: notifications; dead letters, which have a ``problem``; and marks,
  which have no time and tell how far a task came or what it found lost.
- The driver commits dead letters first, then what was lost, then notifications and marks. All can
  be repeated, and only the last moves the marks: killed in between, everything is done again.
"""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from aviso_server.lake.commit import commit
from aviso_server.lake.files import FileWriter, Written
from aviso_server.lake.layout import DEAD_LETTER_TABLE, LOST, RECORD, Place
from aviso_server.lake.outcome import discard
from aviso_server.lake.storage import LakeFailed
from aviso_server.lake.tombstones import append_tombstones
from aviso_server.pipeline.archive.deadletters import Bundle, Gathered, append, unstage
from aviso_server.pipeline.source.columns import LOSS, lost_range
from aviso_server.pipeline.source.parcel import Parcel

Lost: TypeAlias = tuple[str, int, int]
"""Event type, first and last sequence that the log no longer had."""


@dataclass(frozen=True, slots=True)
class Report(WriterCommitMessage):
    """What one task did."""

    written: tuple[Written, ...] = ()
    marks: dict[str, int] = field(default_factory=dict)
    """Through which sequence each event type was read."""
    lost: tuple[Lost, ...] = ()
    letters: Bundle = field(default_factory=Bundle)


class LakeWriter(Parcel, DataSourceStreamArrowWriter):
    """Writes micro-batches of the source's rows to a lake."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Report:
        """In a task: write the rows; on failure leave nothing behind."""
        try:
            writer, letters = FileWriter(self._place), Gathered(self._place)
            try:
                return self._written(iterator, writer, letters)
            except BaseException:
                writer.discard()
                with contextlib.suppress(OSError):
                    letters.discard()
                raise
        except OSError as error:
            raise LakeFailed(f"cannot write to {self._place.path}: {error}") from error

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002 - Spark's name; marks, not batches, say what is new
        """On the driver: make what the tasks wrote part of the lake."""
        reports = [item for item in messages if isinstance(item, Report)]
        marks = _highest(item.marks for item in reports)
        append(self._place, [item.letters for item in reports])
        lost = [missing for item in reports for missing in item.lost]
        append_tombstones(self._place, lost, kind=LOST)
        if marks:
            commit(self._place, [file for item in reports for file in item.written], marks)
        unstage(self._place, [path for item in reports for path in item.letters.files])

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002 - Spark's name
        """On the driver: remove what the tasks wrote, if it surely was not committed."""
        reports = [item for item in messages if isinstance(item, Report)]
        # Spark asks for this after a commit that failed, too, while that may even be running. Then
        # all tasks have reported, and only the commit itself knows what may go.
        if len(reports) < len(messages):
            discard(self._place, [file.path for item in reports for file in item.written])
        unstage(self._place, [path for item in reports for path in item.letters.files])

    @staticmethod
    def _written(
        batches: Iterator[pa.RecordBatch], writer: FileWriter, letters: Gathered
    ) -> Report:
        marks: dict[str, int] = {}
        lost: list[Lost] = []
        for batch in batches:
            good, bad, told = divided(batch)
            if good.num_rows:
                writer.write(good)
            if bad.num_rows:
                letters.add(bad)
            for name, sequence, problem in told:
                if problem is None:
                    marks[name] = max(sequence, marks.get(name, 0))
                else:
                    lost.append((name, *lost_range(problem)))
        return Report(tuple(writer.close()), marks, tuple(lost), letters.bundle())


def divided(
    batch: pa.RecordBatch,
) -> tuple[pa.RecordBatch, pa.RecordBatch, list[tuple[str, int, str | None]]]:
    """Notifications, dead letters, and marks as (event type, sequence, problem)."""
    times, problems = batch.column("time"), batch.column("problem")
    if times.null_count == 0 and problems.null_count == batch.num_rows:
        return _shaped(batch, RECORD), _shaped(batch.slice(0, 0), DEAD_LETTER_TABLE), []
    troubled, timeless = pc.is_valid(problems), pc.is_null(times)
    loss = pc.and_(timeless, pc.fill_null(pc.starts_with(problems, LOSS), fill_value=False))
    # A letter may have no time either, if not even that could be read.
    marks = batch.filter(pc.or_(loss, pc.and_(timeless, pc.invert(troubled))))
    letters = batch.filter(pc.and_(troubled, pc.invert(loss)))
    good = batch.filter(pc.and_(pc.invert(timeless), pc.invert(troubled)))
    told = zip(
        marks.column("event_type").to_pylist(),
        marks.column("sequence").to_pylist(),
        marks.column("problem").to_pylist(),
        strict=True,
    )
    return _shaped(good, RECORD), _shaped(letters, DEAD_LETTER_TABLE), list(told)


def _shaped(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a schema; Spark's own types differ in names and in what may be null."""
    columns = [batch.column(item.name).cast(item.type) for item in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _highest(found: Iterable[dict[str, int]]) -> dict[str, int]:
    highest: dict[str, int] = {}
    for marks in found:
        for name, sequence in marks.items():
            highest[name] = max(sequence, highest.get(name, 0))
    return highest
