"""Frames: their exact bytes (docs/protocol.md#control-frames)."""

import pytest
from support.relay import NOW_NS, REQUEST_ID

from aviso_server.core.frame import (
    Closing,
    Established,
    Frame,
    Framer,
    Heartbeat,
    HistoryGap,
    LimitReached,
    NotRendered,
    Reason,
    ReplayCompleted,
    ReplayStarted,
    StreamFailed,
    notification_frame,
)

FRAMER = Framer(REQUEST_ID, "polygon.*.1200")
NOW = '"timestamp":"2026-03-04T10:00:00Z"'
ID = f'"request_id":"{REQUEST_ID}"'
TOPIC = '"topic":"polygon.*.1200"'


@pytest.mark.parametrize(
    ("frame", "name", "data"),
    [
        (
            Established(3600),
            "live-notification",
            (
                f'{{"connection_will_close_in_seconds":3600,{ID},{NOW},{TOPIC},'
                '"type":"connection_established"}'
            ),
        ),
        (
            ReplayStarted(100, from_sequence=5),
            "replay-control",
            (
                f'{{"batch_size":100,"end_sequence":null,"from_date":null,"from_sequence":5,{ID},{NOW},'
                f'"to_date":null,{TOPIC},"type":"replay_started"}}'
            ),
        ),
        (
            ReplayStarted(100, from_ns=NOW_NS + 999_999_999, end_sequence=9, to_ns=NOW_NS),
            "replay-control",
            (
                f'{{"batch_size":100,"end_sequence":9,"from_date":"2026-03-04T10:00:00Z",'
                f'"from_sequence":null,{ID},{NOW},"to_date":"2026-03-04T10:00:00Z",{TOPIC},'
                '"type":"replay_started"}'
            ),
        ),
        (
            HistoryGap(5, 120),
            "replay-control",
            (
                f'{{"first_available_sequence":120,"requested_sequence":5,{NOW},{TOPIC},'
                '"type":"history_gap"}'
            ),
        ),
        (
            LimitReached(10000),
            "replay-control",
            (
                '{"max_allowed":10000,"message":"Historical replay limited to 10000 messages. '
                'Additional historical messages may be available but were not retrieved.",'
                f'{NOW},{TOPIC},"type":"notification_replay_limit_reached"}}'
            ),
        ),
        (ReplayCompleted(), "replay-control", f'{{{NOW},{TOPIC},"type":"replay_completed"}}'),
        (Heartbeat(), "heartbeat", f"{{{NOW},{TOPIC}}}"),
        (
            StreamFailed("Failed to read history"),
            "error",
            (
                '{"error":"stream_processing_failed","message":"Failed to read history",'
                f"{ID},{TOPIC}}}"
            ),
        ),
        (
            NotRendered(17, "polygon.20250706.1200"),
            "error",
            (
                '{"error":"CloudEvent creation failed","message":"Failed to decode stored topic",'
                f'{ID},"sequence":17,"topic":"polygon.20250706.1200"}}'
            ),
        ),
        (
            Closing(Reason.END_OF_STREAM),
            "connection-closing",
            f'{{"message":"Stream completed","reason":"end_of_stream",{ID},{NOW},{TOPIC}}}',
        ),
        (
            Closing(Reason.MAX_DURATION),
            "connection-closing",
            (
                '{"message":"Connection reached maximum duration","reason":"max_duration_reached",'
                f"{ID},{NOW},{TOPIC}}}"
            ),
        ),
        (
            Closing(Reason.SHUTDOWN),
            "connection-closing",
            (
                '{"message":"Server is shutting down gracefully","reason":"server_shutdown",'
                f"{ID},{NOW},{TOPIC}}}"
            ),
        ),
    ],
)
def test_exact_bytes(frame: Frame, name: str, data: str) -> None:
    """One event line, one data line, an empty line; keys alphabetical."""
    assert FRAMER.render(frame, NOW_NS).decode() == f"event: {name}\ndata: {data}\n\n"


def test_notifications() -> None:
    """A rendered event between two constants."""
    assert notification_frame(b"replay", b"{}") == b"event: replay\ndata: {}\n\n"
