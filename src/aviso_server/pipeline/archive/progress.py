"""How far the archive job is: what Spark reports of its micro-batches, in terms of the log.

Rules
- Counts are exact: notifications and dead letters are counted by Spark as they pass. Lag is what
  log and lake had when they were last checked: with every micro-batch, and every few seconds while
  one takes longer.
- ``lag_seconds`` is the age of the oldest notification not yet archived. Right after a micro-batch
  it is an upper bound for it: that one was stored after the newest archived one, and after the
  last time there was no lag.
"""

import json
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from aviso_server.core.json import Json
from aviso_server.pipeline.archive.report import LETTERS, NEWEST, ROWS, UNEXPECTED
from aviso_server.pipeline.spark.query import Progress, observed

OBSERVED = "archive"
"""Name under which Spark observes the counts of the job."""

WINDOW_S = 30.0
"""Time over which the rate is taken."""

Stage: TypeAlias = Literal["starting", "running", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class Reach:
    """Where an event type is."""

    through: int
    """Last sequence that is archived."""
    last: int
    """Last sequence of the log."""


@dataclass(frozen=True, slots=True)
class Known:
    """The result of checking log and lake."""

    reached: Mapping[str, Reach] = field(default_factory=dict)
    oldest: float | None = None
    """Storage time of the oldest notification not archived, seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class ArchiveSnapshot:
    """The job at one instant."""

    stage: Stage
    archived: int = 0
    """Notifications since the job was started."""
    letters: int = 0
    """Dead letters since the job was started."""
    batches: int = 0
    rate: float = 0.0
    """Notifications per second, over the last half minute."""
    lag_s: float = 0.0
    event_types: Mapping[str, Reach] = field(default_factory=dict)
    committed_at: float | None = None
    """When the last micro-batch ended, seconds since the epoch."""
    unexpected: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Notifications that are not as expected, by event type and expectation."""
    error: str | None = None

    @property
    def lag(self) -> int:
        """Sequences of the log that are not archived yet."""
        return sum(max(0, reach.last - reach.through) for reach in self.event_types.values())


def as_json(snapshot: ArchiveSnapshot) -> dict[str, Json]:
    """One line of ``--progress json``."""
    told: dict[str, Json] = {
        "state": snapshot.stage,
        "archived": snapshot.archived,
        "rate": round(snapshot.rate, 1),
        "lag": snapshot.lag,
        "lag_seconds": round(snapshot.lag_s, 1),
        "dead_letters": snapshot.letters,
        "event_types": {
            name: {"through": reach.through, "last": reach.last}
            for name, reach in sorted(snapshot.event_types.items())
        },
    }
    if snapshot.unexpected:
        told["unexpected"] = sum(snapshot.unexpected.values())
    if snapshot.error is not None:
        told["error"] = snapshot.error
    return told


class ArchiveTally:
    """Adds up what Spark reports; times are seconds since the epoch, given by the caller."""

    def __init__(
        self, known: Known | None = None, expected: Sequence[tuple[str, str]] = ()
    ) -> None:
        known = known or Known()
        self._expected = expected
        """Event type and expectation of every further count."""
        self._reached = dict(known.reached)
        self._archived = self._letters = self._batches = 0
        self._unexpected: Counter[tuple[str, str]] = Counter()
        self._recent: deque[tuple[float, int]] = deque()
        self._began: float | None = None
        self._newest = known.oldest or 0.0
        """Storage time of the newest archived notification, or of the oldest that is not."""
        self._caught_up = 0.0
        """The last time there was no lag."""
        self._committed_at: float | None = None

    def add(self, progress: Progress, now: float) -> None:
        """Take the progress of one micro-batch."""
        counts = observed(progress, OBSERVED)
        rows = counts.get(ROWS, 0)
        self._archived += rows
        self._letters += counts.get(LETTERS, 0)
        for number, names in enumerate(self._expected):
            self._unexpected[names] += counts.get(f"{UNEXPECTED}{number}", 0)
        self._newest = max(self._newest, counts.get(NEWEST, 0) / 1_000_000)
        self._recent.append((now, rows))
        sources = progress.get("sources")
        for source in sources if isinstance(sources, list) else ():
            if not isinstance(source, dict):
                continue
            start, end = _offset(source.get("startOffset")), _offset(source.get("endOffset"))
            # Spark also reports reads of the log that found nothing.
            if start != end:
                self._batches += 1
                self._committed_at = now
            self._reach(end, _offset(source.get("latestOffset")))
        if not self._behind():
            self._caught_up = now

    def look(self, known: Known, now: float) -> None:
        """Take the result of checking log and lake."""
        self._reached.update(known.reached)
        self._newest = max(self._newest, known.oldest or 0.0)
        if not self._behind():
            self._caught_up = now

    def started(self, now: float) -> None:
        """Take note that the query runs."""
        self._began = now

    def snapshot(self, stage: Stage, now: float, error: str | None = None) -> ArchiveSnapshot:
        """Everything known."""
        known = max(self._newest, self._caught_up)
        return ArchiveSnapshot(
            stage,
            archived=self._archived,
            letters=self._letters,
            batches=self._batches,
            rate=self._rate(now),
            lag_s=max(0.0, now - known) if self._behind() and known else 0.0,
            event_types=dict(self._reached),
            committed_at=self._committed_at,
            unexpected=dict(self._unexpected),
            error=error,
        )

    def _behind(self) -> bool:
        return any(reach.last > reach.through for reach in self._reached.values())

    def _rate(self, now: float) -> float:
        while self._recent and self._recent[0][0] < now - WINDOW_S:
            self._recent.popleft()
        if not self._recent or self._began is None:
            return 0.0
        return sum(rows for _, rows in self._recent) / max(1.0, min(WINDOW_S, now - self._began))

    def _reach(self, end: Mapping[str, int], latest: Mapping[str, int]) -> None:
        for name in end.keys() | latest.keys():
            through = end.get(name, 1) - 1
            self._reached[name] = Reach(through, max(through, latest.get(name, 1) - 1))


def _offset(value: Json) -> dict[str, int]:
    """An offset; Spark writes it as JSON or as the text of it."""
    if isinstance(value, str):
        value = json.loads(value)
    return {name: int(str(n)) for name, n in value.items()} if isinstance(value, dict) else {}
