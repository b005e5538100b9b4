"""Settings that change while the server runs: SIGHUP reads the configuration again.

Taken over at once: certificates, the log level, limits, allowed origins, new event types, and of
the others what neither moves a topic nor a stored notification (``_LIVE``). One change that needs
a restart refuses the whole: a server runs with one configuration, not with halves of two.
"""

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from signal import SIGHUP
from typing import Protocol, runtime_checkable

import structlog
from pydantic import BaseModel

from aviso_server.backends.metered import unwrap
from aviso_server.core.schema import Catalogue
from aviso_server.http.services import Services
from aviso_server.http.site import Site
from aviso_server.http.tls import BadTls
from aviso_server.server.build import build_tls, limit_bounds
from aviso_server.settings import Settings, SettingsError

LOG_LEVEL = "logging.level"

_LIVE = tuple(
    re.compile(pattern)
    for pattern in (
        r"logging\.level",
        r"limits\..*",
        r"application\.cors_allowed_origins",
        r"application\.tls\..*",
        r"notification_schema\.[^.]+\.max_historical_notifications",
        r"notification_schema\.[^.]+\.payload(\.required)?",
        r"notification_schema\.[^.]+\.expectations.*",
        r"notification_schema\.[^.]+\.auth\.(required|read_roles|write_roles).*",
        r"notification_schema\.[^.]+\.identifier\.[^.]+\.description",
    )
)
_VALUES = re.compile(r"notification_schema\.[^.]+\.identifier\.[^.]+\.values")
_EVENT_TYPE = re.compile(r"notification_schema\.[^.]+")
_DERIVED = frozenset({"catalogue", "warnings"})
"""Parts of the settings that follow from the others."""
_MISSING = object()


class ReloadRefused(Exception):
    """The new configuration is refused; everything stays unchanged."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


@runtime_checkable
class _Configured(Protocol):
    """A backend that keeps a stream for every event type."""

    def adopt(self, catalogue: Catalogue) -> None: ...


@dataclass(frozen=True, slots=True)
class Change:
    """One setting that is not what it was."""

    path: str
    before: object
    after: object

    @property
    def live(self) -> bool:
        """True if a running server can take it over."""
        if _EVENT_TYPE.fullmatch(self.path):
            # The access plugins of an event type are set up at the start only.
            return self.before is _MISSING and not getattr(self.after, "plugins", ())
        if _VALUES.fullmatch(self.path):
            # What was allowed stays allowed; a value that goes would hide stored notifications.
            before, after = self.before, self.after
            return (
                isinstance(before, list | tuple)
                and isinstance(after, list | tuple)
                and set(before) <= set(after)
            )
        return any(pattern.fullmatch(self.path) for pattern in _LIVE)


def changes(before: Settings, after: Settings) -> list[Change]:
    """Every setting that differs, in the order of the sections."""
    found: list[Change] = []
    for item in fields(before):
        if item.name not in _DERIVED:
            old, new = getattr(before, item.name), getattr(after, item.name)
            if item.name == "notification_schema":
                old, new = old or {}, new or {}
            found += _changes(item.name, old, new)
    return found


def _changes(path: str, before: object, after: object) -> Iterator[Change]:
    if before == after and type(before) is type(after):
        return
    old, new = _members(before), _members(after)
    if old is None or new is None:
        yield Change(path, before, after)
        return
    for name in {**old, **new}:
        yield from _changes(f"{path}.{name}", old.get(name, _MISSING), new.get(name, _MISSING))


def _members(value: object) -> dict[str, object] | None:
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {str(name): item for name, item in value.items()}
    return None


def admit(before: Settings, after: Settings) -> list[Change]:
    """The changes, if all of them can be taken over; ReloadRefused names those that cannot."""
    found = changes(before, after)
    refused = [f"{item.path} needs a restart" for item in found if not item.live]
    if refused:
        raise ReloadRefused(refused)
    return found


@dataclass(slots=True)
class Live:
    """The parts of a running server that a reload reaches."""

    settings: Settings
    services: Services
    site: Site
    start_log: Callable[[Settings], None]
    """Sets logging up again."""

    async def adopt(self, fresh: Settings) -> list[str]:
        """Take new settings over, all or none; what changed, or ReloadRefused.

        Certificates are read again even if no setting changed: their files have.
        """
        found = admit(self.settings, fresh)
        tls = certificates(fresh)
        if tls is not None:
            self.site.renew(tls)
        services = self.services
        services.catalogue = fresh.catalogue
        services.administration = replace(services.administration, catalogue=fresh.catalogue)
        backend = unwrap(services.backend)
        if isinstance(backend, _Configured):
            backend.adopt(fresh.catalogue)
        services.limits.bounds = limit_bounds(fresh)
        services.sources.readers.limit = fresh.limits.max_history_reads
        services.cors.allow(fresh.application.cors_allowed_origins)
        if any(item.path == LOG_LEVEL for item in found):
            self.start_log(fresh)
            services.journal = structlog.get_logger().bind()  # it was bound to the old level
        self.settings = fresh
        return [item.path for item in found]


def certificates(fresh: Settings) -> ssl.SSLContext | None:
    """What the configured files hold now; ReloadRefused when they are no use."""
    try:
        return build_tls(fresh)
    except BadTls as error:
        raise ReloadRefused([str(error)]) from error


def align(fresh: Settings, running: Settings) -> Settings:
    """Settings as read, with the port and the store that a supervisor gave its workers.

    The supervisor has compared what was configured before it passed the signal on.
    """
    application = fresh.application.model_copy(update={"port": running.application.port})
    return replace(
        fresh, application=application, notification_backend=running.notification_backend
    )


async def reload(
    read: Callable[[], Settings], adopt: Callable[[Settings], Awaitable[list[str]]]
) -> None:
    """Read and take over once; the outcome is logged, and nothing is raised for a bad file."""
    journal = structlog.get_logger()
    try:
        changed = await adopt(read())
    except (SettingsError, ReloadRefused) as error:
        reasons = (
            error.reasons
            if isinstance(error, ReloadRefused)
            else [str(fault) for fault in error.faults]
        )
        journal.error(
            "Configuration not reloaded; the old one stays",
            event_name="configuration.reload.refused",
            error=str(error),
            reasons=reasons,
        )
        return
    journal.info(
        "Configuration reloaded", event_name="configuration.reload.succeeded", changed=changed
    )


@contextmanager
def reloading(once: Callable[[], Awaitable[None]]) -> Iterator[None]:
    """Do that on every SIGHUP while the block runs, never twice at a time."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    async def serve() -> None:
        while True:
            await asked.wait()
            asked.clear()
            await once()

    loop.add_signal_handler(SIGHUP, asked.set)
    serving = loop.create_task(serve())
    try:
        yield
    finally:
        serving.cancel()
        loop.remove_signal_handler(SIGHUP)
