"""An overview of everything the server holds, per event type, for its operators.

Rules
- One survey serves all who ask during it and for a second after it: any number of open pages costs
  one survey per second and process.
- A survey ends in time, whatever hangs: what did not answer in time is reported as failed. The lake
  comes after the log and has its own time, so that it cannot take any from the log.
- An event type whose stream does not exist is not queried: that would create the stream.
- Querying a stream of a durable store brings it in line with the configuration. For an event type
  without a schema these are the defaults, perhaps because its schema was removed: such event types
  are reported by name only. An overview must not shorten what others keep.
- Who may see what is not decided here.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import structlog

from aviso_server.backends.backend import Backend, Bounds
from aviso_server.backends.metered import unwrap
from aviso_server.core.errors import AvisoError
from aviso_server.core.moment import NS_PER_SECOND
from aviso_server.core.schema import Catalogue, Schema
from aviso_server.relay.lake import LakeTier
from aviso_server.relay.recent import Recent
from aviso_server.relay.totals import (
    NOTHING,
    WINDOWS_S,
    Archived,
    Logged,
    Retention,
    Totals,
    known,
    totals,
)
from aviso_server.singleflight import SingleFlight

MAX_OTHERS = 200
"""Event types without a schema that are reported: clients invent names, so there is a bound."""

TOGETHER = 8
"""Event types queried at the same time: fast, and no burst for the store."""

DISCONNECTED = "The backend is not connected"
LATE = "No answer in time"
FAILED = "The log cannot be read"
NO_LAKE = "The lake cannot be read"

_EVER_NS = 2**63 - 1
"""Later than everything stored."""

_Told = TypeVar("_Told")


@dataclass(frozen=True, slots=True)
class LookPace:
    """How often a survey is made and how long it may last."""

    kept_s: float = 1.0
    within_s: float = 2.0
    """For the log, and again for the lake."""
    clock: Callable[[], float] = time.monotonic


@dataclass(frozen=True, slots=True)
class Seen:
    """One event type in a survey."""

    schema: Schema
    retention: Retention
    totals: Totals | None
    error: str | None = None
    """Why numbers are missing, or cover the log alone; None if not queried."""


@dataclass(frozen=True, slots=True)
class Look:
    """Everything, at about one instant."""

    at_ns: int
    event_types: tuple[Seen, ...]
    """Those configured by name, then those without schema, unless they have nothing stored."""
    omitted: int = 0
    """Event types without schema beyond ``MAX_OTHERS``."""


@dataclass(frozen=True, slots=True)
class _Failed:
    """What gave no answer, and why: for callers, and for the log."""

    text: str
    details: str


class Overview:
    """Surveys all event types, for any number of callers."""

    def __init__(
        self,
        backend: Backend,
        recent: Callable[[str], Recent | None],
        *,
        retention: Callable[[Schema], Retention],
        now_ns: Callable[[], int],
        lake: LakeTier | None = None,
        others: bool = True,
        pace: LookPace | None = None,
    ) -> None:
        # Metrics count readers and producers, not overviews.
        self._store = unwrap(backend)
        self._recent = recent
        self._retention = retention
        self._now_ns = now_ns
        self._lake = lake
        self._ask_others = others
        self._pace = pace or LookPace()
        self._flights: SingleFlight[Catalogue, Look] = SingleFlight(
            max_entries=1, ttl_s=lambda _: self._pace.kept_s, clock=self._pace.clock
        )
        self._known: Mapping[str, Logged] = {}
        """The log's last answer."""
        self._reported: Mapping[str, str] = {}
        """What failed last time."""

    @property
    def lake(self) -> bool:
        """Whether there is a lake below the log."""
        return self._lake is not None

    async def look(self, catalogue: Catalogue) -> Look:
        """The newest look, not older than a second; another catalogue needs another look."""
        look, _ = await self._flights.get(catalogue, lambda: self._look(catalogue))
        return look

    async def close(self) -> None:
        """End a survey in progress."""
        await self._flights.close()

    async def _look(self, catalogue: Catalogue) -> Look:
        now_ns = self._now_ns()
        schemas = [catalogue.schemas[name] for name in catalogue.names]
        listed = await self._guard(self._store.event_types(), self._deadline())
        if isinstance(listed, _Failed):
            self._report({schema.event_type: listed for schema in schemas})
            return Look(now_ns, tuple(self._seen(schema, listed, None) for schema in schemas))
        others = _others(catalogue, listed)
        schemas += others[:MAX_OTHERS]
        there = frozenset(listed)
        asked = {
            item.event_type: item
            for item in schemas
            if item.event_type in there and (self._ask_others or not item.generic)
        }
        logs = await self._each(asked, lambda item: self._ask_log(item.event_type, now_ns))
        self._known = {name: log for name, log in logs.items() if isinstance(log, Logged)}
        lakes = await self._ask_lakes(asked, self._known, now_ns)
        self._report({name: lakes.get(name, log) for name, log in logs.items()})
        seen = [
            self._seen(schema, logs.get(schema.event_type), lakes.get(schema.event_type))
            for schema in schemas
        ]
        return Look(now_ns, tuple(filter(_worth, seen)), max(0, len(others) - MAX_OTHERS))

    # Asking

    async def _ask_log(self, name: str, now_ns: int) -> Logged:
        bounds = await self._store.bounds(name)
        since: list[int] = []
        for window_s in reversed(WINDOWS_S):
            # Nothing in the longer window, so nothing in the shorter ones.
            if not since or since[-1] <= bounds.last:
                begin_ns = now_ns - window_s * NS_PER_SECOND
                since.append(await self._store.first_since(name, begin_ns))
            else:
                since.append(since[-1])
        before = self._known.get(name)
        if before is not None and before.bounds == bounds:
            newest_ns = before.newest_ns
        else:
            newest_ns = await self._newest(name, bounds)
        return Logged(bounds, tuple(reversed(since)), newest_ns)

    async def _newest(self, name: str, bounds: Bounds) -> int | None:
        if bounds.first > bounds.last:
            return None
        last = await self._store.last_until(name, _EVER_NS)
        batch = await self._store.read(name, last, last, limit=1)
        return batch.entries[0].stored_at_ns if batch.entries else None

    async def _ask_lakes(
        self, schemas: Mapping[str, Schema], logs: Mapping[str, Logged], now_ns: int
    ) -> Mapping[str, Archived | _Failed]:
        lake = self._lake
        if lake is None:
            return {}
        return await self._each(
            {name: schemas[name] for name in logs},
            lambda item: self._ask_lake(lake, item, logs[item.event_type], now_ns),
        )

    async def _ask_lake(self, lake: LakeTier, schema: Schema, log: Logged, now_ns: int) -> Archived:
        # As last seen, which is not older than a second (lake/lake.py).
        name, bounds = schema.event_type, await lake.bounds(schema.event_type)
        since = list(known(log, self._retention(schema)))
        if bounds.through >= log.bounds.first - 1:  # else what is gone is gone
            for place, begin in enumerate(since):
                if begin is None:
                    begin_ns = now_ns - WINDOWS_S[place] * NS_PER_SECOND
                    archived = await lake.first_since(name, begin_ns)
                    logged = log.since[place]
                    since[place] = logged if archived is None else min(archived, logged)
        newest_ns = await _archived_ns(lake, name) if log.empty else log.newest_ns
        return Archived(bounds, tuple(since), newest_ns)

    async def _each(
        self, items: Mapping[str, Schema], ask: Callable[[Schema], Awaitable[_Told]]
    ) -> dict[str, _Told | _Failed]:
        """The answer of each, some at a time, all of them in time."""
        deadline, turns = self._deadline(), asyncio.Semaphore(TOGETHER)

        async def in_turn(schema: Schema) -> _Told:
            async with turns:
                return await ask(schema)

        async with asyncio.TaskGroup() as group:
            tasks = {
                name: group.create_task(self._guard(in_turn(item), deadline))
                for name, item in items.items()
            }
        return {name: task.result() for name, task in tasks.items()}

    async def _guard(self, told: Awaitable[_Told], deadline: float) -> _Told | _Failed:
        try:
            async with asyncio.timeout_at(deadline):
                return await told
        except Exception as error:  # noqa: BLE001 - whatever broke is shown, next to what did not
            details = error.details if isinstance(error, AvisoError) else repr(error)
            if not self._store.connected:
                return _Failed(DISCONNECTED, details)
            if isinstance(error, TimeoutError):
                return _Failed(LATE, details)
            return _Failed(error.message if isinstance(error, AvisoError) else FAILED, details)

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._pace.within_s

    # Reporting

    def _seen(
        self, schema: Schema, log: Logged | _Failed | None, lake: Archived | _Failed | None
    ) -> Seen:
        retention = self._retention(schema)
        if log is None:
            return Seen(schema, retention, None if schema.generic else NOTHING)
        if isinstance(log, _Failed):
            return Seen(schema, retention, None, log.text)
        recent = self._recent(schema.event_type)
        if isinstance(lake, _Failed):
            return Seen(schema, retention, totals(log, None, recent, retention), NO_LAKE)
        return Seen(schema, retention, totals(log, lake, recent, retention))

    def _report(self, told: Mapping[str, object]) -> None:
        """Log what failed, unless the same failed a second ago."""
        failed = {name: item for name, item in told.items() if isinstance(item, _Failed)}
        reasons = {name: item.text for name, item in failed.items()}
        if reasons and reasons != self._reported:
            name, first = next(iter(failed.items()))
            structlog.get_logger().warning(
                "The overview is not complete",
                event_name="overview.look.failed",
                event_types=sorted(failed),
                event_type=name,
                error=first.details,
            )
        self._reported = reasons


def _others(catalogue: Catalogue, listed: Iterable[str]) -> list[Schema]:
    """The event types without schema that a request can name, sorted; none in strict mode."""
    found: list[Schema] = []
    for name in sorted(set(listed) - set(catalogue.schemas)):
        with suppress(AvisoError):
            found.append(catalogue.find(name))
    return found


def _worth(seen: Seen) -> bool:
    """False for an event type that is not configured and has nothing: it is only a name."""
    return not seen.schema.generic or seen.totals is None or seen.totals.stored > 0


async def _archived_ns(lake: LakeTier, name: str) -> int | None:
    last = await lake.last_until(name, _EVER_NS)
    if last is None:
        return None
    piece = await lake.read(name, last, last, limit=1)
    return piece.entries[0].stored_at_ns if piece.entries else None
