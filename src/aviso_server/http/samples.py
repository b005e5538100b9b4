"""Examples shown in the OpenAPI document; the tests hold them against their schemas."""

from typing import NamedTuple

from aviso_server.core.json import Json

_REQUEST_ID = "0d4f6758-1ce3-4dda-a0f3-0ccf5fcb50d6"
_AREA: list[Json] = [[52.5, 13.4], [52.6, 13.5], [52.5, 13.6], [52.4, 13.5], [52.5, 13.4]]

HEALTH: Json = {"status": "ok"}
READY: Json = {"status": "ready", "backend_connected": True}
NOTIFIED: Json = {
    "status": "success",
    "request_id": _REQUEST_ID,
    "processed_at": "2026-03-04T10:00:00Z",
    "id": "test_polygon@7",
    "sequence": 7,
    "topic": "polygon.20250706.1200",
}
AFTER_NOTIFY: dict[str, Json] = {
    "Delete": {
        "operationId": "delete_notification",
        "description": "Remove what was just stored.",
        "parameters": {"notification_id": "$response.body#/id"},
    },
    "Replay": {
        "operationId": "replay",
        "description": "Read it back, and all that came later.",
        "requestBody": {
            "event_type": "$request.body#/event_type",
            "identifier": "$request.body#/identifier",
            "from_id": "$response.body#/sequence",
        },
    },
    "NotifyAgain": {
        "operationId": "notify",
        "description": "The same again is another notification, without an idempotency key.",
        "requestBody": "$request.body",
    },
}
"""What a client may do next."""

BATCH: Json = [
    {"event_type": "mars", "identifier": {"class": "od", "date": "20250706", "step": 6}},
    {"event_type": "mars", "identifier": {"class": "od", "date": "20250706", "step": "x"}},
]
BATCH_ANSWER: Json = {
    "status": "partial",
    "request_id": _REQUEST_ID,
    "processed_at": "2026-03-04T10:00:00Z",
    "accepted": 1,
    "rejected": 1,
    "results": [
        {"status": "success", "id": "mars@7", "sequence": 7, "topic": "mars.od.20250706.6"},
        {
            "status": "error",
            "code": "INVALID_NOTIFICATION_REQUEST",
            "error": "Invalid Notification Request",
            "message": "Field 'step' must be a valid integer, got: 'x'",
            "details": "invalid digit found in string",
        },
    ],
}
_MARS: Json = {
    "identifier": {
        "class": {
            "description": "MARS class",
            "max_length": 2,
            "required": True,
            "type": "StringHandler",
        },
        "step": {"range": [0, 100000], "required": False, "type": "IntHandler"},
    },
    "payload": {"required": True},
}
SCHEMA_LIST: Json = {
    "event_types": ["mars"],
    "schema": {"mars": _MARS},
    "status": "success",
    "total_schemas": 1,
}
EVENT_SCHEMA: Json = {"event_type": "mars", "schema": _MARS, "status": "success"}
WIPED: Json = {
    "success": True,
    "message": "Successfully wiped stream: mars",
    "request_id": _REQUEST_ID,
}
DELETED: Json = {
    "success": True,
    "message": "Notification deleted",
    "notification_id": "mars@42",
    "request_id": _REQUEST_ID,
}
CHECKED: Json = {
    "status": "success",
    "auth_enabled": True,
    "username": "alice",
    "realm": "ecmwf",
    "roles": ["producer"],
    "admin": False,
    "expires_at": "2026-03-04T11:00:00Z",
    "request_id": _REQUEST_ID,
}
OVERVIEW_TEXT = (
    "Per event type how much is stored in which tier and how fast it comes, and how backend and "
    "archive are doing. Callers see numbers of what they may read, and of the rest the name. "
    "Answers with 200 also when the backend is away, and costs the store one look per second "
    "however many ask."
)
OVERVIEW: Json = {
    "status": "success",
    "version": "0.1.0",
    "backend": {
        "kind": "jetstream",
        "connected": True,
        "store": {"stored_bytes": 524288, "limit_bytes": 214748364800, "free_bytes": 322122547200},
    },
    "ready": True,
    "auth_enabled": True,
    "metrics_port": 9090,
    "time": "2026-03-04T10:00:00Z",
    "archive": {
        "state": "running",
        "lag": 2,
        "lag_seconds": 1.5,
        "rate": 0.5,
        "restarts": 0,
        "error": None,
    },
    "lake": True,
    "event_types": [
        {
            "event_type": "dissemination",
            "configured": True,
            "readable": False,
            "writable": False,
        },
        {
            "event_type": "mars",
            "configured": True,
            "readable": True,
            "writable": True,
            "stored": 1200,
            "first_sequence": 1,
            "last_sequence": 1200,
            "last_time": "2026-03-04T09:59:58.123456789Z",
            "rates": {"per_second_1m": 0.5, "per_second_5m": 0.4, "per_second_1h": 0.25},
            "retention": {
                "seconds": 604800,
                "max_messages": None,
                "max_bytes": None,
                "per_topic": None,
                "shared": False,
            },
            "history_limit": 10000,
            "tiers": [
                {"tier": "memory", "first": 1101, "last": 1200},
                {"tier": "log", "first": 201, "last": 1200},
                {"tier": "lake", "first": 1, "last": 1198, "lag": 2},
            ],
        },
    ],
    "omitted": 0,
    "request_id": _REQUEST_ID,
}
_NO_START = (
    "Replay endpoint requires either from_id or from_date parameter. "
    "Use from_id for sequence-based replay or from_date for time-based replay."
)
BAD_REQUEST: Json = {
    "code": "INVALID_REPLAY_REQUEST",
    "details": _NO_START,
    "error": "Invalid Replay Request",
    "message": _NO_START,
    "request_id": _REQUEST_ID,
}
UNAUTHORIZED: Json = {
    "code": "UNAUTHORIZED",
    "error": "unauthorized",
    "message": "Authentication is required for this stream",
    "request_id": _REQUEST_ID,
}
TOO_LARGE: Json = {
    "code": "PAYLOAD_TOO_LARGE",
    "details": "Request body exceeds the limit of 262144 bytes",
    "error": "Payload Too Large",
    "message": "Request body exceeds the limit of 262144 bytes",
    "request_id": _REQUEST_ID,
}
NOT_STORED: Json = {
    "code": "NOTIFICATION_STORAGE_FAILED",
    "details": "the store of the embedded NATS is full (limit 200.0 GiB)",
    "error": "Notification Storage Failed",
    "message": "Failed to receive publish acknowledgment from JetStream",
    "request_id": _REQUEST_ID,
}
LIMITED: Json = {
    "code": "TOO_MANY_REQUESTS",
    "details": "Too many open streams: the limit per user is 1000",
    "error": "Too Many Requests",
    "message": "Too many open streams: the limit per user is 1000",
    "request_id": _REQUEST_ID,
}
NOTIFY_REQUESTS: dict[str, Json] = {
    "data": {
        "summary": "New data",
        "value": {
            "event_type": "mars",
            "identifier": {"class": "od", "date": "20250706", "time": "1200", "step": 6},
            "payload": {"location": "s3://bucket/forecast.grib"},
        },
    },
    "area": {
        "summary": "Something with a place",
        "value": {
            "event_type": "test_polygon",
            "identifier": {"date": "2025-07-06", "time": "12:00", "polygon": _AREA},
            "payload": {"note": "ok"},
        },
    },
}
_CLOUD_EVENT = (
    '{"data":{"identifier":{"date":"20250706","time":"1200"},"payload":{"note":"ok"}},'
    '"datacontenttype":"application/json",'
    '"dataschema":"http://localhost:8000/api/v1/schema/test_polygon","id":"test_polygon@7",'
    '"sequence":7,"source":"http://localhost:8000","specversion":"1.0",'
    '"time":"2026-03-04T10:00:00.123456789Z","type":"int.ecmwf.aviso.test_polygon"}'
)
_STAMP = '"timestamp":"2026-03-04T10:00:00Z","topic":"polygon.*.1200"'


def _frame(event: str, data: str) -> str:
    return f"event: {event}\ndata: {data}\n\n"


_CLOSING = "".join(
    (
        '{"message":"%s","reason":"%s",',
        f'"request_id":"{_REQUEST_ID}",{_STAMP}}}',
    )
)


class StreamSample(NamedTuple):
    """How watch or replay is described, asked and answered."""

    summary: str
    description: str
    requests: dict[str, Json]
    frames: str


WATCH = StreamSample(
    "Follow notifications",
    "Without a start the stream is live only. With `from_id` or `from_date` it first reads "
    "history (`replay` events between `replay_started` and `replay_completed`) and then goes "
    "live, with no notification lost or doubled. To continue after a break ask again with "
    "`from_id` one above the last `sequence` received.",
    {
        "live": {
            "summary": "From now on",
            "value": {"event_type": "test_polygon", "identifier": {"time": "1200"}},
        },
        "resume": {
            "summary": "From a sequence, then live, in an area",
            "value": {
                "event_type": "test_polygon",
                "identifier": {"polygon": _AREA},
                "from_id": "8",
            },
        },
    },
    _frame(
        "live-notification",
        f'{{"connection_will_close_in_seconds":3600,"request_id":"{_REQUEST_ID}",{_STAMP},'
        '"type":"connection_established"}',
    )
    + _frame("heartbeat", f"{{{_STAMP}}}")
    + _frame("live-notification", _CLOUD_EVENT)
    + _frame(
        "connection-closing",
        _CLOSING % ("Connection reached maximum duration", "max_duration_reached"),
    ),
)
REPLAY = StreamSample(
    "Read history",
    "Needs `from_id` or `from_date`; takes `to_id` or `to_date`. Ends with `replay_completed`, or "
    "with `notification_replay_limit_reached` when there is more than one request may read.",
    {
        "sequences": {
            "summary": "A range of sequences",
            "value": {
                "event_type": "test_polygon",
                "identifier": {"time": "1200"},
                "from_id": "5",
                "to_id": "20",
            },
        },
        "times": {
            "summary": "A range of time, a range of steps",
            "value": {
                "event_type": "mars",
                "identifier": {"class": "od", "step": {"gte": 6}},
                "from_date": "2025-06-09T13:15:00Z",
                "to_date": "2025-06-10T00:00:00Z",
            },
        },
    },
    _frame(
        "replay-control",
        '{"batch_size":100,"end_sequence":null,"from_date":null,"from_sequence":5,'
        f'"request_id":"{_REQUEST_ID}","timestamp":"2026-03-04T10:00:00Z","to_date":null,'
        '"topic":"polygon.*.1200","type":"replay_started"}',
    )
    + _frame("replay", _CLOUD_EVENT)
    + _frame("replay-control", f'{{{_STAMP},"type":"replay_completed"}}')
    + _frame("connection-closing", _CLOSING % ("Stream completed", "end_of_stream")),
)
STREAMS = {"watch": WATCH, "replay": REPLAY}
