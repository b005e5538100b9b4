"""The log and the clock as one stream, read without Spark."""

import pickle

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable
from support.nats import NatsServer
from support.source import fill

from aviso_server.pipeline.live.expected import DAY_S, US, CyclePart
from aviso_server.pipeline.live.source import CLOCK, FELL_DUE, NEWS, TICKED, LiveReader
from aviso_server.pipeline.source.options import read_options

ALL = ReadAllAvailable()
DAY = 20_000 * DAY_S
EVENING = CyclePart("ev", "1800", "", "24", 3600)


class Watch:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> int:
        """Microseconds since the epoch."""
        return round(self.s * US)


def reader(store: NatsServer, watch: Watch, *parts: CyclePart) -> LiveReader:
    """A reader that ticks every ten seconds and waits for a minute."""
    options = read_options({"servers": store.url, "eventType": "*"})
    return LiveReader(options, parts, tick_s=10, settle_s=60, clock=watch)


def rows(made: LiveReader, start: dict[str, int], end: dict[str, int]) -> list[dict[str, object]]:
    """What a micro-batch has, as a task would read it."""
    batches: list[pa.RecordBatch] = []
    for partition in made.partitions(start, end):
        copy = pickle.loads(pickle.dumps((made, partition)))  # noqa: S301 - our own bytes
        batches += copy[0].read(copy[1])
    return [row for batch in batches for row in batch.to_pylist()]


def test_news_and_ticks(store: NatsServer) -> None:
    """All that is new, and the clock; alerts are not read; nothing new is no micro-batch."""
    fill(store.url, 2)
    fill(store.url, 3, event_type="aviso_alert")
    watch = Watch()
    made = reader(store, watch)
    start = made.initialOffset()
    assert start == {"ev": 1, CLOCK: 0}
    watch.s = DAY + 19
    end = made.latestOffset(start, ALL)
    assert end == {"ev": 3, CLOCK: (DAY + 10) * US}
    first = rows(made, start, end)
    assert [row["row"] for row in first] == [NEWS, NEWS, TICKED]
    assert first[0]["event_type"] == "ev"
    assert first[0]["identifier"] == [("region", "odd")]
    assert {str(row["since"]) for row in first} == {"1970-01-01 00:00:00+00:00"}
    assert rows(made, start, end) == first
    assert made.latestOffset(end, ALL) == end
    watch.s = DAY + 20
    (tick,) = rows(made, end, made.latestOffset(end, ALL))
    assert tick["row"] == TICKED
    assert tick["time"].timestamp() == DAY + 20  # type: ignore[attr-defined]
    assert tick["since"].timestamp() == DAY + 10  # type: ignore[attr-defined]


def test_what_falls_due(store: NatsServer) -> None:
    """Once, a minute after its time; never in the first micro-batch, and never twice."""
    watch = Watch()
    made = reader(store, watch, EVENING)
    offset = made.initialOffset()
    told: list[list[object]] = []
    for after_s in (-30, 0, 59, 60, 70, DAY_S):
        watch.s = DAY + 19 * 3600 + after_s
        end = made.latestOffset(offset, ALL)
        told.append([row["due_us"] for row in rows(made, offset, end) if row["row"] == FELL_DUE])
        offset = end
    assert told == [[], [], [], [(DAY + 19 * 3600) * US], [], []]
    watch.s += 60
    (due,) = rows(made, offset, made.latestOffset(offset, ALL))[1:]
    assert due["base_us"] == (DAY + DAY_S + 18 * 3600) * US
    assert (due["event_type"], due["group"], due["part"]) == ("ev", "", "24")


def test_after_a_long_absence(store: NatsServer) -> None:
    """What fell due meanwhile is reported, but nothing from before the last week."""
    watch = Watch()
    made = reader(store, watch, EVENING)
    watch.s = DAY + 30 * DAY_S
    found = rows(made, {CLOCK: DAY * US}, made.latestOffset({CLOCK: DAY * US}, ALL))
    assert [row["row"] for row in found] == [TICKED, *[FELL_DUE] * 7]


def test_available_now_stops_the_clock(store: NatsServer) -> None:
    """A query that ends by itself sees one time only."""
    watch = Watch()
    made = reader(store, watch)
    watch.s = DAY
    made.prepareForTriggerAvailableNow()
    watch.s = DAY + 100
    end = made.latestOffset(made.initialOffset(), ALL)
    assert end == {CLOCK: DAY * US}
    assert made.latestOffset(end, ALL) == end
    assert made.reportLatestOffset() == {CLOCK: (DAY + 100) * US}
