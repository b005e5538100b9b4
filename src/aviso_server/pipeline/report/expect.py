"""Which products are due and when, learned from earlier days; which are late or missing. Pure.

A *product* is what an identifier names apart from its date, such as stream enfo, step 24 of the
cycle at 06. Its *delay* is the time from the base time (date and time) to its first notification.

Rules, for each base day
- Only the days before it count, at most ``learn_days``, and none before the product's first one.
- A product is *expected* if it came on most of these days, or every time on this day of the week.
  So what is retired is missed for some days and then forgotten, and what is new is learned.
- Its *limit* is the median delay and a margin: three times the spread of the middle half of the
  delays, at least ``grace_s``. Median and middle half do not mind a few bad days, which a mean or
  a high percentile would.
- After its limit it is *late*. Never there and the limit is over: *missing*. Limit not over: *due*.
- What came though nothing was learned about it is *new*. It is counted, and never a finding.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

Ints: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"
Floats: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.float64]]"

ON_TIME, LATE, MISSING, DUE, NEW = "on time", "late", "missing", "due", "new"

DAY_S = 86_400
_WEEK = 7


@dataclass(frozen=True, slots=True)
class LearningRules:
    """What counts as expected, and as late."""

    learn_days: int = 28
    """Four weeks: every day of the week comes four times."""
    least: int = 7
    """Days that must have been seen before anything is expected."""
    least_weekly: int = 3
    """The same for one day of the week, for what does not come every day."""
    share: float = 0.9
    """Of the days on which a daily product came; a missed day or two do not end it."""
    spread: float = 3.0
    grace_s: float = 900.0
    """Ten minutes is not late."""


USUAL = LearningRules()


@dataclass(frozen=True, slots=True)
class Verdict:
    """A product on one base day."""

    day: int
    """Days since the epoch."""
    kind: str
    delay_s: float | None
    """From the base time; None if it is not there."""
    usual_s: float | None = None
    """The median that was learned."""
    limit_s: float | None = None

    @property
    def finding(self) -> bool:
        """Whether an operator wants to know."""
        return self.kind in (LATE, MISSING)


@dataclass(frozen=True, slots=True)
class Span:
    """Base days that are checked, and how much of the present is known."""

    first: int
    last: int
    """Inclusive, days since the epoch."""
    as_of_s: float
    """Seconds since the epoch: what was announced until then is known."""


def assess(
    days: Ints, delays: Floats, *, base_s: int, span: Span, rules: LearningRules = USUAL
) -> list[Verdict]:
    """Verdicts on one product from its base days and delays, in any order.

    If a day is given more than once its shortest delay counts. ``base_s`` is the base time, in
    seconds of the day.
    """
    order = np.lexsort((delays, days))
    seen, at = np.unique(days[order], return_index=True)
    came = delays[order][at]
    verdicts = []
    for day in range(span.first, span.last + 1):
        place = int(np.searchsorted(seen, day))
        delay = float(came[place]) if place < len(seen) and seen[place] == day else None
        earliest = int(np.searchsorted(seen, day - rules.learn_days))
        verdict = _verdict(day, delay, seen[earliest:place], came[earliest:place], rules)
        if verdict is None:
            continue
        if verdict.kind == MISSING and verdict.limit_s is not None:
            over = day * DAY_S + base_s + verdict.limit_s
            if over > span.as_of_s:
                verdict = Verdict(day, DUE, None, verdict.usual_s, verdict.limit_s)
        verdicts.append(verdict)
    return verdicts


def _verdict(
    day: int, delay: float | None, days: Ints, delays: Floats, rules: LearningRules
) -> Verdict | None:
    """As far as the day alone shows; None if nothing came and nothing was expected."""
    learned = _learned(day, days, delays, rules)
    if learned is None:
        return None if delay is None else Verdict(day, NEW, delay)
    low, usual, high = np.quantile(learned, (0.25, 0.5, 0.75))
    limit = float(usual + max(rules.grace_s, rules.spread * (high - low)))
    if delay is None:
        return Verdict(day, MISSING, None, float(usual), limit)
    return Verdict(day, LATE if delay > limit else ON_TIME, delay, float(usual), limit)


def _learned(day: int, days: Ints, delays: Floats, rules: LearningRules) -> "Floats | None":
    """The delays to learn from; None where the product is not expected on this day."""
    if not len(days):
        return None
    known = day - int(days[0])
    if len(days) >= rules.least and len(days) >= rules.share * known:
        return delays
    same = (day - days) % _WEEK == 0
    weeks = known // _WEEK
    if np.count_nonzero(same) >= max(rules.least_weekly, weeks):
        found: Floats = delays[same]
        return found
    return None
