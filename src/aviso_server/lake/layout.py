"""Where things are in the lake, and what its tables look like (docs/pipeline.md).

    <path>/notifications    every notification, once; partitioned by event type and day
    <path>/dead_letters     stored messages that are no notifications, with the reason
    <path>/tombstones       ranges of sequences that are deleted, wiped or lost
    <path>/tables           one table for each event type, derived from the first (lake/typed)
    <path>/checkpoints      Spark's own bookkeeping of the archive job

A table is an ordinary Delta table: any tool that reads Delta or Parquet reads it.

How far an event type is archived is the version of the application transaction ``aviso:NAME`` in
the notifications table. It is written in the same commit as the rows, so rows and mark are visible
together or not at all, whatever happens to Spark's checkpoint. ``aviso-record:NAME`` and
``aviso-time:NAME`` prove of which log: sequence and storage time of the last notification.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import pyarrow as pa

NOTIFICATIONS = "notifications"
DEAD_LETTERS = "dead_letters"
TOMBSTONES = "tombstones"
CHECKPOINTS = "checkpoints"

PARTITION = ("event_type", "day")
"""Partition columns of ``notifications``: few event types, one folder a day."""

TIME = pa.timestamp("us", tz="UTC")
TEXTS = pa.map_(pa.string(), pa.string())

BOX = ("min_lat", "min_lon", "max_lat", "max_lon")

RECORD = pa.schema(
    [
        pa.field("event_type", pa.string(), nullable=False),
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("id", pa.string(), nullable=False),  # as in CloudEvents: event_type@sequence
        pa.field("time", TIME),  # storage time, cut to microseconds
        pa.field("time_ns", pa.int64()),  # storage time, nanoseconds since the epoch
        pa.field("topic", pa.string()),  # decoded tokens joined with "."
        pa.field("subject", pa.string()),  # wire form, only where a token holds a "."
        pa.field("identifier", TEXTS),  # canonical texts in name order, without places
        pa.field("payload", pa.string()),  # compact JSON text
        pa.field("geometry", pa.binary()),  # WKB, longitude first
        pa.field("polygon", pa.string()),  # the producer's spelling, where it is not ours
        *(pa.field(name, pa.float64()) for name in BOX),
    ]
)
"""A notification as a row; what every tier and the Spark source agree on."""

NOTIFICATION_TABLE = pa.schema([*RECORD, pa.field("day", pa.date32(), nullable=False)])
"""``day`` is the UTC day of ``time``."""

DEAD_LETTER_TABLE = pa.schema(
    [
        pa.field("event_type", pa.string(), nullable=False),
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("time", TIME),
        pa.field("time_ns", pa.int64()),
        pa.field("subject", pa.string()),
        pa.field("problem", pa.string(), nullable=False),
        pa.field("raw", pa.binary()),  # the stored message as JSON; null over HTTP
    ]
)

DELETED, WIPED, LOST = "deleted", "wiped", "lost"
"""Kinds of tombstone. A lost range was trimmed from the log before it was archived."""

TOMBSTONE_TABLE = pa.schema(
    [
        pa.field("event_type", pa.string(), nullable=False),
        pa.field("first", pa.int64(), nullable=False),
        pa.field("last", pa.int64(), nullable=False),  # inclusive
        pa.field("kind", pa.string(), nullable=False),
        pa.field("at", TIME, nullable=False),
    ]
)

LOG_KEPT = timedelta(days=2)
"""How long the Delta log keeps old commits; the marks of application transactions never expire. The
log is listed whenever the table is opened or changed: 10 000 commits in it cost 30 ms of CPU."""


@dataclass(frozen=True, slots=True)
class Place:
    """A lake: a folder or an object store, by path or URL."""

    path: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Credentials and endpoints for the object store; may be secret."""

    def table(self, name: str) -> str:
        """The address of one of the tables."""
        return f"{self.path.rstrip('/')}/{name}"

    @property
    def remote(self) -> bool:
        """Whether it is reached by URL rather than through the file system."""
        return "://" in self.path and not self.path.startswith("file://")


def mark(event_type: str) -> str:
    """The application transaction that records how far an event type is archived."""
    return f"aviso:{event_type}"


def mark_record(event_type: str) -> str:
    """The one that names the last notification up to there, by sequence."""
    return f"aviso-record:{event_type}"


def mark_time(event_type: str) -> str:
    """The one that has its storage time, in nanoseconds since the epoch."""
    return f"aviso-time:{event_type}"
