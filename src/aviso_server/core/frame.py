"""The frames of a stream: typed values and the one renderer that turns them into bytes.

A frame is exactly ``event: <name>`` LF ``data: <one line of JSON>`` LF LF. There is no ``id:``
line. Keys are alphabetical; the values below list them that way.
"""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias, assert_never

from aviso_server.core.json import Json, compact
from aviso_server.core.moment import seconds

LIVE = b"live-notification"
REPLAY = b"replay"
_CONTROL = b"replay-control"
_HEARTBEAT = b"heartbeat"
_ERROR = b"error"
_CLOSING = b"connection-closing"


class Reason(Enum):
    """Why an orderly stream ended, with the message that goes with it."""

    END_OF_STREAM = ("end_of_stream", "Stream completed")
    MAX_DURATION = ("max_duration_reached", "Connection reached maximum duration")
    SHUTDOWN = ("server_shutdown", "Server is shutting down gracefully")


@dataclass(frozen=True, slots=True)
class Established:
    """Opening frame of a live-only watch."""

    closes_in_s: int


@dataclass(frozen=True, slots=True)
class ReplayStarted:
    """Opening frame of every stream with a start: exactly one of the two starts is given."""

    batch_size: int
    from_sequence: int | None = None
    from_ns: int | None = None
    end_sequence: int | None = None
    to_ns: int | None = None


@dataclass(frozen=True, slots=True)
class HistoryGap:
    """The requested start is older than anything kept."""

    requested: int
    first_available: int


@dataclass(frozen=True, slots=True)
class LimitReached:
    """The replay cap cut the history."""

    max_allowed: int


@dataclass(frozen=True, slots=True)
class ReplayCompleted:
    """History is complete up to the boundary H."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The stream is alive."""


@dataclass(frozen=True, slots=True)
class StreamFailed:
    """A stream-level failure; the closing frame follows."""

    message: str


@dataclass(frozen=True, slots=True)
class NotRendered:
    """Replaces a stored message that cannot be shown."""

    sequence: int
    topic: str
    message: str = "Failed to decode stored topic"


@dataclass(frozen=True, slots=True)
class Closing:
    """The last frame."""

    reason: Reason


Frame: TypeAlias = (
    Established
    | ReplayStarted
    | HistoryGap
    | LimitReached
    | ReplayCompleted
    | Heartbeat
    | StreamFailed
    | NotRendered
    | Closing
)


def notification_frame(name: bytes, event: bytes) -> bytes:
    """A rendered CloudEvent as a ``live-notification`` or ``replay`` frame."""
    return b"event: %b\ndata: %b\n\n" % (name, event)


@dataclass(frozen=True, slots=True)
class Framer:
    """Renders control frames of one stream, which share its request id and topic pattern."""

    request_id: str
    topic: str

    def render(self, frame: Frame, now_ns: int) -> bytes:
        """The bytes of a control frame built at ``now_ns``."""
        name, data = self._parts(frame, seconds(now_ns))
        return b"event: %b\ndata: %b\n\n" % (name, compact(data))

    def _parts(self, frame: Frame, now: str) -> tuple[bytes, dict[str, Json]]:
        match frame:
            case Established(closes_in_s):
                return LIVE, {
                    **self._control(now, "connection_established"),
                    "connection_will_close_in_seconds": closes_in_s,
                    "request_id": self.request_id,
                }
            case ReplayStarted():
                return _CONTROL, {**self._control(now, "replay_started"), **self._started(frame)}
            case HistoryGap(requested, first_available):
                return _CONTROL, {
                    **self._control(now, "history_gap"),
                    "first_available_sequence": first_available,
                    "requested_sequence": requested,
                }
            case LimitReached(max_allowed):
                return _CONTROL, {
                    **self._control(now, "notification_replay_limit_reached"),
                    "max_allowed": max_allowed,
                    "message": f"Historical replay limited to {max_allowed} messages. Additional "
                    "historical messages may be available but were not retrieved.",
                }
            case ReplayCompleted():
                return _CONTROL, self._control(now, "replay_completed")
            case Heartbeat():
                return _HEARTBEAT, {"timestamp": now, "topic": self.topic}
            case StreamFailed(message):
                return _ERROR, {
                    "error": "stream_processing_failed",
                    "message": message,
                    "request_id": self.request_id,
                    "topic": self.topic,
                }
            case NotRendered(sequence, topic, message):
                return _ERROR, {
                    "error": "CloudEvent creation failed",
                    "message": message,
                    "request_id": self.request_id,
                    "sequence": sequence,
                    "topic": topic,
                }
            case Closing(reason):
                word, message = reason.value
                return _CLOSING, {
                    "message": message,
                    "reason": word,
                    "request_id": self.request_id,
                    "timestamp": now,
                    "topic": self.topic,
                }
        assert_never(frame)

    def _control(self, now: str, kind: str) -> dict[str, Json]:
        return {"timestamp": now, "topic": self.topic, "type": kind}

    def _started(self, frame: ReplayStarted) -> dict[str, Json]:
        return {
            "batch_size": frame.batch_size,
            "end_sequence": frame.end_sequence,
            "from_date": None if frame.from_ns is None else seconds(frame.from_ns),
            "from_sequence": frame.from_sequence,
            "request_id": self.request_id,
            "to_date": None if frame.to_ns is None else seconds(frame.to_ns),
        }
