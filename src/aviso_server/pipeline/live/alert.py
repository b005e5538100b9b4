"""What live views publish: the event type ``aviso_alert``, its schema and its identities. Pure.

An alert is known by kind, event type, window and key, whatever else it says. The same four always
make the same idempotency key, so that an alert published again is stored once.
"""

from datetime import UTC, datetime

EVENT_TYPE = "aviso_alert"

RATE, LATE, QUALITY = "rate", "late", "quality"
"""Kinds of alert."""

IDENTITY = ("kind", "event_type", "window", "key")
"""The fields that identify an alert."""

NORMAL, UNEXPECTED, HIGH, INCOMPLETE, ABSENT = 1, 2, 3, 4, 5
"""Severities: a rate, something unexpected, a rate above its limit, a cycle with a part late, a
cycle with nothing."""

SCHEMA = """\
  # Published by `aviso-server pipeline live` (rates, late cycles) and `quality` (the unexpected).
  aviso_alert:
    topic:
      base: alert
      key_order: [kind, event_type, severity, window, key]
    payload:
      required: true
    identifier:
      kind:
        type: EnumHandler
        values: [rate, late, quality]
        required: false
        description: what the alert is about
      event_type:
        type: StringHandler
        required: false
        description: the event type it is about
      severity:
        type: IntHandler
        range: [1, 7]
        required: false
        description: 1 rate, 2 unexpected, 3 rate above its limit, 4 cycle late in part, 5 all of it
      window:
        type: StringHandler
        required: false
        description: begin of a window, base of a cycle or time of a check (2026-01-31T12:00:00Z)
      key:
        type: StringHandler
        required: false
        description: length of a window, group of a cycle such as stream=oper, or expectation
"""
"""For the section ``notification_schema`` of a configuration."""

_US = 1_000_000


def moment(us: int) -> str:
    """A time in microseconds since the epoch as alerts spell it: UTC, to the second."""
    return datetime.fromtimestamp(us // _US, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration(seconds: int) -> str:
    """A length of time in the largest unit that fits."""
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
