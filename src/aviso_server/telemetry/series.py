"""The series the server exposes: names, kinds, labels, buckets, meaning (docs/metrics.md).

Names are those of the reference server; the rest are additions. docs/metrics.md lists the
same, held to this table by a test.
"""

from dataclasses import dataclass
from enum import Enum

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Buckets of most histograms, in seconds."""

LIFETIMES = (
    *(1.0, 5.0, 15.0, 30.0, 60.0, 300.0, 900.0, 1800.0, 3600.0),
    *(7200.0, 14400.0, 28800.0, 43200.0, 86400.0),
)
"""Buckets for how long streams live, in seconds."""

REPLAYS = (*SECONDS, 30.0, 60.0, 300.0)
"""Buckets for whole replays, which may be paced by a slow reader, in seconds."""

LAGS = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Buckets for how late the event loop is, in seconds."""


class Growth(Enum):
    """How a series grows, and what several processes make together."""

    COUNTER = "counter"
    """Only grows; summed, with those that are gone."""
    HISTOGRAM = "histogram"
    """Like counters."""
    SUM = "gauge"
    """What all processes have together."""
    MIN = "gauge, least"
    """As bad as the worst process."""
    MAX = "gauge, most"
    """As much as the process with the most."""
    DISTINCT = "gauge, distinct"
    """How many different values the last label has; that label is not shown."""


@dataclass(frozen=True, slots=True)
class Series:
    """One metric."""

    name: str
    kind: Growth
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = SECONDS
    """Upper bounds, of a histogram only."""

    @property
    def width(self) -> int:
        """How many cells it needs: a histogram has its sum, its buckets and the rest above them."""
        return len(self.buckets) + 2 if self.kind is Growth.HISTOGRAM else 1


_all: list[Series] = []


def _counter(name: str, text: str, *labels: str) -> Series:
    _all.append(Series(name, Growth.COUNTER, labels, text))
    return _all[-1]


def _gauge(name: str, kind: Growth, text: str, *labels: str) -> Series:
    _all.append(Series(name, kind, labels, text))
    return _all[-1]


def _histogram(name: str, text: str, *labels: str, buckets: tuple[float, ...] = SECONDS) -> Series:
    _all.append(Series(name, Growth.HISTOGRAM, labels, text, buckets))
    return _all[-1]


_STREAM = ("route", "event_type")
_CALL = ("backend", "operation", "outcome")

BUILD_INFO = _gauge("aviso_build_info", Growth.MIN, "1, labelled with the version.", "version")
LOOP_LAG = _histogram(
    "aviso_loop_lag_seconds",
    "How late the event loop was, sampled 40 times per second.",
    buckets=LAGS,
)
HTTP_REQUESTS = _counter(
    "aviso_http_requests_total",
    "Requests answered on the main listener.",
    "route",
    "method",
    "status_code",
)
HTTP_DURATION = _histogram(
    "aviso_http_request_duration_seconds",
    "Time until the headers of the answer were ready; for streams the set-up time.",
    "route",
    "method",
)
HTTP_IN_FLIGHT = _gauge(
    "aviso_http_requests_in_flight",
    Growth.SUM,
    "Requests whose headers are not ready yet.",
    "method",
)
BACKEND_OPERATIONS = _counter("aviso_backend_operations_total", "Calls of the backend.", *_CALL)
BACKEND_DURATION = _histogram(
    "aviso_backend_operation_duration_seconds",
    "Duration of backend calls; operation publish is the publish latency.",
    *_CALL,
)
CONNECTED = _gauge(
    "aviso_backend_connected",
    Growth.MIN,
    "1 while the backend can be reached; with workers, by all of them.",
    "backend",
)
RECONNECTS = _counter(
    "aviso_backend_reconnects_total",
    "How often the connection to the backend was restored.",
    "backend",
)
STORING = _gauge(
    "aviso_backend_storing",
    Growth.MIN,
    "1 while notifications of all configured event types can be stored, as `/ready` says.",
    "backend",
)
FAULTS = _gauge(
    "aviso_backend_fault",
    Growth.MAX,
    "1 while notifications cannot be stored for this reason.",
    "backend",
    "reason",
)
BATCHES = _counter(
    "aviso_backend_batches_total",
    "Batches in which notifications were stored together.",
    "backend",
    "outcome",
)
BATCHED = _counter(
    "aviso_backend_batched_notifications_total",
    "Notifications stored in such batches; all others were stored alone.",
    "backend",
)
STORE_BYTES = _gauge(
    "aviso_store_bytes", Growth.MAX, "What the store has of its limit: bytes of all streams."
)
STORE_LIMIT = _gauge(
    "aviso_store_limit_bytes", Growth.MAX, "Bytes beyond which NATS stores nothing, if known."
)
STORE_FREE = _gauge(
    "aviso_store_free_bytes", Growth.MAX, "Free bytes on the disk of the embedded NATS server."
)
STREAM_MESSAGES = _gauge(
    "aviso_stream_notifications",
    Growth.MAX,
    "Notifications that the log keeps of a configured event type.",
    "event_type",
)
STREAM_BYTES = _gauge(
    "aviso_stream_bytes", Growth.MAX, "What they take in the log, in bytes.", "event_type"
)
NOTIFICATIONS = _counter(
    "aviso_notifications_total", "Notifications sent to the server.", "event_type", "status"
)
SSE_ACTIVE = _gauge("aviso_sse_connections_active", Growth.SUM, "Streams open now.", *_STREAM)
SSE_CONNECTIONS = _counter(
    "aviso_sse_connections_total",
    "Streams asked for, those that could not be set up included.",
    *_STREAM,
)
SSE_USERS = _gauge(
    "aviso_sse_unique_users_active",
    Growth.DISTINCT,
    "Different users with an open stream; anonymous ones are not counted.",
    "route",
    "username",
)
SSE_SENT = _counter("aviso_sse_events_sent_total", "Notifications written to streams.", *_STREAM)
SSE_ERRORS = _counter("aviso_sse_stream_errors_total", "Error frames written to streams.", *_STREAM)
SSE_DURATION = _histogram(
    "aviso_sse_connection_duration_seconds", "How long streams lived.", "route", buckets=LIFETIMES
)
SWITCHES = _counter(
    "aviso_sse_reader_switches_total", "Slow readers sent back to history.", *_STREAM
)
GAPS = _counter(
    "aviso_sse_history_gaps_total",
    "Streams that began later than asked, because the history is gone.",
    *_STREAM,
)
LIMITED = _counter("aviso_sse_replay_limited_total", "Replays cut by the cap.", *_STREAM)
QUEUED = _gauge(
    "aviso_sse_queued_notifications",
    Growth.SUM,
    "Notifications that wait in the queues of all readers.",
)
DEEPEST = _gauge(
    "aviso_sse_queue_depth_max",
    Growth.MAX,
    "Notifications that wait in the longest queue of a reader.",
)
REPLAY_DURATION = _histogram(
    "aviso_sse_replay_duration_seconds",
    "Time to deliver the history a stream asked for.",
    *_STREAM,
    buckets=REPLAYS,
)
HISTORY_READS = _counter(
    "aviso_history_reads_total",
    "Batches of history read, from memory, from the log or from the lake.",
    "tier",
)
READERS_ACTIVE = _gauge(
    "aviso_history_readers_active", Growth.SUM, "Streams that read from the log or the lake now."
)
READERS_WAITING = _gauge(
    "aviso_history_readers_waiting",
    Growth.SUM,
    "Streams that wait for their turn to read from the log or the lake.",
)
READERS_WAIT = _histogram(
    "aviso_history_wait_seconds",
    "How long streams waited for their turn, where they had to.",
    buckets=REPLAYS,
)
AUTH_REQUESTS = _counter("aviso_auth_requests_total", "Credentials decided.", "mode", "outcome")
AUTH_DURATION = _histogram("aviso_auth_duration_seconds", "Time to decide a credential.", "mode")
ECPDS_HITS = _counter("aviso_ecpds_cache_hits_total", "ECPDS checks answered from the cache.")
ECPDS_MISSES = _counter("aviso_ecpds_cache_misses_total", "ECPDS checks that had to ask.")
ECPDS_SIZE = _gauge("aviso_ecpds_cache_size", Growth.SUM, "Users in the ECPDS cache.")
ECPDS_DECISIONS = _counter(
    "aviso_ecpds_access_decisions_total", "Decisions of the ECPDS check.", "outcome"
)
ECPDS_FETCHES = _counter("aviso_ecpds_fetch_total", "Fetches from the ECPDS servers.", "outcome")
OTLP_FAILURES = _counter("aviso_otlp_export_failures_total", "Batches of log records not exported.")
OTLP_SUPPRESSED = _counter(
    "aviso_otlp_suppressed_log_records_total",
    "Log records withheld from export because they may hold a secret.",
)
ARCHIVE_UP = _gauge("aviso_archive_up", Growth.SUM, "1 while the managed archive job runs.")
ARCHIVE_LAG = _gauge(
    "aviso_archive_lag_notifications",
    Growth.SUM,
    "Stored notifications that the managed archive job has not archived yet.",
)
ARCHIVE_LAG_SECONDS = _gauge(
    "aviso_archive_lag_seconds",
    Growth.SUM,
    "Age of the oldest notification that is not archived yet.",
)
ARCHIVED = _counter(
    "aviso_archive_notifications_total",
    "Notifications that the managed archive job put into the lake.",
)
ARCHIVE_RESTARTS = _counter(
    "aviso_archive_restarts_total", "How often the managed archive job was started again."
)

ARCHIVE = (ARCHIVE_UP, ARCHIVE_LAG, ARCHIVE_LAG_SECONDS, ARCHIVED, ARCHIVE_RESTARTS)
"""Shown only by a server that looks after an archive job: elsewhere a zero would be an alarm."""

STORE = (STORE_BYTES, STORE_LIMIT, STORE_FREE)
"""Shown once measured: a zero would be an empty disk."""

SERIES = tuple(_all)
"""In the order of the page."""
