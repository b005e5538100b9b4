"""From settings to parts: each part gets the values it needs and none knows the settings."""

import time
from dataclasses import replace
from pathlib import Path

import structlog

from aviso_server import __version__
from aviso_server.auth.identity import Anonymous
from aviso_server.backends.backend import Backend
from aviso_server.backends.jetstream.backend import JetStreamBackend
from aviso_server.backends.jetstream.options import (
    CannotStart,
    Embedded,
    JetStreamOptions,
    Pace,
    StreamDefaults,
    Tls,
)
from aviso_server.backends.memory.backend import MemoryBackend, MemoryLimits
from aviso_server.core.cloudevent import Renderer
from aviso_server.http.pages import PACKAGED_STATIC
from aviso_server.http.services import Services
from aviso_server.relay.admin import Administration
from aviso_server.relay.feed import Sources
from aviso_server.relay.history import Tiers
from aviso_server.relay.hub import Hub, Keep, Recovery
from aviso_server.relay.pulse import Stop
from aviso_server.relay.query import StreamRules
from aviso_server.settings import Settings

STORE_BATCH = 250
"""Entries read from JetStream at a time: measured fastest (docs/decisions/0003)."""


class StartFailed(Exception):
    """The server cannot start; the message says why and what to do."""


async def open_backend(settings: Settings, *, pace: Pace | None = None) -> Backend:
    """The configured backend, ready to be used; StartFailed when it cannot be.

    ``pace`` sets the waits that operators have no setting for.
    """
    chosen = settings.notification_backend
    if chosen.kind == JetStreamBackend.kind:
        try:
            options = replace(jetstream_options(settings), pace=pace or Pace())
            return await JetStreamBackend.open(options, settings.catalogue)
        except CannotStart as error:
            raise StartFailed(str(error)) from error
    limits = chosen.in_memory
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
    """What the JetStream backend is told."""
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
        ),
        embedded=(
            Embedded(Path(chosen.store_dir), sync_always=chosen.sync_always)
            if chosen.embedded
            else None
        ),
    )


def build_sources(settings: Settings, backend: Backend) -> Sources:
    """What feeds read from: the hub, and history with the newest part in memory."""
    renderer = Renderer(
        settings.application.base_url,
        polygon_text=settings.application.polygon_output == "string",
    )
    keep = None
    if settings.notification_backend.kind == JetStreamBackend.kind:
        keep = Keep(
            recent_bytes=settings.notification_backend.jetstream.memory_tail_bytes,
            always=frozenset(settings.catalogue.schemas),
        )
    hub = Hub(backend, renderer, _recovery(settings), keep=keep)
    history = Tiers(backend, hub.recent) if keep else backend
    return Sources(hub, history, renderer, _rules(settings), Stop(), time.time_ns)


def build_services(settings: Settings, backend: Backend, sources: Sources) -> Services:
    """What the HTTP edge works with."""
    if settings.auth.enabled:
        # Serving with the rules ignored would let everybody in.
        raise StartFailed("auth.enabled=true is not available in this release")
    folder = Path(settings.application.static_files_path)
    return Services(
        catalogue=settings.catalogue,
        backend=backend,
        sources=sources,
        administration=Administration(backend, settings.catalogue),
        authenticator=Anonymous(),
        now_ns=time.time_ns,
        journal=structlog.get_logger().bind(),
        max_body_bytes=settings.application.max_body_bytes,
        max_batch_bytes=settings.application.max_batch_bytes,
        max_batch_items=settings.application.max_batch_items,
        static_dir=folder if folder.is_dir() else PACKAGED_STATIC,
        homepage_links=settings.application.homepage.model_dump(),
        version=__version__,
    )


def kept(settings: Settings) -> str:
    """Where history is kept, in words."""
    chosen = settings.notification_backend
    if chosen.kind == MemoryBackend.kind:
        return "in memory, until the server stops"
    if chosen.jetstream.embedded:
        return f"in {chosen.jetstream.store_dir}, across restarts (embedded JetStream)"
    return "in JetStream, across restarts"


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
    remote = settings.notification_backend.kind == JetStreamBackend.kind
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
