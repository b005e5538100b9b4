"""The ECPDS plugin (docs/authentication.md#ecpds): may this user read what goes to a destination?

It runs when a watch or replay is opened. What it allows is one destination, and the filter on
that field is exact, so nothing of another destination is ever delivered on the stream.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

import structlog

from aviso_server.auth.destinations import FetchFailed, Outcome
from aviso_server.auth.identity import Identity
from aviso_server.auth.refusal import Forbidden, Refusal, Unavailable, Undecided
from aviso_server.core.constraint import Choice
from aviso_server.core.filter import Filter
from aviso_server.core.numeral import number_text
from aviso_server.singleflight import Answered, SingleFlight
from aviso_server.telemetry.metrics import SILENT, Metrics

ANY = "*"
"""Stands for a filter that does not name one destination; no user has it."""


class Lookup(Protocol):
    """Knows the destinations of users."""

    async def of(self, username: str) -> frozenset[str]:
        """A user's destinations; FetchFailed if they are unknown."""
        ...

    async def close(self) -> None:
        """Free connections."""
        ...


@dataclass(frozen=True, slots=True)
class Memory:
    """How long and how many users' destinations are remembered."""

    ttl_s: float = 300.0
    max_entries: int = 10_000


class EcpdsPlugin:
    """Decides, remembers and reports."""

    def __init__(
        self,
        lookup: Lookup,
        match_key: str,
        memory: Memory,
        *,
        metrics: Metrics = SILENT,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._lookup = lookup
        self._match_key = match_key
        self._metrics = metrics
        self._flights: SingleFlight[str, frozenset[str]] = SingleFlight(
            max_entries=memory.max_entries, ttl_s=lambda _: memory.ttl_s, clock=clock
        )

    async def check(self, identity: Identity, wanted: Filter) -> None:
        """Raise Forbidden, Unavailable or Undecided unless the user has the destination."""
        journal = structlog.get_logger().bind(username=identity.username)
        journal.debug("ECPDS check", event_name="auth.ecpds.check.started")
        try:
            source = await self._decide(identity.username, wanted)
        except Refusal:
            raise
        except Exception as error:
            journal.error(
                "ECPDS check failed",
                event_name="auth.ecpds.check.error",
                error_kind=type(error).__name__,
                error=str(error),
            )
            self._metrics.ecpds_decided("error")
            raise Undecided("ECPDS check failed unexpectedly") from error
        journal.info(
            "ECPDS access allowed",
            event_name="auth.ecpds.check.allowed",
            cache_outcome=source.value,
        )
        self._metrics.ecpds_decided("allow")

    def bypassed(self, identity: Identity) -> None:
        """An administrator is not asked about destinations."""
        structlog.get_logger().debug(
            "Administrators bypass ECPDS",
            event_name="auth.ecpds.admin.bypass",
            username=identity.username,
        )
        self._metrics.ecpds_decided("admin_bypass")

    async def close(self) -> None:
        """End what is on its way."""
        await self._flights.close()
        await self._lookup.close()

    async def _decide(self, username: str, wanted: Filter) -> Answered:
        destination = destination_of(wanted, self._match_key)
        if destination is None:
            message = f"Required field '{self._match_key}' not found in request identifiers"
            self._denied(username, "match_key_missing", "none")
            raise Forbidden(message, field=self._match_key, username=username)
        known, source = await self._look_up(username)
        if destination == ANY or destination not in known:
            self._denied(username, "destination", source.value)
            raise Forbidden(
                f"User '{username}' does not have access to destination '{destination}'"
            )
        return source

    async def _look_up(self, username: str) -> tuple[frozenset[str], Answered]:
        try:
            known, source = await self._flights.get(username, lambda: self._fetch(username))
        except FetchFailed as error:
            structlog.get_logger().warning(
                "ECPDS cannot be asked",
                event_name="auth.ecpds.check.unavailable",
                username=username,
                fetch_outcome=error.outcome.word,
            )
            self._metrics.ecpds_looked(hit=False, size=len(self._flights))
            self._metrics.ecpds_decided("unavailable")
            raise Unavailable("ECPDS service is inaccessible", details=error.outcome.word) from None
        hit = source is Answered.HIT
        structlog.get_logger().debug(
            "ECPDS memory",
            event_name="auth.ecpds.cache.hit" if hit else "auth.ecpds.cache.miss",
            username=username,
        )
        self._metrics.ecpds_looked(hit=hit, size=len(self._flights))
        return known, source

    async def _fetch(self, username: str) -> frozenset[str]:
        outcome = Outcome.SUCCESS
        try:
            return await self._lookup.of(username)
        except FetchFailed as error:
            outcome = error.outcome
            raise
        finally:
            self._metrics.ecpds_fetched(outcome.word)

    def _denied(self, username: str, reason: str, cache_outcome: str) -> None:
        structlog.get_logger().warning(
            "ECPDS access denied",
            event_name="auth.ecpds.check.denied",
            username=username,
            reason=reason,
            cache_outcome=cache_outcome,
        )
        self._metrics.ecpds_decided(f"deny_{reason}")


def destination_of(wanted: Filter, match_key: str) -> str | None:
    """The one destination a filter asks for; ``*`` when it asks for several, None for none."""
    for name, text in wanted.exact:
        if name == match_key:
            return text
    for constraint in wanted.constraints:
        if constraint.field != match_key:
            continue
        if isinstance(constraint, Choice) and len(constraint.choices) == 1:
            (only,) = constraint.choices
            return only if isinstance(only, str) else number_text(only)
        return ANY
    return None
