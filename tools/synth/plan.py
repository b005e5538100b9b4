"""Which notifications a synthetic history has, and how it is cut into parts made independently.

Rules
- An hour of an event type is a part: its number of rows and its first sequence are known before
  any row is made. So parts can be made anywhere, in any order, and are the same bytes everywhere.
- Sequences of an event type begin at 1, have no holes, and follow the storage time.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import groupby

import numpy as np

from aviso_server.core.errors import AvisoError
from tools.synth.blocks import Ints
from tools.synth.eventtypes import EVENT_TYPES, HOUR_NS, arrivals

PER_DAY = 300_000
"""Notifications of an ordinary day."""

ROWS_PER_TASK = 400_000
"""Rows one task writes, unless a single hour has more; files of a day are cut accordingly."""

EPOCH = date(1970, 1, 1).toordinal()

MOST_DAYS = 40_000
MOST = 10**11
"""Bounds that keep the arithmetic within 64 bits."""


class BadPlan(AvisoError):
    """A history that cannot be made; the message says why."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A synthetic history; equal plans are equal histories."""

    start: date
    days: int
    count: int
    """Of notifications, all event types together."""
    seed: int = 0

    @classmethod
    def of(
        cls, start: date, *, days: int | None = None, count: int | None = None, seed: int = 0
    ) -> "Plan":
        """What is not given follows from an ordinary day; BadPlan where it makes no sense."""
        if days is not None and not 1 <= days <= MOST_DAYS:
            raise BadPlan(f"days is a number from 1 to {MOST_DAYS}, not {days}")
        if count is not None and not 1 <= count <= MOST:
            raise BadPlan(f"count is a number from 1 to {MOST}, not {count}")
        if not 0 <= seed < 2**63:
            raise BadPlan("seed is a number from 0 to 2**63 - 1")
        if days is None:
            days = 1 if count is None else -(-count // PER_DAY)
        last = date.max.toordinal() - 1
        if start.toordinal() <= EPOCH or start.toordinal() + days > last:
            raise BadPlan(f"{start} and {days} days: a history lies between 1970 and 9999")
        return cls(start, days, days * PER_DAY if count is None else count, seed)

    @property
    def first_hour(self) -> int:
        """Hours since the epoch."""
        return (self.start.toordinal() - EPOCH) * 24

    @property
    def end(self) -> date:
        """The day after the last."""
        return self.start + timedelta(days=self.days)


@dataclass(frozen=True, slots=True)
class Part:
    """An hour of an event type."""

    event_type: str
    hour: int
    """Since the epoch."""
    first: int
    """Sequence of its first row."""
    count: int
    """Rows, at least one."""

    @property
    def day(self) -> int:
        """Days since the epoch."""
        return self.hour // 24


def apportion(count: int, weights: Ints) -> Ints:
    """Shares of ``count`` in proportion to the weights; they add up to it exactly."""
    reached = np.cumsum(weights)
    if not len(weights) or reached[-1] == 0:
        return np.zeros(len(weights), np.int64)
    # Through Python's integers: a count times a weight may not fit into 64 bits.
    whole = int(reached[-1])
    edges = np.array([0, *(count * int(upto) // whole for upto in reached)], np.int64)
    return edges[1:] - edges[:-1]


def parts(plan: Plan) -> list[Part]:
    """All parts: by event type, and ascending in time within each."""
    weights = {name: _hourly(plan, name) for name in EVENT_TYPES}
    totals = np.array([hourly.sum() for hourly in weights.values()], np.int64)
    made: list[Part] = []
    for name, total in zip(weights, apportion(plan.count, totals).tolist(), strict=True):
        first = 1
        for hour, count in enumerate(apportion(total, weights[name]).tolist()):
            if count:
                made.append(Part(name, plan.first_hour + hour, first, count))
                first += count
    return made


def tasks(made: Iterable[Part], *, most: int = ROWS_PER_TASK) -> Iterator[list[Part]]:
    """Parts that are written together: of one event type and day, and not too many rows."""
    for _, together in groupby(made, key=lambda part: (part.event_type, part.day)):
        task: list[Part] = []
        rows = 0
        for part in together:
            if task and rows + part.count > most:
                yield task
                task, rows = [], 0
            task.append(part)
            rows += part.count
        yield task


def _hourly(plan: Plan, event_type: str) -> Ints:
    """The weight of each hour of the plan."""
    weights = np.zeros(plan.days * 24, np.int64)
    for number in range(plan.days):
        blocks = arrivals(plan.seed, event_type, plan.first_hour // 24 + number)
        hours = blocks.start_ns // HOUR_NS - plan.first_hour
        np.add.at(weights, hours, blocks.weight)
    return weights
