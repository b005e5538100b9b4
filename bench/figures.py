"""What was measured: single runs, the figure made of them, what was left out, and what failed."""

from dataclasses import dataclass
from statistics import median
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Run:
    """One timed run of a load."""

    items: int
    """Notifications stored, replayed or delivered."""
    wall_s: float
    server_cpu_s: float
    clients_cpu_s: tuple[float, ...]
    """CPU time per load process."""

    @property
    def rate(self) -> float:
        """Items per second of wall clock: what was reached on this machine, now."""
        return self.items / self.wall_s

    @property
    def rate_per_cpu(self) -> float:
        """Items per second of server CPU: steadier than the rate on a busy machine."""
        return self.items / self.server_cpu_s

    @property
    def server_share(self) -> float:
        """Share of one core the server used. Near 1: the server is the limit."""
        return self.server_cpu_s / self.wall_s

    @property
    def client_share(self) -> float:
        """Share of one core the busiest load process used. Near 1: the client is the limit."""
        return max(self.clients_cpu_s) / self.wall_s


@dataclass(frozen=True, slots=True)
class Figure:
    """A rate: the median of a few runs."""

    name: str
    unit: str
    runs: tuple[Run, ...]
    goal: float | None = None
    """What the design aims for, in the unit."""

    @property
    def middle(self) -> Run:
        """The run with the median rate; of two middle ones the slower."""
        return sorted(self.runs, key=lambda run: run.rate)[(len(self.runs) - 1) // 2]


@dataclass(frozen=True, slots=True)
class Value:
    """Something measured that is not a rate of a load: a latency, a size, a cost."""

    name: str
    unit: str
    samples: tuple[float, ...]

    @property
    def middle(self) -> float:
        """The median."""
        return median(self.samples)


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that was not measured, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """Something that must hold and did not."""

    name: str
    reason: str


Item: TypeAlias = Figure | Value | Skipped | Failed
"""A line of the report."""
