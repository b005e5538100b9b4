"""The archive's sink: tasks write Parquet, the driver makes one commit of it.

Rules
- A task writes files and reports what it wrote; nothing is visible before the driver commits.
- Rows of three kinds come in (source/columns): notifications, dead letters, and marks, which say
  what a task has read and what it found lost.
- The driver commits dead letters first, then what was lost, then notifications and marks. All can
  be repeated, and only the last moves the marks: killed in between, everything is done again.
"""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from aviso_server.lake.commit import commit
from aviso_server.lake.files import FileWriter, Written
from aviso_server.lake.layout import LOST, Place
from aviso_server.lake.outcome import discard
from aviso_server.lake.storage import LakeFailed
from aviso_server.lake.tombstones import append_tombstones
from aviso_server.pipeline.archive.deadletters import Bundle, Gathered, append, unstage
from aviso_server.pipeline.source.columns import divide
from aviso_server.pipeline.source.pickling import Parcel
from aviso_server.pipeline.source.ranges import Range


@dataclass(frozen=True, slots=True)
class TaskReport(WriterCommitMessage):
    """What one task did."""

    written: tuple[Written, ...] = ()
    marks: dict[str, int] = field(default_factory=dict)
    """Through which sequence each event type was read."""
    lost: tuple[Range, ...] = ()
    """What the log no longer had."""
    letters: Bundle = field(default_factory=Bundle)


class LakeWriter(Parcel, DataSourceStreamArrowWriter):
    """Writes micro-batches of the source's rows to a lake."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskReport:
        """In a task: write the rows; on failure leave no files."""
        try:
            writer, letters = FileWriter(self._place), Gathered(self._place)
            try:
                return self._write(iterator, writer, letters)
            except BaseException:
                writer.discard()
                with contextlib.suppress(OSError):
                    letters.discard()
                raise
        except OSError as error:
            raise LakeFailed(f"cannot write to {self._place.path}: {error}") from error

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002 - Spark's name; marks, not batches, say what is new
        """On the driver: make what the tasks wrote part of the lake."""
        reports = [item for item in messages if isinstance(item, TaskReport)]
        marks = _highest(item.marks for item in reports)
        append(self._place, [item.letters for item in reports])
        lost = [(gone.event_type, gone.first, gone.last) for item in reports for gone in item.lost]
        append_tombstones(self._place, lost, kind=LOST)
        if marks:
            commit(self._place, [file for item in reports for file in item.written], marks)
        unstage(self._place, [path for item in reports for path in item.letters.files])

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002 - Spark's name
        """On the driver: remove what the tasks wrote, if it surely was not committed."""
        reports = [item for item in messages if isinstance(item, TaskReport)]
        # Spark calls this after a failed commit too, while that may even be running. Then all tasks
        # have reported, and only the commit itself knows what may be removed.
        if len(reports) < len(messages):
            discard(self._place, [file.path for item in reports for file in item.written])
        unstage(self._place, [path for item in reports for path in item.letters.files])

    @staticmethod
    def _write(
        batches: Iterator[pa.RecordBatch], writer: FileWriter, letters: Gathered
    ) -> TaskReport:
        read: list[Range] = []
        lost: list[Range] = []
        for batch in batches:
            rows = divide(batch)
            if rows.records.num_rows:
                writer.write(rows.records)
            if rows.letters.num_rows:
                letters.add(rows.letters)
            read += rows.read
            lost += rows.lost
        marks = _highest({item.event_type: item.last} for item in read)
        return TaskReport(tuple(writer.close()), marks, tuple(lost), letters.bundle())


def _highest(found: Iterable[dict[str, int]]) -> dict[str, int]:
    highest: dict[str, int] = {}
    for marks in found:
        for name, sequence in marks.items():
            highest[name] = max(sequence, highest.get(name, 0))
    return highest
