"""The log and the clock as one stream: what live views are computed from.

Rules
- An offset has the sequences of the source's offset and, under CLOCK, a time in microseconds. So a
  micro-batch that is run again has the same rows and the same clock.
- The clock is read before the log, and a micro-batch takes all that the log has: what was stored up
  to the clock is in this micro-batch or in an earlier one.
- The clock moves in ticks even if nothing is published. Each move adds a row, so that Spark's
  watermark moves too, and a row for everything that fell due meanwhile.
- The first micro-batch starts at the clock 0. Nothing falls due in it: what came before is unknown.
- Alerts are never read: they would be counted, and count themselves.
"""

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from aviso_server.backends.backend import Bounds
from aviso_server.pipeline.live.alert import EVENT_TYPE
from aviso_server.pipeline.live.expected import (
    DAY_S,
    US,
    CyclePart,
    decode_parts,
    due_between,
    encode_parts,
)
from aviso_server.pipeline.source.columns import PROBLEM, SPARK
from aviso_server.pipeline.source.options import SourceOptions, read_options
from aviso_server.pipeline.source.pickling import Parcel
from aviso_server.pipeline.source.ranges import Offset
from aviso_server.pipeline.source.stream import StreamReader

FORMAT = "aviso-live"
EXPECTED, TICK, SETTLE = "liveExpected", "liveTick", "liveSettle"
"""Our own options: parts, and seconds."""

CLOCK = "@clock"
"""No event type is called so."""

NEWS, TICKED, FELL_DUE = "notification", "tick", "due"
"""Kinds of row."""

LONGEST_US = 7 * DAY_S * US
"""After a longer absence, what fell due before is skipped: it is too old to matter."""

_READ = StructType([SPARK[name] for name in ("event_type", "time", "identifier", PROBLEM)])

LIVE = StructType(
    [
        StructField("row", StringType(), nullable=False),
        *(SPARK[name] for name in ("time", "identifier")),
        StructField("event_type", StringType()),
        StructField("since", TimestampType(), nullable=False),
        StructField("base_us", LongType()),
        StructField("group", StringType()),
        StructField("part", StringType()),
        StructField("due_us", LongType()),
    ]
)
"""``time`` is the storage time, or the clock; ``since`` the clock of the micro-batch before."""

_ARROW = to_arrow_schema(LIVE, timezone="UTC")


@dataclass(frozen=True)
class LogSlice(InputPartition):
    """A slice of the log."""

    slice: InputPartition
    since_us: int


@dataclass(frozen=True)
class Tick(InputPartition):
    """A move of the clock."""

    since_us: int
    now_us: int


def now_us() -> int:
    """The clock of this machine."""
    return time.time_ns() // 1000


class LiveReader(StreamReader):
    """The source's stream reader, with a clock."""

    def __init__(
        self,
        options: SourceOptions,
        expected: tuple[CyclePart, ...] = (),
        *,
        tick_s: float = 10,
        settle_s: float = 60,
        clock: Callable[[], int] = now_us,
    ) -> None:
        super().__init__(options, _READ)
        self._expected = expected
        self._tick_us = round(tick_s * US)
        self._settle_us = round(settle_s * US)
        """How long after its time a part is checked, so that clocks may differ by as much."""
        self._clock = clock
        self._until: int | None = None
        """With AvailableNow: the clock when the query began."""

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Where a new query begins."""
        return {**_sequences(super().initialOffset()), CLOCK: 0}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """All there is, and the time."""
        now = self._ticked() if self._until is None else self._until
        end = super().latestOffset(_sequences(start), limit)
        return {**end, CLOCK: max(now, start.get(CLOCK, 0))}

    def reportLatestOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """The end of every stream, and the time."""
        return {**super().reportLatestOffset(), CLOCK: self._ticked()}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Record the time, then the ends of the streams."""
        self._until = self._ticked()
        super().prepareForTriggerAvailableNow()

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """The slices of the log, and the move of the clock."""
        since, now = start.get(CLOCK, 0), end[CLOCK]
        slices = super().partitions(_sequences(start), _sequences(end))
        ticks: list[InputPartition] = [Tick(since, now)] if now > since else []
        return [*(LogSlice(item, since) for item in slices), *ticks]

    def read(self, partition: InputPartition) -> Generator[pa.RecordBatch, None, None]:
        """The rows of a slice, or of a move of the clock."""
        if isinstance(partition, LogSlice):
            for batch in super().read(partition.slice):
                yield _news(batch, partition.since_us)
        elif isinstance(partition, Tick):
            yield self._moved(partition)

    def _moved(self, tick: Tick) -> pa.RecordBatch:
        rows: list[dict[str, object]] = [{"row": TICKED}]
        if tick.since_us:
            after = max(tick.since_us, tick.now_us - LONGEST_US) - self._settle_us
            rows += (
                {
                    "row": FELL_DUE,
                    "event_type": due.what.event_type,
                    "base_us": due.base_us,
                    "group": due.what.group,
                    "part": due.what.part,
                    "due_us": due.due_us,
                }
                for due in due_between(self._expected, after, tick.now_us - self._settle_us)
            )
        for row in rows:
            row |= {"time": tick.now_us, "since": tick.since_us}
        return pa.RecordBatch.from_pylist(rows, _ARROW)

    def _ticked(self) -> int:
        return self._clock() // self._tick_us * self._tick_us

    def _look(self) -> dict[str, Bounds]:
        return {name: end for name, end in super()._look().items() if name != EVENT_TYPE}


class LiveSource(Parcel, DataSource):
    """The meaning of ``format("aviso-live")``."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns."""
        return LIVE

    def streamReader(self, schema: StructType) -> LiveReader:  # noqa: N802, ARG002 - Spark's
        """The log and the clock."""
        given = {name.lower(): text for name, text in self.options.items()}
        expected = decode_parts(given.pop(EXPECTED.lower()))
        tick_s, settle_s = (float(given.pop(name.lower())) for name in (TICK, SETTLE))
        return LiveReader(read_options(given), expected, tick_s=tick_s, settle_s=settle_s)


def live_options(
    expected: tuple[CyclePart, ...], *, tick_s: float, settle_s: float
) -> dict[str, str]:
    """The options beside those of the source."""
    return {EXPECTED: encode_parts(expected), TICK: str(tick_s), SETTLE: str(settle_s)}


def _sequences(offset: Offset) -> Offset:
    return {name: value for name, value in offset.items() if name not in (CLOCK, EVENT_TYPE)}


def _news(batch: pa.RecordBatch, since_us: int) -> pa.RecordBatch:
    """The notifications of a batch; a message that is none is no news."""
    batch = batch.filter(pc.is_null(batch.column(PROBLEM)))
    count = batch.num_rows
    given = {
        "row": pa.repeat(NEWS, count),
        "since": pa.repeat(pa.scalar(since_us, pa.timestamp("us", tz="UTC")), count),
        **{name: batch.column(name) for name in ("event_type", "time", "identifier")},
    }
    columns = [
        given[item.name] if item.name in given else pa.nulls(count, item.type) for item in _ARROW
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW)
