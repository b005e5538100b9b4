"""Metrics: what happened, counted. One ``Metrics`` is made at the start and handed down.

Callers say what happened in the terms of their layer; which series change is decided here.
``SILENT`` is the one that counts nothing, for servers without metrics.
"""

import time
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from aviso_server.core.operation import Operation
from aviso_server.telemetry import series as s
from aviso_server.telemetry.cells import Cells

AUTH_MODES = ("direct", "trusted_proxy")
AUTH_OUTCOMES = ("success", "unauthorized", "forbidden", "service_unavailable")
ECPDS_DECISIONS = (
    "allow",
    "deny_destination",
    "deny_match_key_missing",
    "unavailable",
    "admin_bypass",
    "error",
)
ECPDS_FETCHES = (
    "http_401",
    "http_403",
    "http_4xx",
    "invalid_response",
    "http_5xx",
    "unreachable",
    "success",
)
FAULTS = (
    *("disconnected", "no_quorum", "stream_refused"),
    *("store_full", "write_failed", "not_acknowledged"),
)
OPERATIONS = ("publish", "get_batch", "wipe_stream", "wipe_all", "delete_message")
UNKNOWN = "unknown"
"""The event type of a notification that was refused before it had one."""

Tier = Literal["memory", "log", "lake"]
Status = Literal["success", "error", "rejected"]


class Number:
    """One counter or gauge."""

    __slots__ = ("_index", "_values")

    def __init__(self, values: "memoryview[float]", index: int) -> None:
        self._values = values
        self._index = index

    def add(self, amount: float = 1.0) -> None:
        """Count."""
        self._values[self._index] += amount

    def set(self, value: float) -> None:
        """Put a value in the place of the last one."""
        self._values[self._index] = value


class Timing:
    """One histogram of durations."""

    __slots__ = ("_buckets", "_index", "_values")

    def __init__(self, values: "memoryview[float]", index: int, buckets: tuple[float, ...]) -> None:
        self._values = values
        self._index = index
        self._buckets = buckets

    def observe(self, seconds: float, count: int = 1) -> None:
        """Count durations that are equal; buckets are made cumulative when they are shown."""
        values, index = self._values, self._index
        values[index] += seconds * count
        values[index + 1 + bisect_left(self._buckets, seconds)] += count


# Where nothing is shown, everything is counted into cells that nobody reads.
_UNREAD = memoryview(bytearray(16)).cast("d")
_NO_NUMBER = Number(_UNREAD, 0)
_NO_TIMING = Timing(_UNREAD, 0, ())


class _Family:
    """The members of one series, each claimed when it is first asked for."""

    __slots__ = ("_cells", "_numbers", "_series", "_timings")

    def __init__(self, cells: Cells | None, series: s.Series) -> None:
        self._cells = cells
        self._series = series
        self._numbers: dict[tuple[str, ...], Number] = {}
        self._timings: dict[tuple[str, ...], Timing] = {}

    def number(self, *labels: str) -> Number:
        """The counter or gauge with these labels."""
        found = self._numbers.get(labels)
        if found is not None:
            return found
        if self._cells is None:
            return _NO_NUMBER
        index = self._cells.claim(self._series.name, labels)
        made = self._numbers[labels] = Number(self._cells.values, index)
        return made

    def timing(self, *labels: str) -> Timing:
        """The histogram with these labels."""
        found = self._timings.get(labels)
        if found is not None:
            return found
        if self._cells is None:
            return _NO_TIMING
        index = self._cells.claim(self._series.name, labels, self._series.width)
        made = self._timings[labels] = Timing(self._cells.values, index, self._series.buckets)
        return made


@dataclass(frozen=True, slots=True)
class StreamMeter:
    """What is counted of the streams of one route and event type."""

    connections: Number
    """Asked for."""
    active: Number
    sent: Number
    """Notifications written."""
    errors: Number
    switches: Number
    """Slow readers sent back to history."""
    gaps: Number
    """Gap signals."""
    limited: Number
    """Histories cut by the cap."""
    replay: Timing
    lifetime: Timing
    users: "_Family"
    route: str

    def alive(self, username: str | None = None) -> "Life":
        """Count a stream as open; its lifetime when it ends."""
        user = _NO_NUMBER if username is None else self.users.number(self.route, username)
        self.active.add()
        user.add()
        return Life(self, user, time.perf_counter())


@dataclass(frozen=True, slots=True)
class Life:
    """One open stream, as it is counted."""

    meter: StreamMeter
    user: Number
    begun: float

    def end(self) -> None:
        """It has ended."""
        self.meter.active.add(-1)
        self.user.add(-1)
        self.meter.lifetime.observe(time.perf_counter() - self.begun)

    def __enter__(self) -> None:
        """It is counted already."""

    def __exit__(self, *_: object) -> None:
        """End with the block."""
        self.end()


@dataclass(frozen=True, slots=True)
class ReadersMeter:
    """What is counted of the streams that read history."""

    active: Number
    waiting: Number
    wait: Timing


@dataclass(frozen=True, slots=True)
class ArchiveMeter:
    """What is counted of the archive job."""

    up: Number
    lag: Number
    lag_seconds: Number
    archived: Number
    restarts: Number

    @classmethod
    def on(cls, cells: Cells | None) -> "ArchiveMeter":
        """A meter for a process that counts nothing else: the supervisor of workers."""
        return cls(*(_Family(cells, item).number() for item in s.ARCHIVE))


class Metrics:
    """Everything that is counted in one process."""

    def __init__(
        self, cells: Cells | None, *, version: str, backend: str, event_types: Iterable[str] = ()
    ) -> None:
        self.enabled = cells is not None
        """False if nothing is recorded: then do not measure the time either."""
        self.cells = cells
        self._backend = backend
        self._families = {item.name: _Family(cells, item) for item in s.SERIES}
        self._streams: dict[tuple[Operation, str], StreamMeter] = {}
        # Looked up for every notification, so kept at hand.
        self._notifications = self._families[s.NOTIFICATIONS.name]
        self._calls = {
            (operation, failed): (
                self._of(s.BACKEND_OPERATIONS, backend, operation, outcome),
                self._timing(s.BACKEND_DURATION, backend, operation, outcome),
            )
            for operation in OPERATIONS
            for failed, outcome in ((False, "ok"), (True, "error"))
        }
        self._decisions = {
            (mode, outcome): (
                self._of(s.AUTH_REQUESTS, mode, outcome),
                self._timing(s.AUTH_DURATION, mode),
            )
            for mode in AUTH_MODES
            for outcome in AUTH_OUTCOMES
        }
        self._begin(version, event_types)

    def _begin(self, version: str, event_types: Iterable[str]) -> None:
        """Show at zero what operators alert on, so that the first event is a change."""
        self._of(s.BUILD_INFO, version).set(1)
        for item in s.SERIES:
            if not item.labels and item not in (*s.ARCHIVE, *s.STORE):
                (self._timing if item.kind is s.Growth.HISTOGRAM else self._of)(item)
        for outcome in ECPDS_DECISIONS:
            self._of(s.ECPDS_DECISIONS, outcome)
        for outcome in ECPDS_FETCHES:
            self._of(s.ECPDS_FETCHES, outcome)
        for status in ("error", "rejected"):
            self._of(s.NOTIFICATIONS, UNKNOWN, status)
        for event_type in event_types:
            for status in ("success", "error"):
                self._of(s.NOTIFICATIONS, event_type, status)
        for tier in get_args(Tier):
            self._of(s.HISTORY_READS, tier)
        for reason in FAULTS:
            self._of(s.FAULTS, self._backend, reason)
        self._of(s.CONNECTED, self._backend)
        self._of(s.STORING, self._backend)
        self._of(s.RECONNECTS, self._backend)
        self.batches_seen(0, 0, 0)

    def loop_lag(self) -> Timing:
        """How late the event loop is."""
        return self._timing(s.LOOP_LAG)

    # Requests

    def in_flight(self, method: str) -> Number:
        """Requests whose headers are not ready; ``method`` is a bounded name."""
        return self._of(s.HTTP_IN_FLIGHT, method)

    def requests(self, route: str, method: str, status: int) -> tuple[Number, Timing]:
        """Requests answered so, and how long they took; to be kept at hand by the caller."""
        return (
            self._of(s.HTTP_REQUESTS, route, method, str(status)),
            self._timing(s.HTTP_DURATION, route, method),
        )

    def notified(self, event_type: str, status: Status, count: int = 1) -> None:
        """Notifications were stored, failed or refused; ``event_type`` is a bounded name."""
        self._notifications.number(event_type, status).add(count)

    # Backend

    def backend_called(
        self, operation: str, seconds: float, *, failed: bool, count: int = 1
    ) -> None:
        """Calls of the backend that took the same time, of those in ``OPERATIONS``."""
        number, duration = self._calls[operation, failed]
        number.add(count)
        duration.observe(seconds, count)

    def backend_seen(self, *, connected: bool, reconnects: int, fault: str | None) -> None:
        """The state of the backend now; ``fault`` is one of FAULTS, None while it stores."""
        self._of(s.CONNECTED, self._backend).set(connected)
        self._of(s.STORING, self._backend).set(fault is None)
        for reason in FAULTS:
            self._of(s.FAULTS, self._backend, reason).set(reason == fault)
        self._of(s.RECONNECTS, self._backend).set(reconnects)

    def batches_seen(self, stored: int, failed: int, notifications: int) -> None:
        """How often notifications were stored together so far, and how many."""
        self._of(s.BATCHES, self._backend, "ok").set(stored)
        self._of(s.BATCHES, self._backend, "error").set(failed)
        self._of(s.BATCHED, self._backend).set(notifications)

    def store_seen(self, stored: int, limit: int | None, free: int | None) -> None:
        """How full the store is, in bytes; what is not known is not shown."""
        self._of(s.STORE_BYTES).set(stored)
        if limit is not None:
            self._of(s.STORE_LIMIT).set(limit)
        if free is not None:
            self._of(s.STORE_FREE).set(free)

    def stream_seen(self, event_type: str, messages: int, size: int) -> None:
        """What the stream of a configured event type holds."""
        self._of(s.STREAM_MESSAGES, event_type).set(messages)
        self._of(s.STREAM_BYTES, event_type).set(size)

    def history_read(self, tier: Tier) -> None:
        """A piece of history was read."""
        self._of(s.HISTORY_READS, tier).add()

    def readers(self) -> ReadersMeter:
        """What is counted of the streams that read history."""
        return ReadersMeter(
            self._of(s.READERS_ACTIVE), self._of(s.READERS_WAITING), self._timing(s.READERS_WAIT)
        )

    # Streams

    def stream(self, operation: Operation, event_type: str) -> StreamMeter:
        """What is counted of such streams; ``event_type`` is a bounded name."""
        found = self._streams.get((operation, event_type))
        if found is None:
            found = self._streams[operation, event_type] = self._stream(operation, event_type)
        return found

    def _stream(self, operation: Operation, event_type: str) -> StreamMeter:
        route = f"/api/v1/{operation.value}"
        labels = (route, event_type)
        return StreamMeter(
            connections=self._of(s.SSE_CONNECTIONS, *labels),
            active=self._of(s.SSE_ACTIVE, *labels),
            sent=self._of(s.SSE_SENT, *labels),
            errors=self._of(s.SSE_ERRORS, *labels),
            switches=self._of(s.SWITCHES, *labels),
            gaps=self._of(s.GAPS, *labels),
            limited=self._of(s.LIMITED, *labels),
            replay=self._timing(s.REPLAY_DURATION, *labels),
            lifetime=self._timing(s.SSE_DURATION, route),
            users=self._families[s.SSE_USERS.name],
            route=route,
        )

    def queues_seen(self, depths: Iterable[int]) -> None:
        """How many notifications wait in each reader's queue now."""
        total = deepest = 0
        for depth in depths:
            total += depth
            deepest = max(deepest, depth)
        self._of(s.QUEUED).set(total)
        self._of(s.DEEPEST).set(deepest)

    # Access

    def auth_decided(self, mode: str, outcome: str, seconds: float) -> None:
        """A credential was decided; see AUTH_MODES and AUTH_OUTCOMES."""
        number, duration = self._decisions[mode, outcome]
        number.add()
        duration.observe(seconds)

    def ecpds_looked(self, *, hit: bool, size: int) -> None:
        """An ECPDS check used its cache, which has this many users."""
        self._of(s.ECPDS_HITS if hit else s.ECPDS_MISSES).add()
        self._of(s.ECPDS_SIZE).set(size)

    def ecpds_fetched(self, outcome: str) -> None:
        """The ECPDS servers were asked; see ECPDS_FETCHES."""
        self._of(s.ECPDS_FETCHES, outcome).add()

    def ecpds_decided(self, outcome: str) -> None:
        """The ECPDS check decided; see ECPDS_DECISIONS."""
        self._of(s.ECPDS_DECISIONS, outcome).add()

    # Archive job

    def archive(self) -> ArchiveMeter:
        """What is counted of the archive job; its series are shown from now on."""
        return ArchiveMeter(*(self._of(item) for item in s.ARCHIVE))

    # Log export

    def export_failed(self) -> None:
        """A batch of log records could not be exported."""
        self._of(s.OTLP_FAILURES).add()

    def export_suppressed(self, count: int = 1) -> None:
        """Log records were withheld from export."""
        self._of(s.OTLP_SUPPRESSED).add(count)

    def _of(self, series: s.Series, *labels: str) -> Number:
        return self._families[series.name].number(*labels)

    def _timing(self, series: s.Series, *labels: str) -> Timing:
        return self._families[series.name].timing(*labels)


SILENT = Metrics(None, version="", backend="")
"""Counts nothing and keeps nothing but the meters of streams, which are few."""
