"""What a piece of work costs, in processor time and measured against itself: never by the clock.

Two sizes of the same work are compared in one run, so that a slow or busy machine changes both.
"""

from collections.abc import Callable
from time import thread_time_ns
from typing import TypeVar

Input = TypeVar("Input")

GROWTH = 8.0
"""Four times the size may cost so many times as much: linear is 4, quadratic is 16."""

_ATTEMPTS = 5
_LOOP = 20_000


def cpu_ns(action: Callable[[], object], *, attempts: int = _ATTEMPTS) -> int:
    """Processor time of this thread; the least of some attempts, since others use the caches."""
    spent = []
    for _ in range(attempts):
        begun = thread_time_ns()
        action()
        spent.append(thread_time_ns() - begun)
    return min(spent)


def loop_ns() -> int:
    """The same for a plain loop of 20 000 steps: a measure of this machine, about a millisecond."""
    return cpu_ns(lambda: [step * 2 for step in range(_LOOP)])


def assert_linear(
    act: Callable[[Input], object], make: Callable[[int], Input], *, size: int
) -> None:
    """Work on an input of four times the size costs about four times as much."""
    small, large = make(size), make(4 * size)
    # What is done in a fraction of the loop is too little to be compared.
    floor = loop_ns() / 4
    cost = cpu_ns(lambda: act(large))
    base = max(floor, cpu_ns(lambda: act(small)))
    assert cost < GROWTH * base, f"{cost / base:.1f} times the cost for 4 times the size"
