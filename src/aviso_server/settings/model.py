"""The settings as typed, frozen sections: every key and every default.

A mandatory key has no default and gives an example instead. The example is also used while the rest
of a faulty configuration is checked, so that one missing key does not hide other faults.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from aviso_server.core.schema import Catalogue
from aviso_server.settings.coercion import (
    Bytes,
    Cap,
    Count,
    Flag,
    LogLevel,
    Port,
    Secret,
    Text,
    Whole,
)
from aviso_server.settings.faults import Warning_
from aviso_server.settings.literals import duration_s


class Section(BaseModel):
    """A block of the configuration file."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    closed: ClassVar[bool] = False
    """True where an unknown key is an error rather than a warning."""
    retired: ClassVar[frozenset[str]] = frozenset()
    """Keys of older releases, silently ignored."""

    @property
    def without_effect(self) -> frozenset[str]:
        """Keys that others make useless: not shown, and a fault where they are given."""
        return frozenset()


class Homepage(Section):
    """Links on the home page."""

    client_documentation_url: Text = "https://sites.ecmwf.int/docs/aviso-client/main/"
    client_repository_url: Text = "https://github.com/ecmwf/aviso-client"
    server_documentation_url: Text = "https://sites.ecmwf.int/docs/aviso-server/main/"
    server_repository_url: Text = "https://github.com/ecmwf/aviso-server"


class TlsSection(Section):
    """Certificate of the HTTP listener, and whom clients must be known to."""

    closed: ClassVar[bool] = True

    certificate: Text = Field(examples=["server.crt"])
    key: Text = Field(examples=["server.key"])
    client_ca: Text | None = None


class Application(Section):
    """The HTTP listener and its public description."""

    host: Text = Field(examples=["127.0.0.1"])
    port: Port = Field(examples=[8000])
    base_url: Text = "http://localhost"
    static_files_path: Text = "/app/static"
    max_body_bytes: Whole = 262_144
    max_batch_bytes: Bytes = 8_388_608
    max_batch_items: Whole = 5000
    max_head_bytes: Bytes = 131_072
    head_timeout_seconds: Whole = 5
    body_timeout_seconds: Whole = 30
    idle_timeout_seconds: Whole = 75
    cors_allowed_origins: tuple[Text, ...] = ()
    tls: TlsSection | None = None
    polygon_output: Text = "array"
    homepage: Homepage = Homepage()


class InMemory(Section):
    """Budget of the in-memory backend; oldest out first."""

    max_messages: Whole = 1_000_000
    max_bytes: Bytes = 268_435_456
    max_history_per_topic: Whole | None = None
    max_topics: Whole | None = None
    enable_metrics: Flag = False


class JetStream(Section):
    """Connection to NATS and the defaults of its streams."""

    nats_url: Text = "nats://localhost:4222"
    token: Secret | None = None
    username: Text | None = None
    password: Secret | None = None
    credentials_file: Text | None = None
    tls_required: Flag = False
    tls_ca_file: Text | None = None
    tls_cert_file: Text | None = None
    tls_key_file: Text | None = None
    timeout_seconds: Whole = 30
    retry_attempts: Whole = 3
    max_reconnect_attempts: Count | None = None
    reconnect_delay_ms: Whole = 2000
    publish_retry_attempts: Whole = 5
    publish_retry_base_delay_ms: Whole = 150
    max_messages: Whole | None = None
    max_bytes: Bytes | None = None
    retention_time: Text | None = None
    replicas: Whole | None = None
    storage_type: Literal["file", "memory"] = "file"
    retention_policy: Text = "limits"
    discard_policy: Literal["old", "new"] = "old"
    allow_removal: tuple[Text, ...] = ()
    enable_auto_reconnect: Flag | None = None
    embedded: Flag = False
    store_dir: Text = "var/nats"
    sync_always: Flag = True
    max_store: Bytes | None = None
    memory_tail_bytes: Bytes = 33_554_432
    memory_tail_total_bytes: Bytes = 268_435_456

    @property
    def without_effect(self) -> frozenset[str]:
        """With ``embedded`` everything about another NATS server.

        Except ``token``: it may come from ``NATS_TOKEN``, which other programs have a use for.
        """
        keys = (
            *("nats_url", "username", "password", "credentials_file"),
            *("tls_required", "tls_ca_file", "tls_cert_file", "tls_key_file"),
        )
        return frozenset(keys) if self.embedded else frozenset()

    @property
    def retention_s(self) -> int | None:
        """``retention_time`` in seconds; start-up has refused what cannot be read."""
        return None if self.retention_time is None else duration_s(self.retention_time)

    @property
    def servers(self) -> tuple[str, ...]:
        """The addresses in ``nats_url``, one by one."""
        return tuple(part.strip() for part in self.nats_url.split(",") if part.strip())


class NotificationBackend(Section):
    """Where notifications are kept."""

    kind: Text = Field(examples=["jetstream"])
    in_memory: InMemory = InMemory()
    jetstream: JetStream = JetStream()


class LakeSection(Section):
    """The archive of everything, and the job that fills it (docs/pipeline.md)."""

    path: Text | None = None
    storage_options: dict[Text, Secret] = Field(default_factory=dict)
    archive: Literal["off", "managed"] = "off"
    archive_interval_seconds: Whole = 10
    fail_on_data_loss: Flag = True
    typed_tables: Flag = True
    cache_bytes: Bytes = 67_108_864
    spark_master: Text = "local[*]"
    spark_conf: dict[Text, Text] = Field(default_factory=dict)
    spark_packages: tuple[Text, ...] = ()


class WatchEndpoint(Section):
    """Limits of watch and replay streams."""

    sse_heartbeat_interval_sec: Whole = 30
    connection_max_duration_sec: Whole = 3600
    replay_batch_size: Whole = 100
    max_historical_notifications: Cap = 10_000
    replay_batch_delay_ms: Count = 0
    client_queue_size: Whole = 1000
    compression: Flag = False
    concurrent_notification_processing: Text | None = None


class LimitsSection(Section):
    """What callers may do at the same time and per second; 0 is no limit."""

    max_streams: Count = 20_000
    max_streams_per_user: Count = 5000
    max_streams_per_address: Count = 5000
    max_stream_bytes: Count = 1_073_741_824
    max_notify_in_progress: Count = 1000
    max_batch_bytes_in_progress: Count = 134_217_728
    notify_rate_per_user: Count = 0
    notify_burst_per_user: Whole = 1000
    max_history_reads: Count = 8


class Auth(Section):
    """How callers are identified, and who is an administrator."""

    closed: ClassVar[bool] = True

    enabled: Flag = False
    mode: Literal["direct", "trusted_proxy"] = "direct"
    auth_o_tron_url: Text = ""
    jwt_secret: Secret = Field(default="", validate_default=True)
    jwks_url: Text = ""
    public_key_file: Text = ""
    admin_roles: dict[Text, tuple[Text, ...]] = Field(default_factory=dict)
    timeout_ms: Whole = 5000
    cache_seconds: Count = 10


class MetricsSection(Section):
    """The Prometheus listener."""

    enabled: Flag = False
    host: Text = "127.0.0.1"
    port: Port | None = None


class Otlp(Section):
    """Export of log records."""

    enabled: Flag = False
    endpoint: Text | None = None
    protocol: Literal["grpc", "http"] = "grpc"


class Logging(Section):
    """What is logged, and where to besides stdout."""

    level: LogLevel = "info"
    format: Text | None = None
    otlp: Otlp = Otlp()


class Ecpds(Section):
    """The ECPDS plugin's servers and service account."""

    closed: ClassVar[bool] = True

    username: Text = Field(examples=["service"])
    password: Secret = Field(examples=["example"])
    servers: tuple[Text, ...] = Field(examples=[["https://ecpds.example"]])
    match_key: Text = Field(examples=["destination"])
    target_field: Text = "name"
    cache_ttl_seconds: Whole = 300
    max_entries: Whole = 10_000
    request_timeout_seconds: Whole = 30
    connect_timeout_seconds: Whole = 5
    partial_outage_policy: Literal["strict", "any_success"] = "strict"


class Topic(Section):
    """How an event type's topic is laid out."""

    retired: ClassVar[frozenset[str]] = frozenset({"separator", "endpoint"})

    base: Text = Field(examples=["example"])
    key_order: tuple[Text, ...] = Field(examples=[["example"]])


class Payload(Section):
    """Whether a notification must carry a payload."""

    closed: ClassVar[bool] = True

    required: Flag = Field(examples=[False])


class Storage(Section):
    """How a durable backend keeps one event type; literals are read later."""

    retention_time: Text | None = None
    max_messages: Whole | None = None
    max_size: Text | None = None
    allow_duplicates: Flag | None = None
    compression: Flag | None = None


class StreamAuth(Section):
    """Who may read and write one event type."""

    closed: ClassVar[bool] = True

    required: Flag = Field(examples=[True])
    read_roles: dict[Text, tuple[Text, ...]] | None = None
    write_roles: dict[Text, tuple[Text, ...]] | None = None
    plugins: tuple[Text, ...] | None = None


class ExpectationsSection(Section):
    """What is expected of one event type; values are read by ``core.expectation``."""

    closed: ClassVar[bool] = True

    values: dict[Text, JsonValue] = Field(default_factory=dict)
    present: tuple[Text, ...] = ()
    every: Text | None = None
    per_cycle: Whole | None = None


class EventType(Section):
    """One entry of ``notification_schema``; fields are built by ``core.fields.registry``."""

    retired: ClassVar[frozenset[str]] = frozenset({"endpoint"})

    identifier: dict[Text, JsonValue] = Field(examples=[{}])
    topic: Topic | None = None
    payload: Payload | None = None
    max_historical_notifications: Cap | None = None
    storage_policy: Storage | None = None
    auth: StreamAuth | None = None
    expectations: ExpectationsSection | None = None

    @property
    def plugins(self) -> tuple[str, ...]:
        """The access plugins this event type lists."""
        return (self.auth.plugins or ()) if self.auth else ()


class Document(Section):
    """The whole configuration, typed but not yet checked."""

    retired: ClassVar[frozenset[str]] = frozenset({"endpoint"})

    application: Application = Field(examples=[{}])
    notification_backend: NotificationBackend = Field(examples=[{}])
    lake: LakeSection = LakeSection()
    watch_endpoint: WatchEndpoint = WatchEndpoint()
    limits: LimitsSection = LimitsSection()
    auth: Auth = Auth()
    metrics: MetricsSection = MetricsSection()
    logging: Logging = Logging()
    ecpds: Ecpds | None = None
    notification_schema: dict[Text, EventType] | None = None
    notification_schema_strict: Flag | None = None

    @property
    def event_types(self) -> Mapping[str, EventType]:
        """The configured event types in file order."""
        return self.notification_schema or {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Checked settings, as the composition root hands them down."""

    application: Application
    notification_backend: NotificationBackend
    lake: LakeSection
    watch_endpoint: WatchEndpoint
    limits: LimitsSection
    auth: Auth
    metrics: MetricsSection
    logging: Logging
    ecpds: Ecpds | None
    notification_schema: Mapping[str, EventType] | None
    """As configured; ``catalogue`` holds the same event types ready for use."""
    notification_schema_strict: bool | None
    catalogue: Catalogue
    warnings: tuple[Warning_, ...] = ()
    """To be logged once the logger exists."""
