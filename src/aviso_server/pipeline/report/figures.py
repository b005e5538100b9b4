"""The contents of a report: small tables, and their texts."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import pyarrow as pa

from aviso_server.lake.layout import TIME

Row: TypeAlias = dict[str, Any]
"""A row of one of the tables, by column."""

SECOND = 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

OTHERS = "(others)"
"""Means the event types that are not among the busiest."""

VOLUME = pa.schema(
    [
        ("event_type", pa.string()),
        ("start", TIME),  # of an hour, or of a day in long periods
        ("notifications", pa.int64()),
        ("payload_bytes", pa.int64()),
    ]
)
SIZES = pa.schema(
    [
        ("event_type", pa.string()),
        ("notifications", pa.int64()),
        ("payload_bytes", pa.int64()),
        ("p50", pa.int64()),
        ("p95", pa.int64()),
        ("p99", pa.int64()),
        ("largest", pa.int64()),
        ("newest", TIME),
    ]
)
SIZE_CLASSES = pa.schema(
    [
        ("event_type", pa.string()),
        ("exponent", pa.int32()),  # payloads of 2^exponent bytes and more, below twice that
        ("notifications", pa.int64()),
    ]
)
DELAYS = pa.schema(
    [
        ("event_type", pa.string()),  # null is all of them
        ("day", pa.date32()),  # null is the whole period
        ("notifications", pa.int64()),
        ("p50_s", pa.float64()),
        ("p90_s", pa.float64()),
        ("p95_s", pa.float64()),
        ("p99_s", pa.float64()),
        ("longest_s", pa.float64()),
    ]
)
VALUES = pa.schema(
    [
        ("event_type", pa.string()),
        ("field", pa.string()),
        ("rank", pa.int32()),
        ("value", pa.string()),
        ("notifications", pa.int64()),
        ("different", pa.int64()),  # values of the field
    ]
)
CYCLES = pa.schema(
    [
        ("event_type", pa.string()),
        ("day", pa.date32()),
        ("time", pa.string()),  # HH:MM
        ("on_time", pa.int64()),
        ("late", pa.int64()),
        ("missing", pa.int64()),
        ("due", pa.int64()),
        ("new", pa.int64()),
        ("worst_s", pa.float64()),  # beyond the usual delay
    ]
)
FINDINGS = pa.schema(
    [
        ("event_type", pa.string()),
        ("day", pa.date32()),
        ("time", pa.string()),
        ("product", pa.string()),  # NAME=VALUE, in name order
        ("kind", pa.string()),
        ("delay_s", pa.float64()),
        ("usual_s", pa.float64()),
        ("limit_s", pa.float64()),
    ]
)
AREAS = pa.schema(
    [
        ("event_type", pa.string()),
        ("lat", pa.int32()),  # of the south-western corner, in degrees
        ("lon", pa.int32()),
        ("notifications", pa.int64()),
    ]
)

SCHEMAS = {
    "volume": VOLUME,
    "sizes": SIZES,
    "size_classes": SIZE_CLASSES,
    "delays": DELAYS,
    "values": VALUES,
    "cycles": CYCLES,
    "findings": FINDINGS,
    "areas": AREAS,
}
"""The tables of a report, by name."""


@dataclass(frozen=True, slots=True)
class Period:
    """Storage times that are reported on: from ``start`` to before ``end``."""

    start: datetime
    end: datetime

    @property
    def start_ns(self) -> int:
        """Nanoseconds since the epoch."""
        return nanoseconds(self.start)

    @property
    def end_ns(self) -> int:
        """Nanoseconds since the epoch; not included."""
        return nanoseconds(self.end)

    @property
    def length(self) -> timedelta:
        """How long it is."""
        return self.end - self.start


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    """Everything that a page shows."""

    lake: str
    version: int
    """Of the notifications table."""
    made_at: datetime
    period: Period
    bucket: timedelta
    """Of the volume."""
    tables: dict[str, pa.Table] = field(default_factory=dict)

    def rows(self, name: str) -> list[Row]:
        """A table as dictionaries."""
        found: list[Row] = self.tables[name].to_pylist()
        return found

    @property
    def notifications(self) -> int:
        """All in the period."""
        return sum(self.tables["sizes"]["notifications"].to_pylist())


def empty_tables() -> dict[str, pa.Table]:
    """A report about nothing."""
    return {name: schema.empty_table() for name, schema in SCHEMAS.items()}


def nanoseconds(moment: datetime) -> int:
    """Since the epoch, exactly."""
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000


def moment(ns: int) -> datetime:
    """The time, cut to microseconds."""
    return _EPOCH + timedelta(microseconds=ns // 1000)
