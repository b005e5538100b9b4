"""Whether a cycle is late, from what arrived and what fell due. Pure.

Rules
- Only times of the log count: a part is late if it was not stored by the time it was due. So the
  verdict does not depend on how arrivals are cut into micro-batches, or on restarts between them.
- A cycle is late once: the first part that is late makes the alert, later ones do not.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Cycle:
    """What is remembered of the cycle of one day."""

    arrived: Mapping[str, int] = field(default_factory=dict)
    """When each part was stored first."""
    late: bool = False


@dataclass(frozen=True, slots=True)
class Lateness:
    """The first time that a cycle was late."""

    due: int
    parts: tuple[str, ...]
    """Those that were due then and were not there."""
    arrived: int
    """Parts that were there by then."""


def find_lateness(
    known: Cycle, arrivals: Iterable[tuple[str, int]], dues: Iterable[tuple[str, int]]
) -> tuple[Cycle, Lateness | None]:
    """The cycle after more is known: parts with storage times, parts with the times they are due.

    All arrivals stored up to a due time must be known before or with it.
    """
    arrived = dict(known.arrived)
    for part, at in arrivals:
        arrived[part] = min(at, arrived.get(part, at))
    if known.late:
        return Cycle(arrived, late=True), None
    missed = sorted((due, part) for part, due in dues if arrived.get(part, due + 1) > due)
    if not missed:
        return Cycle(arrived), None
    first = missed[0][0]
    lateness = Lateness(
        first,
        tuple(part for due, part in missed if due == first),
        sum(at <= first for at in arrived.values()),
    )
    return Cycle(arrived, late=True), lateness
