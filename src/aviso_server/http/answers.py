"""The JSON answers of the service as typed values, in wire key order.

Handlers encode these structs and the OpenAPI document describes them, so the two cannot differ.
Schema answers and errors are written with sorted keys; their members are declared in
that order here.
Their docstrings are published there.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

ErrorField = Annotated[
    str | UnsetType,
    Meta(
        description=(
            "The field of the identifier, or else the member of the request, to correct; "
            "absent if the error concerns no single one."
        ),
        examples=["step"],
    ),
]
RequestId = Annotated[
    str,
    Meta(
        description="The request's id: a lower-case UUID version 4, also in `X-Request-ID`.",
        pattern="^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$",
        examples=["0d4f6758-1ce3-4dda-a0f3-0ccf5fcb50d6"],
    ),
]
Count = Annotated[int, Meta(ge=0)]
FieldType = Literal[
    "StringHandler",
    "DateHandler",
    "EnumHandler",
    "ExpverHandler",
    "IntHandler",
    "FloatHandler",
    "TimeHandler",
    "PolygonHandler",
    "PointCloudHandler",
]


class HealthResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The process serves; nothing is said about the backend."""

    status: Literal["ok"]


class ArchiveResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the archive job that the server manages."""

    state: Annotated[
        Literal["starting", "running", "stopped", "failed", "unavailable"],
        Meta(description="`failed`: it will be restarted; `unavailable`: it cannot run here."),
    ]
    lag: Annotated[
        int | None, Meta(description="Stored notifications that are not archived yet.")
    ] = None
    lag_seconds: Annotated[
        float | None, Meta(description="Age of the oldest of them, in seconds.")
    ] = None
    rate: Annotated[float, Meta(description="Notifications archived per second.")] = 0.0
    restarts: int = 0
    error: str | None = None


class FaultView(msgspec.Struct, frozen=True, kw_only=True):
    """Why notifications cannot be stored now."""

    reason: Literal[
        "disconnected",
        "no_quorum",
        "stream_refused",
        "store_full",
        "write_failed",
        "not_acknowledged",
    ]
    message: Annotated[str, Meta(examples=["the store of the embedded NATS is full (limit 9 GiB)"])]


class ReadyResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the service takes traffic."""

    status: Literal["ready", "not_ready"]
    backend_connected: bool
    fault: Annotated[
        FaultView | UnsetType | None,
        Meta(description="With `?details`; null while notifications can be stored."),
    ] = UNSET
    archive: Annotated[
        ArchiveResponse | UnsetType,
        Meta(description="With `?details`, and only if the server manages an archive job."),
    ] = UNSET


class NotificationResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A notification was stored."""

    status: Literal["success"]
    request_id: RequestId
    processed_at: Annotated[
        str,
        Meta(
            description="UTC wall clock in whole seconds.",
            pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$",
            examples=["2026-03-04T10:00:00Z"],
        ),
    ]
    id: Annotated[str, Meta(description="`<event_type>@<sequence>`.", examples=["test_polygon@7"])]
    sequence: Annotated[int, Meta(ge=1, description="Position in the stream of the event type.")]
    topic: Annotated[
        str, Meta(description="The decoded topic.", examples=["polygon.20250706.1200"])
    ]


class WipeStreamRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which stream to wipe."""

    stream_name: Annotated[
        str,
        Meta(description="An event type or a stream name, in any case.", examples=["mars"]),
    ]


class WipeResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a wipe."""

    success: bool
    message: str
    request_id: RequestId


class DeleteNotificationResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a deletion."""

    success: bool
    message: str
    notification_id: Annotated[
        str, Meta(description="The id from the path, decoded.", examples=["mars@42"])
    ]
    request_id: RequestId


class FieldView(msgspec.Struct, frozen=True, kw_only=True):
    """The public view of one identifier field; options appear by type."""

    canonical_format: str | UnsetType = UNSET
    default: str | UnsetType | None = UNSET
    description: str | UnsetType = UNSET
    max_length: int | UnsetType | None = UNSET
    max_points: int | UnsetType = UNSET
    range: list[float] | UnsetType | None = UNSET
    required: bool
    type: FieldType
    values: list[str] | UnsetType = UNSET


class PayloadConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a notification must have a payload."""

    required: bool


class ApiEventSchema(msgspec.Struct, frozen=True, kw_only=True):
    """The public view of one event type."""

    identifier: dict[str, FieldView]
    payload: PayloadConfig | None


class SchemaListResponse(msgspec.Struct, frozen=True, kw_only=True):
    """All configured event types."""

    event_types: list[str]
    message: Annotated[
        str | UnsetType, Meta(description="Present only when no schema is configured at all.")
    ] = UNSET
    schema: dict[str, ApiEventSchema]
    status: Literal["success"]
    total_schemas: int


class EventSchemaResponse(msgspec.Struct, frozen=True, kw_only=True):
    """One configured event type."""

    event_type: str
    schema: ApiEventSchema
    status: Literal["success"]


class SchemaNotFoundResponse(msgspec.Struct, frozen=True, kw_only=True):
    """There is no schema for the event type; this is not the error object."""

    available_types: list[str] | UnsetType = UNSET
    message: str
    request_id: RequestId
    status: Literal["error"]


class AuthCheckResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Who the caller is."""

    status: Literal["success"]
    auth_enabled: Annotated[
        bool, Meta(description="False: no credentials are needed, and every route is open.")
    ]
    username: Annotated[str, Meta(description="`anonymous` while authentication is off.")]
    realm: str | None
    roles: list[str]
    admin: Annotated[bool, Meta(description="Whether the admin endpoints are open to the caller.")]
    expires_at: Annotated[
        str | None,
        Meta(
            description="When the token ends, and every stream opened with it.",
            examples=["2026-03-04T10:00:00Z"],
        ),
    ]
    request_id: RequestId


class StoreView(msgspec.Struct, frozen=True, kw_only=True):
    """How full the store is."""

    stored_bytes: Count
    limit_bytes: Annotated[
        int | None, Meta(description="Beyond it nothing is stored; null if unknown.")
    ]
    free_bytes: Annotated[
        int | None, Meta(description="On the disk of an embedded NATS server, else null.")
    ]


class BackendView(msgspec.Struct, frozen=True, kw_only=True):
    """Where notifications are kept."""

    kind: Annotated[str, Meta(examples=["jetstream"])]
    connected: bool
    fault: Annotated[
        FaultView | UnsetType, Meta(description="Absent while notifications can be stored.")
    ] = UNSET
    store: Annotated[StoreView | UnsetType, Meta(description="Absent if it is not measured.")] = (
        UNSET
    )


class RatesView(msgspec.Struct, frozen=True, kw_only=True):
    """Notifications per second, whoever published them; null if too much is gone to know."""

    per_second_1m: Annotated[float | None, Meta(description="Over the last minute.")]
    per_second_5m: Annotated[float | None, Meta(description="Over the last five minutes.")]
    per_second_1h: Annotated[float | None, Meta(description="Over the last hour.")]


class RetentionView(msgspec.Struct, frozen=True, kw_only=True):
    """How much the log keeps, as configured; null is no limit."""

    seconds: int | None
    max_messages: int | None
    max_bytes: int | None
    per_topic: Annotated[
        int | None, Meta(description="Newest notifications kept of each topic; null keeps all.")
    ]
    shared: Annotated[
        bool,
        Meta(description="`max_messages` and `max_bytes` apply to all event types together."),
    ]


class TierView(msgspec.Struct, frozen=True, kw_only=True):
    """Which sequences one tier has; tiers overlap."""

    tier: Annotated[
        Literal["memory", "log", "lake"],
        Meta(description="`memory` is that of the process that answers; the others are shared."),
    ]
    first: Annotated[int | None, Meta(description="Null when the tier has nothing.")]
    last: int | None
    lag: Annotated[
        int | UnsetType,
        Meta(description="Of the lake: stored notifications that are not archived yet."),
    ] = UNSET


class EventTypeView(msgspec.Struct, frozen=True, kw_only=True):
    """One event type; what follows `key_order` is for those who may read all of it."""

    event_type: str
    configured: Annotated[
        bool,
        Meta(description="False: it has no schema, and only a backend in memory counts it."),
    ]
    readable: Annotated[
        bool,
        Meta(
            description=(
                "Whether the caller's roles allow watch and replay. Where ECPDS decides by "
                "destination it may still refuse, and numbers are for administrators only."
            )
        ),
    ]
    writable: Annotated[bool, Meta(description="Whether the caller's roles allow notify.")]
    key_order: Annotated[
        list[str] | UnsetType,
        Meta(description="The fields of a topic, in their order; those of a place are not in it."),
    ] = UNSET
    stored: Annotated[
        Count | UnsetType,
        Meta(description="What a replay from the beginning can find, at most."),
    ] = UNSET
    first_sequence: Annotated[
        int | UnsetType | None,
        Meta(description="The oldest that can be replayed; null when nothing is stored."),
    ] = UNSET
    last_sequence: Annotated[
        Count | UnsetType,
        Meta(description="The last one assigned, whether still retained or not; 0: none."),
    ] = UNSET
    last_time: Annotated[
        str | UnsetType | None,
        Meta(
            description="Storage time of the newest still retained.",
            examples=["2026-03-04T10:00:00.123456789Z"],
        ),
    ] = UNSET
    rates: RatesView | UnsetType = UNSET
    retention: RetentionView | UnsetType = UNSET
    history_limit: Annotated[
        int | UnsetType,
        Meta(description="History that one watch or replay gets, in notifications."),
    ] = UNSET
    tiers: Annotated[
        list[TierView] | UnsetType, Meta(description="Newest first; those that exist.")
    ] = UNSET
    error: Annotated[
        str | UnsetType,
        Meta(description="Why numbers are missing, or cover the log alone."),
    ] = UNSET


class OverviewResponse(msgspec.Struct, frozen=True, kw_only=True):
    """What the server holds and how it is doing."""

    status: Literal["success"]
    version: str
    backend: BackendView
    ready: Annotated[bool, Meta(description="What `GET /ready` says.")]
    auth_enabled: Annotated[
        bool, Meta(description="False: no credentials are needed, and every route is open.")
    ]
    metrics_port: Annotated[
        int | None, Meta(description="Where numbers for Prometheus are, if they are on.")
    ]
    time: Annotated[
        str,
        Meta(
            description="When the numbers were taken, normally less than a second ago.",
            examples=["2026-03-04T10:00:00Z"],
        ),
    ]
    archive: Annotated[
        ArchiveResponse | None, Meta(description="If the server manages an archive job.")
    ]
    lake: Annotated[bool, Meta(description="Whether there is a lake below the log.")]
    event_types: Annotated[
        list[EventTypeView],
        Meta(description="Those configured, by name, then those with only a stream."),
    ]
    omitted: Annotated[
        Count, Meta(description="Further event types without a schema, which are not reported.")
    ]
    request_id: RequestId


class ErrorResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The error object."""

    code: Literal[
        "PAYLOAD_TOO_LARGE",
        "INVALID_JSON",
        "UNKNOWN_FIELD",
        "INVALID_REQUEST_SHAPE",
        "UNKNOWN_EVENT_TYPE",
        "INVALID_NOTIFICATION_REQUEST",
        "INVALID_WATCH_REQUEST",
        "INVALID_REPLAY_REQUEST",
        "UNAUTHORIZED",
        "FORBIDDEN",
        "SERVICE_UNAVAILABLE",
        "INTERNAL_ERROR",
        "IDEMPOTENCY_KEY_REUSED",
        "TOO_MANY_REQUESTS",
        "REQUEST_TIMEOUT",
        "NOTIFICATION_PROCESSING_FAILED",
        "NOTIFICATION_STORAGE_FAILED",
        "BATCH_OUTCOME_UNKNOWN",
        "ATOMIC_BATCH_UNSUPPORTED",
        "SSE_STREAM_INITIALIZATION_FAILED",
    ]
    configured_event_types: Annotated[
        list[str] | UnsetType, Meta(description="Sorted; with `UNKNOWN_EVENT_TYPE` only.")
    ] = UNSET
    details: Annotated[str | UnsetType, Meta(description="The innermost cause.")] = UNSET
    error: Annotated[str, Meta(description="A label for people.")]
    field: ErrorField = UNSET
    message: Annotated[str, Meta(description="The outermost error text.")]
    request_id: RequestId
    topic: Annotated[
        str | UnsetType, Meta(description="Decoded; when a stream could not be set up.")
    ] = UNSET


class ItemAccepted(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="success"):
    """One notification of a batch was stored."""

    id: Annotated[str, Meta(description="`<event_type>@<sequence>`.", examples=["mars@7"])]
    sequence: Annotated[int, Meta(ge=1)]
    topic: str


class ItemRefused(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="error"):
    """One notification of a batch was not stored; the members are those of an error."""

    code: str
    error: str
    message: str
    details: str
    field: ErrorField = UNSET


class BatchResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The result of each notification of a batch, in the order sent."""

    status: Annotated[
        Literal["success", "partial", "error"],
        Meta(description="All stored, some stored, none stored."),
    ]
    request_id: RequestId
    processed_at: str
    accepted: int
    rejected: int
    results: list[ItemAccepted | ItemRefused]
