"""The archive's sink: the tasks that read write Parquet, the driver makes one commit of it.

Rules
- A task writes what it reads and reports that in one row (report); notifications do not pass
  through Spark. Nothing is visible before the driver commits.
- A task reads rows of three kinds (source/columns): notifications, dead letters, and marks, which
  say what it has read and what it found lost.
- The driver commits dead letters first, then what was lost, then notifications and marks. All can
  be repeated, and only the last moves the marks: killed in between, everything is done again.
- A task that fails leaves no files and reports why. Then nothing was committed, and the driver
  removes what the others wrote. What a killed task or driver leaves is swept by ``maintain``.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from aviso_server.lake.commit import commit
from aviso_server.lake.files import FileWriter
from aviso_server.lake.layout import LOST, Place
from aviso_server.lake.outcome import discard
from aviso_server.lake.storage import LakeFailed
from aviso_server.lake.tombstones import append_tombstones
from aviso_server.pipeline.archive.deadletters import Gathered, append, unstage
from aviso_server.pipeline.archive.expected import Expected, RowCounts
from aviso_server.pipeline.archive.report import REPORT, Counts, TaskReport, read_report
from aviso_server.pipeline.source.columns import Divided, divide
from aviso_server.pipeline.source.pickling import Parcel
from aviso_server.pipeline.source.ranges import Range


class TaskFailed(Exception):
    """A task could not do its part; the text ends with its traceback."""


class LakeWriter(Parcel):
    """Writes what is read from the log to a lake."""

    def __init__(self, place: Place, expected: Expected | None = None) -> None:
        self._place = place
        self._expected = expected or {}

    def __call__(self, batch: DataFrame, number: int) -> None:  # noqa: ARG002 - marks, not batches, say what is new
        """On the driver: have a micro-batch read and written, and commit it."""
        self.settle([read_report(row[REPORT]) for row in batch.collect()])

    def write(self, rows: Iterator[pa.RecordBatch]) -> TaskReport:
        """In a task: write the rows; on failure leave no files."""
        try:
            writer, letters = FileWriter(self._place), Gathered(self._place)
            try:
                return self._write(rows, writer, letters)
            except BaseException:
                writer.discard()
                with contextlib.suppress(OSError):
                    letters.discard()
                raise
        except OSError as error:
            raise LakeFailed(f"cannot write to {self._place.path}: {error}") from error

    def settle(self, reports: Sequence[TaskReport]) -> None:
        """On the driver: make what the tasks wrote part of the lake, if all of them could."""
        staged = [path for item in reports for path in item.letters.files]
        written = [file for item in reports for file in item.written]
        failed = [item.problem for item in reports if item.problem is not None]
        if failed:
            discard(self._place, [file.path for file in written])
            unstage(self._place, staged)
            # Its last line says which error it was (spark/failure).
            raise TaskFailed(f"\n{failed[0]}")
        marks = _highest(item.marks for item in reports)
        append(self._place, [item.letters for item in reports])
        lost = [(gone.event_type, gone.first, gone.last) for item in reports for gone in item.lost]
        append_tombstones(self._place, lost, kind=LOST)
        if marks:
            commit(self._place, written, marks)
        unstage(self._place, staged)

    def _write(
        self, batches: Iterator[pa.RecordBatch], writer: FileWriter, letters: Gathered
    ) -> TaskReport:
        read: list[Range] = []
        lost: list[Range] = []
        tally = _Tally(self._expected)
        for batch in batches:
            rows = divide(batch)
            if rows.records.num_rows:
                writer.write(rows.records)
            if rows.letters.num_rows:
                letters.add(rows.letters)
            tally.add(rows)
            read += rows.read
            lost += rows.lost
        marks = _highest({item.event_type: item.last} for item in read)
        written = tuple(writer.close())
        return TaskReport(written, marks, tuple(lost), letters.bundle(), tally.counts())


class _Tally:
    """Counts what passes through a task."""

    def __init__(self, expected: Expected) -> None:
        self._rows = self._letters = 0
        self._newest: int | None = None
        self._unexpected = RowCounts(expected)

    def add(self, passed: Divided) -> None:
        self._rows += passed.records.num_rows
        self._letters += passed.letters.num_rows
        self._unexpected.add(passed.records)
        for batch in (passed.records, passed.letters):
            newest = pc.max(batch.column("time").cast(pa.int64())).as_py()
            if newest is not None:
                self._newest = max(newest, self._newest or newest)

    def counts(self) -> Counts:
        return Counts(self._rows, self._letters, self._newest, tuple(self._unexpected.found))


def _highest(found: Iterable[dict[str, int]]) -> dict[str, int]:
    highest: dict[str, int] = {}
    for marks in found:
        for name, sequence in marks.items():
            highest[name] = max(sequence, highest.get(name, 0))
    return highest
