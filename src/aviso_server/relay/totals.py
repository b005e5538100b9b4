"""How much there is of an event type and at what rate, from the bounds of its tiers. Pure.

Sequences are contiguous, so nothing needs to be counted: bounds say how much there is, and the
first sequence since an instant says how much came after it. That holds in every process, after
every restart, and whichever process stored it.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from aviso_server.backends.backend import Bounds
from aviso_server.lake.bounds import LakeBounds
from aviso_server.relay.lake import Joined
from aviso_server.relay.recent import Recent

WINDOWS_S = (60, 300, 3600)
"""Over which rates are reported, in seconds."""

Tier: TypeAlias = Literal["memory", "log", "lake"]


@dataclass(frozen=True, slots=True)
class Retention:
    """How much the log keeps of an event type, as configured; None is no limit."""

    seconds: int | None = None
    max_messages: int | None = None
    max_bytes: int | None = None
    per_topic: int | None = None
    """Newest notifications kept of each topic."""
    shared: bool = False
    """Whether number and bytes are those of all event types together."""


@dataclass(frozen=True, slots=True)
class Logged:
    """What the log reports."""

    bounds: Bounds
    since: tuple[int, ...]
    """The first sequence it has of each window."""
    newest_ns: int | None
    """Storage time of its last notification."""

    @property
    def empty(self) -> bool:
        """Whether it has nothing now."""
        return self.bounds.first > self.bounds.last


@dataclass(frozen=True, slots=True)
class Archived:
    """What the lake reports."""

    bounds: LakeBounds
    since: tuple[int | None, ...]
    """The first sequence of each window, with the lake; None if too much is gone to know."""
    newest_ns: int | None
    """Storage time of the last notification, in the log or the lake."""


@dataclass(frozen=True, slots=True)
class TierBounds:
    """What one tier has; None where it has nothing."""

    tier: Tier
    first: int | None
    last: int | None
    lag: int | None = None
    """Of the lake: how many sequences of the log it does not have yet."""


@dataclass(frozen=True, slots=True)
class Totals:
    """What is held of one event type."""

    stored: int
    """At most what a replay from the beginning delivers: holes in the lake are not known."""
    first: int | None
    """Lowest sequence in any tier; None when nothing is stored."""
    last: int
    """Last sequence ever allocated."""
    newest_ns: int | None
    """Storage time of the newest notification that is still there."""
    rates: tuple[float | None, ...]
    """Notifications per second over each window; None if too much is gone to know."""
    tiers: tuple[TierBounds, ...]


NOTHING = Totals(0, None, 0, None, (0.0,) * len(WINDOWS_S), (TierBounds("log", None, None),))
"""Of an event type that never had a notification."""


def totals(
    log: Logged, lake: Archived | None, recent: Recent | None, retention: Retention
) -> Totals:
    """What the tiers have together."""
    bounds = log.bounds
    since = known(log, retention) if lake is None else lake.since
    archived = None if lake is None else lake.bounds
    stored = _stored(bounds, archived)
    first = bounds.first if archived is None else Joined(bounds, archived).first
    return Totals(
        stored=stored,
        first=first if stored else None,
        last=bounds.last,
        newest_ns=log.newest_ns if lake is None else lake.newest_ns,
        rates=tuple(
            # The bounds were read before the window: it may begin above them.
            None if begin is None else round(max(0, bounds.last + 1 - begin) / window_s, 6)
            for begin, window_s in zip(since, WINDOWS_S, strict=True)
        ),
        tiers=_tiers(bounds, archived, recent),
    )


def known(log: Logged, retention: Retention) -> tuple[int | None, ...]:
    """The first sequence of each window, None where retention may have removed some of it."""
    return tuple(
        None if _cut(log.bounds, begin, retention, window_s) else begin
        for begin, window_s in zip(log.since, WINDOWS_S, strict=True)
    )


def _cut(bounds: Bounds, begin: int, retention: Retention, window_s: int) -> bool:
    if begin > bounds.first or not bounds.lost:
        return False
    if retention.seconds is not None and retention.seconds < window_s:
        return True
    # Its own limits leave the newest: an empty log became so by age, or on purpose.
    limited = retention.max_messages is not None or retention.max_bytes is not None
    return limited and (retention.shared or bounds.first <= bounds.last)


def _stored(bounds: Bounds, archived: LakeBounds | None) -> int:
    logged = bounds.last - bounds.first + 1 - bounds.deleted
    if archived is None:
        return logged
    top = min(archived.through, bounds.first - 1)
    lost = sum(
        max(0, min(last, top) - max(first, archived.first) + 1) for first, last in archived.lost
    )
    return logged + max(0, top - archived.first + 1) - lost


def _tiers(
    bounds: Bounds, archived: LakeBounds | None, recent: Recent | None
) -> tuple[TierBounds, ...]:
    tiers = [_tier("log", bounds.first, bounds.last)]
    if recent is not None:
        first, last = max(recent.first, bounds.first), min(recent.last, bounds.last)
        tiers.insert(0, _tier("memory", first, last))
    if archived is not None:
        lag = max(0, bounds.last - max(archived.through, bounds.first - 1))
        tiers.append(_tier("lake", archived.first, archived.through, lag))
    return tuple(tiers)


def _tier(tier: Tier, first: int, last: int, lag: int | None = None) -> TierBounds:
    return (
        TierBounds(tier, first, last, lag) if first <= last else TierBounds(tier, None, None, lag)
    )
