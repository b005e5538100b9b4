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


_STREAM = ("route", "event_type")
_CALL = ("backend", "operation", "outcome")

BUILD_INFO = Series("aviso_build_info", Growth.MIN, ("version",), "1, labelled with the version.")
HTTP_REQUESTS = Series(
    "aviso_http_requests_total",
    Growth.COUNTER,
    ("route", "method", "status_code"),
    "Requests answered on the main listener.",
)
HTTP_DURATION = Series(
    "aviso_http_request_duration_seconds",
    Growth.HISTOGRAM,
    ("route", "method"),
    "Time until the headers of the answer were ready; for streams the set-up time.",
)
HTTP_IN_FLIGHT = Series(
    "aviso_http_requests_in_flight",
    Growth.SUM,
    ("method",),
    "Requests whose headers are not ready yet.",
)
BACKEND_OPERATIONS = Series(
    "aviso_backend_operations_total", Growth.COUNTER, _CALL, "Calls of the backend."
)
BACKEND_DURATION = Series(
    "aviso_backend_operation_duration_seconds",
    Growth.HISTOGRAM,
    _CALL,
    "Duration of backend calls; operation publish is the publish latency.",
)
NOTIFICATIONS = Series(
    "aviso_notifications_total",
    Growth.COUNTER,
    ("event_type", "status"),
    "Notifications sent to the server.",
)
SSE_ACTIVE = Series("aviso_sse_connections_active", Growth.SUM, _STREAM, "Streams open now.")
SSE_CONNECTIONS = Series(
    "aviso_sse_connections_total",
    Growth.COUNTER,
    _STREAM,
    "Streams asked for, those that could not be set up included.",
)
SSE_USERS = Series(
    "aviso_sse_unique_users_active",
    Growth.DISTINCT,
    ("route", "username"),
    "Different users with an open stream; anonymous ones are not counted.",
)
SSE_SENT = Series(
    "aviso_sse_events_sent_total", Growth.COUNTER, _STREAM, "Notifications written to streams."
)
SSE_ERRORS = Series(
    "aviso_sse_stream_errors_total", Growth.COUNTER, _STREAM, "Error frames written to streams."
)
SSE_DURATION = Series(
    "aviso_sse_connection_duration_seconds",
    Growth.HISTOGRAM,
    ("route",),
    "How long streams lived.",
    LIFETIMES,
)
AUTH_REQUESTS = Series(
    "aviso_auth_requests_total", Growth.COUNTER, ("mode", "outcome"), "Credentials decided."
)
ECPDS_HITS = Series(
    "aviso_ecpds_cache_hits_total", Growth.COUNTER, (), "ECPDS checks answered from the cache."
)
ECPDS_MISSES = Series(
    "aviso_ecpds_cache_misses_total", Growth.COUNTER, (), "ECPDS checks that had to ask."
)
ECPDS_SIZE = Series("aviso_ecpds_cache_size", Growth.SUM, (), "Users in the ECPDS cache.")
ECPDS_DECISIONS = Series(
    "aviso_ecpds_access_decisions_total",
    Growth.COUNTER,
    ("outcome",),
    "Decisions of the ECPDS check.",
)
ECPDS_FETCHES = Series(
    "aviso_ecpds_fetch_total", Growth.COUNTER, ("outcome",), "Fetches from the ECPDS servers."
)
OTLP_FAILURES = Series(
    "aviso_otlp_export_failures_total",
    Growth.COUNTER,
    (),
    "Batches of log records not exported.",
)
OTLP_SUPPRESSED = Series(
    "aviso_otlp_suppressed_log_records_total",
    Growth.COUNTER,
    (),
    "Log records withheld from export because they may hold a secret.",
)
CONNECTED = Series(
    "aviso_backend_connected",
    Growth.MIN,
    ("backend",),
    "1 while the backend can be reached; with workers, by all of them.",
)
STORING = Series(
    "aviso_backend_storing",
    Growth.MIN,
    ("backend",),
    "1 while notifications of all configured event types can be stored, as `/ready` says.",
)
FAULTS = Series(
    "aviso_backend_fault",
    Growth.MAX,
    ("backend", "reason"),
    "1 while notifications cannot be stored for this reason.",
)
STORE_BYTES = Series(
    "aviso_store_bytes",
    Growth.MAX,
    (),
    "What the store has of its limit: bytes of all streams.",
)
STORE_LIMIT = Series(
    "aviso_store_limit_bytes",
    Growth.MAX,
    (),
    "Bytes beyond which NATS stores nothing, if known.",
)
STORE_FREE = Series(
    "aviso_store_free_bytes",
    Growth.MAX,
    (),
    "Free bytes on the disk of the embedded NATS server.",
)
STREAM_MESSAGES = Series(
    "aviso_stream_notifications",
    Growth.MAX,
    ("event_type",),
    "Notifications that the log keeps of a configured event type.",
)
STREAM_BYTES = Series(
    "aviso_stream_bytes", Growth.MAX, ("event_type",), "What they take in the log, in bytes."
)
RECONNECTS = Series(
    "aviso_backend_reconnects_total",
    Growth.COUNTER,
    ("backend",),
    "How often the connection to the backend was restored.",
)
BATCHES = Series(
    "aviso_backend_batches_total",
    Growth.COUNTER,
    ("backend", "outcome"),
    "Batches in which notifications were stored together.",
)
BATCHED = Series(
    "aviso_backend_batched_notifications_total",
    Growth.COUNTER,
    ("backend",),
    "Notifications stored in such batches; all others were stored alone.",
)
SWITCHES = Series(
    "aviso_sse_reader_switches_total",
    Growth.COUNTER,
    _STREAM,
    "Slow readers sent back to history.",
)
GAPS = Series(
    "aviso_sse_history_gaps_total",
    Growth.COUNTER,
    _STREAM,
    "Streams that began later than asked, because the history is gone.",
)
LIMITED = Series(
    "aviso_sse_replay_limited_total", Growth.COUNTER, _STREAM, "Replays cut by the cap."
)
QUEUED = Series(
    "aviso_sse_queued_notifications",
    Growth.SUM,
    (),
    "Notifications that wait in the queues of all readers.",
)
DEEPEST = Series(
    "aviso_sse_queue_depth_max",
    Growth.MAX,
    (),
    "Notifications that wait in the longest queue of a reader.",
)
REPLAY_DURATION = Series(
    "aviso_sse_replay_duration_seconds",
    Growth.HISTOGRAM,
    _STREAM,
    "Time to deliver the history a stream asked for.",
    REPLAYS,
)
HISTORY_READS = Series(
    "aviso_history_reads_total",
    Growth.COUNTER,
    ("tier",),
    "Batches of history read, from memory, from the log or from the lake.",
)
READERS_ACTIVE = Series(
    "aviso_history_readers_active",
    Growth.SUM,
    (),
    "Streams that read from the log or the lake now.",
)
READERS_WAITING = Series(
    "aviso_history_readers_waiting",
    Growth.SUM,
    (),
    "Streams that wait for their turn to read from the log or the lake.",
)
READERS_WAIT = Series(
    "aviso_history_wait_seconds",
    Growth.HISTOGRAM,
    (),
    "How long streams waited for their turn, where they had to.",
    REPLAYS,
)
AUTH_DURATION = Series(
    "aviso_auth_duration_seconds",
    Growth.HISTOGRAM,
    ("mode",),
    "Time to decide a credential.",
)
LOOP_LAG = Series(
    "aviso_loop_lag_seconds",
    Growth.HISTOGRAM,
    (),
    "How late the event loop was, sampled 40 times per second.",
    LAGS,
)
ARCHIVE_UP = Series("aviso_archive_up", Growth.SUM, (), "1 while the managed archive job runs.")
ARCHIVE_LAG = Series(
    "aviso_archive_lag_notifications",
    Growth.SUM,
    (),
    "Stored notifications that the managed archive job has not archived yet.",
)
ARCHIVE_LAG_SECONDS = Series(
    "aviso_archive_lag_seconds",
    Growth.SUM,
    (),
    "Age of the oldest notification that is not archived yet.",
)
ARCHIVED = Series(
    "aviso_archive_notifications_total",
    Growth.COUNTER,
    (),
    "Notifications that the managed archive job put into the lake.",
)
ARCHIVE_RESTARTS = Series(
    "aviso_archive_restarts_total",
    Growth.COUNTER,
    (),
    "How often the managed archive job was started again.",
)

ARCHIVE = (ARCHIVE_UP, ARCHIVE_LAG, ARCHIVE_LAG_SECONDS, ARCHIVED, ARCHIVE_RESTARTS)
"""Shown only by a server that looks after an archive job: elsewhere a zero would be an alarm."""

STORE = (STORE_BYTES, STORE_LIMIT, STORE_FREE)
"""Shown once measured: a zero would be an empty disk."""

SERIES = (
    *(BUILD_INFO, LOOP_LAG, HTTP_REQUESTS, HTTP_DURATION, HTTP_IN_FLIGHT),
    *(BACKEND_OPERATIONS, BACKEND_DURATION, CONNECTED, RECONNECTS, STORING, FAULTS),
    *(BATCHES, BATCHED),
    *(*STORE, STREAM_MESSAGES, STREAM_BYTES),
    *(NOTIFICATIONS, SSE_ACTIVE, SSE_CONNECTIONS, SSE_USERS, SSE_SENT, SSE_ERRORS, SSE_DURATION),
    *(SWITCHES, GAPS, LIMITED, QUEUED, DEEPEST, REPLAY_DURATION, HISTORY_READS),
    *(READERS_ACTIVE, READERS_WAITING, READERS_WAIT),
    *(AUTH_REQUESTS, AUTH_DURATION),
    *(ECPDS_HITS, ECPDS_MISSES, ECPDS_SIZE, ECPDS_DECISIONS, ECPDS_FETCHES),
    *(OTLP_FAILURES, OTLP_SUPPRESSED),
    *ARCHIVE,
)
"""In the order of the page."""
