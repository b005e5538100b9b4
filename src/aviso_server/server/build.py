"""From settings to parts: each part gets the values it needs and none knows the settings."""

import os
import ssl
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from aviso_server import __version__
from aviso_server.auth.gate import Gate
from aviso_server.backends.backend import Backend
from aviso_server.backends.jetstream.options import (
    CannotStart,
    Embedded,
    JetStreamOptions,
    Pace,
    Store,
    StreamDefaults,
    Tls,
)
from aviso_server.backends.memory.backend import MemoryBackend, MemoryLimits
from aviso_server.core.cloudevent import Renderer
from aviso_server.core.schema import Schema
from aviso_server.http.connection import ConnectionRules
from aviso_server.http.cors import Cors
from aviso_server.http.limits import Allowance, Limiter
from aviso_server.http.pages import PACKAGED_STATIC
from aviso_server.http.services import Services
from aviso_server.http.tls import TlsFiles, tls_context
from aviso_server.relay.admin import Administration
from aviso_server.relay.feed import Sources
from aviso_server.relay.history import Tiers
from aviso_server.relay.hub import Hub, Keep, Recovery
from aviso_server.relay.lake import LakeTier
from aviso_server.relay.overview import Overview
from aviso_server.relay.pulse import Stop
from aviso_server.relay.query import StreamRules
from aviso_server.relay.readers import Readers
from aviso_server.relay.totals import Retention
from aviso_server.settings import Settings
from aviso_server.settings.model import InMemory, JetStream, NotificationBackend
from aviso_server.telemetry import log
from aviso_server.telemetry.cells import Cells
from aviso_server.telemetry.export import Export, ExportMissing, ExportOptions, open_export
from aviso_server.telemetry.metrics import SILENT, Metrics

if TYPE_CHECKING:
    from aviso_server.lake.lake import Lake
    from aviso_server.lake.layout import Place

STORE_BATCH = 1000
"""Entries read from JetStream at a time: measured fastest (docs/decisions/0003)."""


class StartFailed(Exception):
    """The server cannot start; the message says why and what to do."""


async def open_backend(
    settings: Settings,
    *,
    pace: Pace | None = None,
    lake: "Lake | None" = None,
    store: Store | None = None,
) -> Backend:
    """The configured backend, ready to be used; StartFailed when it cannot be.

    ``pace`` sets the waits that operators have no setting for. With a ``lake`` nothing is stored in
    a log that does not continue where the lake ends. ``store`` is that of the embedded NATS server
    started by our supervisor.
    """
    chosen = settings.notification_backend
    if chosen.kind == MemoryBackend.kind:
        return _open_memory(chosen.in_memory)
    # A server that keeps everything in memory has no use for a NATS client.
    from aviso_server.backends.jetstream.backend import JetStreamBackend  # noqa: PLC0415

    try:
        options = replace(jetstream_options(settings), pace=pace or Pace(), store=store)
        marks = None if lake is None else lake.mark
        return await JetStreamBackend.open(options, settings.catalogue, marks=marks)
    except CannotStart as error:
        raise StartFailed(str(error)) from error


def _open_memory(limits: InMemory) -> MemoryBackend:
    structlog.get_logger().info(
        "Keeping notifications in memory: one process, lost on restart",
        event_name="backend.in_memory.initialization.started",
        max_messages=limits.max_messages,
        max_bytes=limits.max_bytes,
    )
    return MemoryBackend(
        MemoryLimits(
            limits.max_messages,
            limits.max_bytes,
            limits.max_history_per_topic,
            limits.max_topics,
        ),
        now_ns=time.time_ns,
    )


def jetstream_options(settings: Settings) -> JetStreamOptions:
    """The options of the JetStream backend."""
    chosen = settings.notification_backend.jetstream
    return JetStreamOptions(
        servers=chosen.servers,
        token=chosen.token.get_secret_value() if chosen.token else None,
        username=chosen.username,
        password=chosen.password.get_secret_value() if chosen.password else None,
        credentials_file=chosen.credentials_file,
        tls_required=chosen.tls_required,
        tls=Tls(chosen.tls_ca_file, chosen.tls_cert_file, chosen.tls_key_file),
        timeout_s=chosen.timeout_seconds,
        retry_attempts=chosen.retry_attempts,
        max_reconnect_attempts=chosen.max_reconnect_attempts,
        reconnect_delay_s=chosen.reconnect_delay_ms / 1000,
        publish_retry_attempts=chosen.publish_retry_attempts,
        publish_retry_base_delay_s=chosen.publish_retry_base_delay_ms / 1000,
        streams=StreamDefaults(
            max_messages=chosen.max_messages,
            max_bytes=chosen.max_bytes,
            retention_s=chosen.retention_s,
            replicas=chosen.replicas,
            storage_type=chosen.storage_type,
            discard_policy=chosen.discard_policy,
            allow_removal=frozenset(chosen.allow_removal),
        ),
        embedded=(embedded_options(chosen) if chosen.embedded else None),
    )


def embedded_options(chosen: JetStream) -> Embedded:
    """The options of the embedded NATS server."""
    return Embedded(
        Path(chosen.store_dir), sync_always=chosen.sync_always, max_bytes=chosen.max_store
    )


def build_metrics(settings: Settings, cells: Cells | None = None) -> Metrics:
    """What counts; nothing does unless metrics are on. ``cells`` are for a worker."""
    if not settings.metrics.enabled:
        return SILENT
    return Metrics(
        Cells.private() if cells is None else cells,
        version=__version__,
        backend=settings.notification_backend.kind,
        event_types=settings.catalogue.names,
    )


def open_lake(settings: Settings) -> "Lake | None":
    """The lake, if there is one; it is opened when it is first read."""
    chosen = settings.lake
    if chosen.path is None:
        return None
    # Arrow and Delta take their time to load, and a server without a lake has no use for them.
    from aviso_server.lake.lake import Lake  # noqa: PLC0415

    return Lake(lake_place(settings), cache_bytes=chosen.cache_bytes)


def lake_place(settings: Settings) -> "Place":
    """Where the lake is; settings were checked to have a path."""
    from aviso_server.lake.layout import Place  # noqa: PLC0415 - as above

    chosen = settings.lake
    options = {name: value.get_secret_value() for name, value in chosen.storage_options.items()}
    return Place(chosen.path or "", options)


def build_sources(
    settings: Settings,
    backend: Backend,
    *,
    metrics: Metrics = SILENT,
    lake: LakeTier | None = None,
) -> Sources:
    """What feeds read from: the hub, and history with its newest part in memory."""
    renderer = Renderer(
        settings.application.base_url,
        polygon_text=settings.application.polygon_output == "string",
    )
    keep = None
    if settings.notification_backend.kind != MemoryBackend.kind:
        jetstream = settings.notification_backend.jetstream
        keep = Keep(
            recent_bytes=jetstream.memory_tail_bytes,
            total_bytes=jetstream.memory_tail_total_bytes,
            always=frozenset(settings.catalogue.schemas),
        )
    hub = Hub(backend, renderer, _recovery(settings), keep=keep)
    # A backend in memory has no tiers to distinguish.
    counted = metrics if keep else SILENT
    history = Tiers(backend, hub.recent, lake=lake, metrics=counted)
    readers = Readers(settings.limits.max_history_reads, metrics)
    rules = _rules(settings)
    return Sources(hub, history, renderer, rules, Stop(), time.time_ns, metrics, readers)


def build_services(
    settings: Settings, backend: Backend, sources: Sources, *, lake: LakeTier | None = None
) -> Services:
    """What the HTTP edge works with."""
    folder = Path(settings.application.static_files_path)
    return Services(
        catalogue=settings.catalogue,
        backend=backend,
        sources=sources,
        administration=Administration(backend, settings.catalogue, sources.metrics, lake),
        overview=Overview(
            backend,
            sources.hub.recent,
            retention=partial(_retention, settings.notification_backend),
            now_ns=sources.now_ns,
            lake=lake,
            others=settings.notification_backend.kind == MemoryBackend.kind,
        ),
        gate=_gate(settings, sources.metrics) if settings.auth.enabled else None,
        now_ns=time.time_ns,
        journal=structlog.get_logger().bind(),
        limits=Limiter(limit_bounds(settings), time.monotonic),
        cors=Cors(frozenset(settings.application.cors_allowed_origins)),
        max_body_bytes=settings.application.max_body_bytes,
        max_batch_bytes=settings.application.max_batch_bytes,
        max_batch_items=settings.application.max_batch_items,
        body_timeout_s=settings.application.body_timeout_seconds,
        compress_streams=settings.watch_endpoint.compression,
        static_dir=folder if folder.is_dir() else PACKAGED_STATIC,
        homepage_links=settings.application.homepage.model_dump(),
        version=__version__,
        metrics_port=settings.metrics.port if settings.metrics.enabled else None,
    )


def _gate(settings: Settings, metrics: Metrics) -> Gate:
    # A server without access control has no use for cryptography.
    from aviso_server.auth.keys import BadKey  # noqa: PLC0415
    from aviso_server.server.gate import build_gate  # noqa: PLC0415

    try:
        return build_gate(settings, metrics)
    except BadKey as error:
        raise StartFailed(str(error)) from error


def limit_bounds(settings: Settings) -> Allowance:
    """What callers may do."""
    chosen = settings.limits
    return Allowance(
        streams=chosen.max_streams,
        streams_per_user=chosen.max_streams_per_user,
        streams_per_address=chosen.max_streams_per_address,
        stream_bytes=chosen.max_stream_bytes,
        notifying=chosen.max_notify_in_progress,
        batch_bytes=chosen.max_batch_bytes_in_progress,
        notify_rate=chosen.notify_rate_per_user,
        notify_burst=chosen.notify_burst_per_user,
    )


def connection_rules(settings: Settings) -> ConnectionRules:
    """What connections may do."""
    chosen = settings.application
    return ConnectionRules(
        max_head_bytes=chosen.max_head_bytes,
        head_s=chosen.head_timeout_seconds,
        idle_s=chosen.idle_timeout_seconds,
    )


def build_tls(settings: Settings) -> ssl.SSLContext | None:
    """The listener's current certificates; None without, BadTls if they are unusable."""
    chosen = settings.application.tls
    if chosen is None:
        return None
    ca = Path(chosen.client_ca) if chosen.client_ca else None
    return tls_context(TlsFiles(Path(chosen.certificate), Path(chosen.key), ca))


def open_otlp(settings: Settings) -> Export | None:
    """The export of logs and traces, if it is on; StartFailed when it cannot be had."""
    chosen = settings.logging.otlp
    if not chosen.enabled or chosen.endpoint is None:
        return None
    options = ExportOptions(chosen.endpoint.strip(), chosen.protocol)
    try:
        return open_export(options, log.resource(os.environ), now_ns=time.time_ns)
    except ExportMissing as error:
        raise StartFailed(str(error)) from error


def describe_store(settings: Settings) -> str:
    """Where history is kept, as text."""
    chosen = settings.notification_backend
    if chosen.kind == MemoryBackend.kind:
        return "in memory, until the server stops"
    if chosen.jetstream.embedded:
        return f"in {chosen.jetstream.store_dir}, across restarts (embedded JetStream)"
    return "in JetStream, across restarts"


def _retention(chosen: NotificationBackend, schema: Schema) -> Retention:
    """How much the log keeps of an event type; its own policy comes before the defaults."""
    if chosen.kind == MemoryBackend.kind:
        memory = chosen.in_memory
        return Retention(
            max_messages=memory.max_messages,
            max_bytes=memory.max_bytes,
            per_topic=memory.max_history_per_topic,
            shared=True,
        )
    own, defaults = schema.storage, chosen.jetstream
    return Retention(
        seconds=own.retention_s if own.retention_s is not None else defaults.retention_s,
        max_messages=own.max_messages if own.max_messages is not None else defaults.max_messages,
        max_bytes=own.max_bytes if own.max_bytes is not None else defaults.max_bytes,
        per_topic=1 if own.allow_duplicates is False else None,
    )


def _recovery(settings: Settings) -> Recovery:
    jetstream = settings.notification_backend.jetstream
    attempts = jetstream.max_reconnect_attempts
    return Recovery(
        attempts=5 if attempts is None else max(1, attempts),
        delay_s=jetstream.reconnect_delay_ms / 1000,
    )


def _rules(settings: Settings) -> StreamRules:
    watch = settings.watch_endpoint
    delay_s = watch.replay_batch_delay_ms / 1000
    remote = settings.notification_backend.kind != MemoryBackend.kind
    return StreamRules(
        heartbeat_s=watch.sse_heartbeat_interval_sec,
        max_duration_s=watch.connection_max_duration_sec,
        batch_size=watch.replay_batch_size,
        # With a pause after each batch, batches are what the operator says they are.
        read_size=STORE_BATCH if remote and not delay_s else None,
        batch_delay_s=delay_s,
        read_attempts=1 + _recovery(settings).attempts if remote else 1,
        read_delay_s=_recovery(settings).delay_s,
        history_cap=watch.max_historical_notifications,
        queue_size=watch.client_queue_size,
    )
