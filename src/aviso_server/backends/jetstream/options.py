"""What the operator chose for JetStream, as plain values."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


class CannotStart(Exception):
    """The backend cannot be used as configured; the message says why."""


@dataclass(frozen=True, slots=True)
class StreamDefaults:
    """How streams are kept where their schema says nothing; None is unlimited."""

    max_messages: int | None = None
    max_bytes: int | None = None
    retention_s: int | None = None
    replicas: int | None = None
    storage_type: Literal["file", "memory"] = "file"
    discard_policy: Literal["old", "new"] = "old"
    allow_removal: frozenset[str] = frozenset()
    """Event types whose new limits may remove more than they keep; ``*`` is all."""


@dataclass(frozen=True, slots=True)
class Tls:
    """Files for an encrypted connection; the system's authorities where no CA is named."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


@dataclass(frozen=True, slots=True)
class Embedded:
    """A NATS server of our own, kept in one folder."""

    store_dir: Path
    sync_always: bool = True
    """Every acknowledged notification survives a power cut. False leaves it to the disk cache."""
    max_bytes: int | None = None
    """How much it may keep in total; None is what the disk allows when it starts."""


@dataclass(frozen=True, slots=True)
class Store:
    """Where a NATS server on this machine keeps everything."""

    folder: Path
    limit_bytes: int
    """Beyond it NATS refuses to store."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Waits and limits that are not in the configuration file; tests make them short."""

    ack_s: float = 5.0
    """Wait for one publish acknowledgement."""
    request_s: float = 5.0
    """Wait for any other answer of the server."""
    outage_s: float = 30.0
    """How long a tail waits for a lost connection before it gives its watchers up."""
    watchdog_s: float = 5.0
    """How often an idle tail compares its position with the stream's."""
    heartbeat_s: float = 2.0
    """How often the server sends a tail a heartbeat."""
    ping_s: int = 5
    """How often the connection is probed; after two silent probes it counts as lost."""
    check_s: float = 5.0
    """How often the streams and the store are checked."""
    first_check_s: float = 15.0
    """How long the first look may keep the server from starting: a lake may not answer."""
    recheck_s: float = 1.0
    """The same while notifications cannot be stored."""


@dataclass(frozen=True, slots=True)
class JetStreamOptions:
    """How to reach NATS and what to do while it is unavailable."""

    servers: tuple[str, ...] = ("nats://localhost:4222",)
    token: str | None = None
    username: str | None = None
    password: str | None = None
    credentials_file: str | None = None
    tls_required: bool = False
    tls: Tls = field(default_factory=Tls)
    timeout_s: float = 30.0
    """Per connect attempt at startup."""
    retry_attempts: int = 3
    """Connect attempts at startup."""
    max_reconnect_attempts: int | None = None
    """None or 0 is for ever."""
    reconnect_delay_s: float = 2.0
    publish_retry_attempts: int = 5
    publish_retry_base_delay_s: float = 0.15
    """Doubles with every attempt."""
    streams: StreamDefaults = field(default_factory=StreamDefaults)
    embedded: Embedded | None = None
    """Start a server of our own; ``servers`` and credentials are then not used."""
    store: Store | None = None
    """Of the embedded server, if another process of ours started it."""
    pace: Pace = field(default_factory=Pace)

    @property
    def url(self) -> str:
        """The addresses for people."""
        if self.embedded is not None:
            return f"embedded, store_dir={self.embedded.store_dir}"
        return ",".join(self.servers)

    @property
    def place(self) -> str:
        """The address of NATS, for an operator who gets no answer; without secrets."""
        if self.embedded is not None:
            return f"embedded NATS server in {self.embedded.store_dir}"
        hosts = ", ".join(url.rpartition("@")[2].rpartition("://")[2] for url in self.servers)
        return f"notification_backend.jetstream.nats_url {hosts}"

    @property
    def wants_tls(self) -> bool:
        """Whether the connection must be encrypted."""
        return self.tls_required or any(url.startswith("tls://") for url in self.servers)
