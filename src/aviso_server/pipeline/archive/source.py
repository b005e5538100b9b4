"""The archive's own data source: the log from where the lake ends, written to it as it is read.

Rules
- The lake decides where reading begins, not only Spark's checkpoint: nothing at or below a mark is
  read again. So a checkpoint that is lost or behind costs nothing.
- A lake that is behind the checkpoint has lost rows that the checkpoint takes for archived.
  Continuing would leave a hole for ever: the job is refused, and the message says what to do.
- A log that is not the archived one (restored from an older copy, or recreated) is not read: before
  every micro-batch it is compared with the lake at the mark.
- All of this runs on Spark's driver, which may be a Spark Connect server far away.
- The rows of the source are reports: a task writes what it reads (sink).
"""

import contextlib
import json
from collections.abc import Generator, Iterable, Mapping
from time import monotonic

import pyarrow as pa
from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from aviso_server.backends.backend import Bounds
from aviso_server.core.errors import AvisoError
from aviso_server.core.mark import Mark
from aviso_server.lake.layout import NOTIFICATIONS, Place
from aviso_server.lake.marks import marks_of
from aviso_server.pipeline.archive.expected import Expected, pack, unpack
from aviso_server.pipeline.archive.patience import Patience
from aviso_server.pipeline.archive.report import REPORTS, TaskReport, to_row
from aviso_server.pipeline.archive.sink import LakeWriter
from aviso_server.pipeline.source.agreement import check_agreement
from aviso_server.pipeline.source.bridge import ask
from aviso_server.pipeline.source.columns import MARKED
from aviso_server.pipeline.source.options import SourceOptions, read_options
from aviso_server.pipeline.source.pickling import Parcel
from aviso_server.pipeline.source.ranges import FIRST, Offset, between
from aviso_server.pipeline.source.stream import StreamReader

FORMAT = "aviso-lake"
LAKE, STORAGE, PATIENCE, EXPECTED = "lake", "storageSecrets", "patienceSeconds", "expected"
"""Our own options. Spark hides the values of options that are called secret."""


class LakeBehind(AvisoError):
    """The lake has less than the checkpoint says; the message says what to do."""

    @classmethod
    def of(cls, place: Place, event_type: str, *, begin: int, through: int) -> "LakeBehind":
        """The error for an event type."""
        return cls(
            f"the checkpoint says that '{event_type}' is archived up to {begin - 1}, "
            f"and {place.table(NOTIFICATIONS)} has it up to {through}: the table was removed or "
            "restored to an older state. To archive again what the log still has, remove the "
            "checkpoint; the job then continues where the table ends"
        )


class LakeStream(Parcel, DataSource):
    """From the log to the lake."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """Reports of tasks."""
        return REPORTS

    def streamReader(self, schema: StructType) -> "ArchiveReader":  # noqa: ARG002, N802 - Spark's
        """The log, from where the lake ends."""
        longest_s = float(self.options.get(PATIENCE.lower()) or 0)
        packed = self.options.get(EXPECTED, "")
        reader = ArchiveReader(self._place(), read_options(self._others()), packed)
        reader.patience = Patience(longest_s)
        return reader

    def _place(self) -> Place:
        options = json.loads(self.options.get(STORAGE.lower()) or "{}")
        return Place(self.options[LAKE.lower()], options)

    def _others(self) -> dict[str, str]:
        ours = {LAKE.lower(), STORAGE.lower(), PATIENCE.lower(), EXPECTED}
        return {name: text for name, text in self.options.items() if name.lower() not in ours}


def stream_options(place: Place, *, patience_s: float, expected: Expected) -> dict[str, str]:
    """The options: the lake, how long a few notifications may wait, and what is counted."""
    return {
        LAKE: place.path,
        STORAGE: json.dumps(dict(place.options)),
        PATIENCE: str(patience_s),
        EXPECTED: pack(expected),
    }


class ArchiveReader(StreamReader):
    """The source's stream reader, never below the marks of the lake, and its tasks write to it."""

    def __init__(self, place: Place, options: SourceOptions, expected: str = "") -> None:
        super().__init__(options, MARKED)
        self._place = place
        self._expected = expected
        """What is counted, packed: it can only travel like this."""
        self._initial: dict[str, int] | None = None
        """Where the query began, if it began without a checkpoint."""
        self._compared = False
        """Whether the log was compared with the lake since the query began."""
        self.patience = Patience(0.0)
        self._ends: dict[str, Bounds] = {}
        """Where every stream was at the last look."""

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Without a checkpoint: from where the lake ends, else from the log's beginning."""
        found = super().initialOffset()
        marks = self._marks(found)
        # Even if the log begins later by now: what was trimmed meanwhile is lost, and must not be
        # skipped silently.
        start = {
            name: marks[name].through + 1 if marks[name].through else found[name] for name in found
        }
        self._compare(marks)
        self._initial = start
        return start

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """How far the next micro-batch goes."""
        marks = self._check_marks(start)
        if not self._compared:
            self._compare(marks)
        end = super().latestOffset(start, limit)
        # What was there when it began is archived at once.
        if self._target is not None:
            return end
        return end if self.patience.due(between(start, end), self._ends, monotonic()) else start

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """What is read for a micro-batch: nothing that the lake has, and of the same log."""
        begins = {**dict.fromkeys(end, FIRST), **start}
        marks = self._check_marks(begins)
        self._compare({item.event_type: marks[item.event_type] for item in between(start, end)})
        cut = {name: max(begin, marks[name].through + 1) for name, begin in begins.items()}
        return super().partitions(cut, end)

    def read(self, partition: InputPartition) -> Generator[pa.RecordBatch, None, None]:
        """Write the rows of a slice to the lake; one row that says what was written, or why not."""
        with contextlib.closing(super().read(partition)) as rows:
            try:
                report = LakeWriter(self._place, unpack(self._expected)).write(rows)
            except Exception:  # noqa: BLE001 - told to the driver, which removes what others wrote
                report = TaskReport.of_failure()
        yield to_row(report)

    def _look(self) -> dict[str, Bounds]:
        """Where every stream is now; one that was lost and is empty continues at its mark."""
        found = super()._look()
        empty = {name: end for name, end in found.items() if end.first > end.last}
        for name, mark in self._marks(empty).items():
            if mark.through > empty[name].last:
                found[name] = Bounds(mark.through + 1, mark.through)
        self._ends = found
        return found

    def _check_marks(self, start: Mapping[str, int]) -> dict[str, Mark]:
        """The marks; LakeBehind where they are below what was read before."""
        marks = self._marks(start)
        unmarked = not any(mark.through for mark in marks.values())
        for name, begin in sorted(start.items()):
            through = marks[name].through
            # What was not read yet has no mark. Of what was read before, in another process, only
            # this is known: offsets and a table without any mark at all do not belong together.
            read = unmarked if self._initial is None else begin > self._initial.get(name, FIRST)
            if (read or through) and through + 1 < begin:
                raise LakeBehind.of(self._place, name, begin=begin, through=through)
        return marks

    def _compare(self, marks: Mapping[str, Mark]) -> None:
        """LogReplaced unless the log continues where the lake ends."""
        if any(mark.through for mark in marks.values()):
            ask(self._options, lambda log: check_agreement(log, marks))
        self._compared = True

    def _marks(self, names: Iterable[str]) -> dict[str, Mark]:
        return marks_of(self._place, names)
