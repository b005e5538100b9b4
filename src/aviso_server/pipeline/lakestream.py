"""The archive's own data source: the log from where the lake ends, and the lake as its sink.

Rules
- Where reading begins is asked of the lake, not only of Spark's checkpoint: what lies at or below
  a mark is not read again. So a checkpoint that is lost or behind costs nothing.
- A lake that is behind the checkpoint has lost rows that the checkpoint takes for archived. Going
  on would leave a hole for ever: the job is refused, and the message says what to do.
- All of this runs on Spark's driver, which may be a Spark Connect server far away.
"""

import json
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from aviso_server.core.errors import AvisoError
from aviso_server.lake.commit import archived_through
from aviso_server.lake.layout import NOTIFICATIONS, Place
from aviso_server.lake.table import ensure
from aviso_server.pipeline.lakesink import LakeWriter
from aviso_server.pipeline.source.columns import SPARK
from aviso_server.pipeline.source.options import Options, read_options
from aviso_server.pipeline.source.parcel import Parcel
from aviso_server.pipeline.source.stream import StreamReader

FORMAT = "aviso-lake"
LAKE, STORAGE = "lake", "storageSecrets"
"""Options of ours. Spark hides the values of options that are called secret."""


class LakeBehind(AvisoError):
    """The lake has less than the checkpoint says; the message says what to do."""

    @classmethod
    def of(cls, place: Place, event_type: str, *, begin: int, through: int) -> "LakeBehind":
        """The error for an event type."""
        return cls(
            f"the checkpoint says that '{event_type}' is archived up to {begin - 1}, "
            f"and {place.table(NOTIFICATIONS)} has it up to {through}: the table was removed or "
            "put back to an older state. To archive again what the log still has, remove the "
            "checkpoint; the job then goes on from where the table ends"
        )


class LogReplaced(AvisoError):
    """A stream ends before what the lake has of it; the message says what to do."""

    @classmethod
    def of(cls, place: Place, event_type: str, *, last: int, through: int) -> "LogReplaced":
        """The error for an event type."""
        return cls(
            f"the stream of '{event_type}' ends at sequence {last}, and {place.path} has it up to "
            f"{through}: the stream was made anew. Archive it into another lake.path"
        )


class LakeStream(Parcel, DataSource):
    """From the log to the lake."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """The source's columns."""
        return SPARK

    def streamReader(self, schema: StructType) -> "ArchiveReader":  # noqa: N802 - Spark's name
        """The log, from where the lake ends."""
        return ArchiveReader(self._place(), read_options(self._others()), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> LakeWriter:  # noqa: FBT001, ARG002, N802 - Spark's
        """The lake."""
        return LakeWriter(self._place())

    def _place(self) -> Place:
        options = json.loads(self.options.get(STORAGE.lower()) or "{}")
        return Place(self.options[LAKE.lower()], options)

    def _others(self) -> dict[str, str]:
        ours = {LAKE.lower(), STORAGE.lower()}
        return {name: text for name, text in self.options.items() if name.lower() not in ours}


def stream_options(place: Place) -> dict[str, str]:
    """The options that tell the format which lake."""
    return {LAKE: place.path, STORAGE: json.dumps(dict(place.options))}


class ArchiveReader(Parcel, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The source's stream reader, never below the marks of the lake."""

    def __init__(self, place: Place, options: Options, schema: StructType) -> None:
        self._place = place
        self._inner = StreamReader(options, schema)
        self._initial: dict[str, int] | None = None
        """Where the query began, if it began without a checkpoint."""
        self._compared = False
        """Whether the log is known to go on from the beginning."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Without a checkpoint: from where the lake ends, else from the log's beginning."""
        found = self._inner.initialOffset()
        # Also where the log begins later by now: what was trimmed meanwhile is lost, and must
        # not be passed over in silence.
        through = self._through(found)
        start = {name: through[name] + 1 if through[name] else found[name] for name in found}
        self._check_log(start)
        self._initial = start
        return start

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """As the source says."""
        return self._inner.getDefaultReadLimit()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """As the source does it."""
        self._inner.prepareForTriggerAvailableNow()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        """How far the next micro-batch goes."""
        self._check(start)
        return self._inner.latestOffset(start, limit)

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802 - Spark's name
        """As the source says."""
        return self._inner.reportLatestOffset()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """What is read for a micro-batch: nothing that the lake has."""
        self._check(start)
        return self._inner.partitions(self._cut({**dict.fromkeys(end, 1), **start}), end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """As the source does it."""
        return self._inner.read(partition)

    def stop(self) -> None:
        """As the source does it."""
        self._inner.stop()

    def _cut(self, offset: Mapping[str, int]) -> dict[str, int]:
        """The offset, moved to the end of the lake where it is below it."""
        through = self._through(offset)
        return {name: max(begin, through[name] + 1) for name, begin in offset.items()}

    def _check(self, start: Mapping[str, int]) -> None:
        """Compare the beginning of a micro-batch with the lake, and once with the log."""
        through = self._through(start)
        for name, begin in sorted(start.items()):
            # What was not read yet has no mark. Of what was read before, in another process, only
            # this is known: offsets and a table without any mark at all do not belong together.
            read = not any(through.values())
            if self._initial is not None:
                read = begin > self._initial.get(name, 1)
            if (read or through[name]) and through[name] + 1 < begin:
                raise LakeBehind.of(self._place, name, begin=begin, through=through[name])
        if not self._compared:
            self._check_log(self._cut(start))

    def _check_log(self, start: Mapping[str, int]) -> None:
        ends = self._inner.reportLatestOffset()
        for name, begin in sorted(start.items()):
            if name in ends and ends[name] < begin:
                raise LogReplaced.of(self._place, name, last=ends[name] - 1, through=begin - 1)
        self._compared = True

    def _through(self, names: Mapping[str, int]) -> dict[str, int]:
        # Opened afresh: a table that was removed meanwhile would still look as it was.
        table = ensure(self._place, NOTIFICATIONS)
        return {name: archived_through(table, name) for name in names}
