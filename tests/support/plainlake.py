# ruff: noqa: ARG002 - it is about one event type, whichever is named
"""An archive in plain lists, with views of it that are as old as their last look.

It stands in for the lake where a property test needs thousands of archives. The same tests run over
the real lake with fewer draws (tests/relay/test_tiers.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from aviso_server.core.filter import Filter
from aviso_server.core.notification import Record
from aviso_server.lake.bounds import LakeBatch, LakeBounds
from aviso_server.relay.lake import LakeTier

LOST = "lost"


@dataclass(frozen=True)
class Contents:
    """What is archived of the one event type."""

    rows: tuple[Record, ...] = ()
    through: int = 0
    hidden: tuple[tuple[int, int, str], ...] = ()

    def visible(self, sequence: int) -> bool:
        """Whether nobody removed it."""
        return not any(
            first <= sequence <= last for first, last, kind in self.hidden if kind != LOST
        )

    @property
    def shown(self) -> list[Record]:
        """The rows to be seen."""
        return [row for row in self.rows if self.visible(row.sequence)]


@dataclass
class PlainTable:
    """The archive itself; ``commit`` is what the archive job does."""

    contents: Contents = field(default_factory=Contents)

    async def commit(
        self, rows: Sequence[Record], through: int, lost: Sequence[tuple[int, int]] = ()
    ) -> None:
        """Add what lies above the mark."""
        now = self.contents
        fresh = tuple(row for row in rows if row.sequence > now.through)
        gone = tuple((*item, LOST) for item in lost)
        self.contents = Contents(now.rows + fresh, max(through, now.through), now.hidden + gone)


@dataclass
class PlainLake:
    """The archive as one process sees it."""

    table: PlainTable
    seen: Contents = field(default_factory=Contents)
    looks: int = 0
    """How often it was read afresh."""

    async def bounds(self, event_type: str, *, fresh: bool = False) -> LakeBounds:
        """What was archived at the last look."""
        if fresh:
            self.looks += 1
            self.seen = self.table.contents
        shown, through = self.seen.shown, self.seen.through
        lost = sorted((a, b) for a, b, kind in self.seen.hidden if kind == LOST)
        return LakeBounds(shown[0].sequence if shown else through + 1, through, tuple(lost))

    async def read(
        self, event_type: str, first: int, last: int, *, limit: int, wanted: Filter | None = None
    ) -> LakeBatch:
        """Visible rows, only the wanted ones."""
        rows = [row for row in self.seen.shown if first <= row.sequence <= last]
        if wanted is not None:
            rows = [row for row in rows if wanted.matches(row.notification)]
        following = rows[limit].sequence if len(rows) > limit else last + 1
        return LakeBatch(rows[:limit], following)

    async def first_since(self, event_type: str, ns: int) -> int | None:
        """By time."""
        return next((r.sequence for r in self.seen.shown if r.stored_at_ns >= ns), None)

    async def last_until(self, event_type: str, ns: int) -> int | None:
        """By time."""
        found = [r.sequence for r in self.seen.shown if r.stored_at_ns <= ns]
        return found[-1] if found else None

    async def hide(self, event_type: str, first: int, last: int, *, kind: str) -> None:
        """Hide for every process that looks from now on."""
        now = self.table.contents
        self.table.contents = replace(now, hidden=(*now.hidden, (first, last, kind)))

    async def event_types(self) -> Sequence[str]:
        """The one it is about."""
        return ["ev"] if self.table.contents.rows else []


_: type[LakeTier] = PlainLake
